"""Print every environment variable that is read, the value in force, and its meaning.

Exit code 1 when a value can't be read, or there is an ASSAY_ variable that nothing reads.

    assay settings
    ASSAY_THREADS=2 assay settings
    assay settings --json
"""

from __future__ import annotations

from assay import settings
from assay.cli import options
from assay.cli.command import GOOD, NO, Report, Values
from assay.cli.text import table
from assay.errors import RequestError, near

ARGUMENTS = (options.JSON,)
Row = dict[str, str | int | None]
"""A variable: the value in force, or None and what is wrong."""


def _row(setting: settings.Setting[object]) -> Row:
    row: Row = {"variable": setting.name, "value": None, "meaning": setting.help, "accepted": setting.want}
    try:
        value = setting.get()
    except RequestError as error:
        return row | {"wrong": f"{error.rule}: {error.got}"}
    return row | {"value": int(value) if isinstance(value, int) else str(value), "wrong": ""}


def run(arguments: Values) -> Report:
    rows = [_row(setting) for setting in settings.ALL]
    known = [setting.name for setting in settings.ALL]
    for name in settings.unknown():
        wrong = f"nothing reads this variable{near(name, known, '; ')}"
        rows.append({"variable": name, "value": None, "meaning": "", "accepted": "", "wrong": wrong})
    cells = [(row["variable"], row["wrong"] or row["value"], row["meaning"], row["accepted"]) for row in rows]
    text = table([("variable", "value", "meaning", "accepted"), *cells], left=4)
    return Report(rows, text, NO if any(row["wrong"] for row in rows) else GOOD)
