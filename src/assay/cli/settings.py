"""`assay settings`: every environment variable."""

from __future__ import annotations

import argparse

from assay import settings
from assay.cli.command import GOOD, NO, Command, Parser
from assay.errors import RequestError


def _declare(parser: Parser) -> None:
    """No arguments."""


def _run(arguments: argparse.Namespace) -> int:
    rows = [("variable", "value", "meaning", "accepted")]
    code = GOOD
    for setting in settings.ALL:
        try:
            value = str(setting.get())
        except RequestError as error:
            value, code = f"{error.got} can't be read", NO
        rows.append((setting.name, value, setting.help, setting.want))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return code


COMMAND = Command(
    "settings",
    "Print every environment variable that is read, the value in force, and its meaning.",
    ("assay settings", "ASSAY_THREADS=2 assay settings"),
    _declare,
    _run,
    "Exit code 1 when a value can't be read.",
)
