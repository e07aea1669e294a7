"""`assay settings`: every environment variable."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

from assay import settings
from assay.cli.command import GOOD, NO, Command, Parser, near
from assay.errors import RequestError


def _declare(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


@dataclass(frozen=True)
class Row:
    """A variable: the value in force, or None and what is wrong."""

    variable: str
    value: str | int | None
    meaning: str
    accepted: str
    wrong: str = ""


def _row(setting: settings.Setting[object]) -> Row:
    try:
        value = setting.get()
    except RequestError as error:
        wrong = f"{error.got} can't be read" if error.got.startswith("'") else error.got
        return Row(setting.name, None, setting.help, setting.want, wrong)
    kept = int(value) if isinstance(value, int) else str(value)
    return Row(setting.name, kept, setting.help, setting.want)


def _run(arguments: argparse.Namespace) -> int:
    rows = [_row(setting) for setting in settings.ALL]
    known = [row.variable for row in rows]
    rows += [
        Row(name, None, "", "", f"nothing reads this variable{near(name, known)}")
        for name in settings.unknown()
    ]
    if arguments.json:
        print(json.dumps([vars(row) for row in rows]))
    else:
        print("\n".join(_table(rows)))
    return NO if any(row.wrong for row in rows) else GOOD


def _table(rows: list[Row]) -> list[str]:
    lines = [("variable", "value", "meaning", "accepted")]
    lines += [(row.variable, row.wrong or str(row.value), row.meaning, row.accepted) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


COMMAND = Command(
    "settings",
    "Print every environment variable that is read, the value in force, and its meaning.",
    ("assay settings", "ASSAY_THREADS=2 assay settings", "assay settings --json"),
    _declare,
    _run,
    "Exit code 1 when a value can't be read, or there is an ASSAY_ variable that nothing reads.",
)
