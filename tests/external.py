"""Installs what the tests marked `external` need from the system's packages: `python tests/external.py`, then
`python -m pytest -m external`. Without it they are skipped, and counted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

PROGRAMS = {"redis-server": "redis-server", "chromium": "chromium", "node": "nodejs", "npm": "npm"}
"""Programs, and Debian's packages that have them."""


def main() -> int:
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not missing:
        return 0
    if shutil.which("apt-get") is None:
        print(f"install these by your system's means: {', '.join(missing)}", file=sys.stderr)
        return 1
    subprocess.run(["apt-get", "update", "-q"], check=False)
    return subprocess.run(["apt-get", "install", "-y", "-q", *missing], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
