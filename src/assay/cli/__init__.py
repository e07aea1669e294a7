"""The command line: `assay COMMAND …`, one file for each command."""

import sys

from assay.cli import interrupt

__all__ = ["main"]


def main() -> int:
    """Run this process's command line and return its exit code. Ctrl-C ends the process, at any moment."""
    interrupt.end_at_once()
    try:
        from assay.cli.dispatch import execute

        return execute(sys.argv[1:])
    except KeyboardInterrupt:
        interrupt.end()
