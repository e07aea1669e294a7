"""The command line: `assay COMMAND …`, one file for each command."""

import os
import sys

__all__ = ["main"]


def main() -> int:
    """Run this process's command line and return its exit code. Ctrl-C ends the process, at any moment."""
    try:
        # Nothing stands before this, so that an early Ctrl-C is seen here.
        from assay.cli import interrupt

        interrupt.end_at_once()
        from assay.cli.dispatch import execute

        return execute(sys.argv[1:])
    except KeyboardInterrupt:
        os.write(2, b"\n")
        os._exit(130)
