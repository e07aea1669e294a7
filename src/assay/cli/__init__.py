"""The command line: `assay COMMAND …`, one file for each command."""

from assay.cli.dispatch import main

__all__ = ["main"]
