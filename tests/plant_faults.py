"""Plants faults in a copy of the tree, one at a time, and says which of them the tests catch.

    python tests/plant_faults.py [number …]

Not a test itself: it takes some minutes. A fault is caught when the tests near to it fail, or don't end.
Prints a table and exits with 1 if more than two of thirty are missed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from faults import GROUPS

ROOT = Path(__file__).parents[1]
LIMIT = 300
"""Seconds after which tests that don't end count as failed."""
TOLERATED = 2 / 30


@dataclass(frozen=True)
class Fault:
    """`old`, which stands once in the file, becomes `new`; `tests` are pytest's arguments."""

    file: str
    old: str
    new: str
    tests: str


FAULTS = tuple(Fault(*change, tests) for tests, changes in GROUPS for change in changes)


def planted(fault: Fault, tree: Path) -> None:
    """Write the fault into the tree. Raises ValueError when the line it wants isn't there, or not alone."""
    path = tree / "src" / "assay" / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.file}: {text.count(fault.old)} times: {fault.old}")
    path.write_text(text.replace(fault.old, fault.new))


def caught(fault: Fault, cache: Path) -> str:
    """The first test that fails, or nothing."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        tree = Path(folder)
        ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, tree / part, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", tree)
        planted(fault, tree)
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree / "src"),
            "ASSAY_CACHE": str(cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = f"{sys.executable} -m pytest -x -p no:cacheprovider {fault.tests}"
        with subprocess.Popen(
            command, shell=True, cwd=tree, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as child:  # fmt: skip
            try:
                output, _ = child.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                return f"no end after {LIMIT} s"
        if child.returncode == 0:
            return ""
        if child.returncode < 0 or child.returncode > 128:
            return "the process died"
        failed = re.search(r"^(?:FAILED|ERROR) \S*?(\w+\.py)(?:::)?(\S*)", output, re.MULTILINE)
        if failed is None:
            raise RuntimeError(f"{fault.file}: pytest itself failed\n{output[-3000:]}")
        return f"{failed[1]} {failed[2]}"


def main() -> int:
    chosen = [int(word) for word in sys.argv[1:]] or range(1, len(FAULTS) + 1)
    cache = Path(tempfile.mkdtemp(prefix="fault-cache-"))
    models = Path(os.environ.get("ASSAY_CACHE", "~/.cache/assay")).expanduser() / "models"
    if models.exists():
        (cache / "models").symlink_to(models)
    missed = 0
    print(f"{'':3} {'file':<24} {'fault':<66} {'s':>4}  caught by")
    for number in chosen:
        fault = FAULTS[number - 1]
        began = time.monotonic()
        by = caught(fault, cache)
        missed += not by
        change = f"{fault.old.strip()} → {fault.new.strip() or '∅'}".replace("\n", " ")
        change = change if len(change) <= 66 else change[:65] + "…"
        spent = time.monotonic() - began
        print(f"{number:3} {fault.file:<24} {change:<66} {spent:4.0f}  {by or 'MISSED'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    shutil.rmtree(cache)
    return int(missed > TOLERATED * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
