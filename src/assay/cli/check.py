"""Hold a model's file against the contracts of its operators, before anything runs.

All violations are told at once, each with its line in `assay show`. Exit code 1 when there are any.

    assay check model.onnx
    assay check model.onnx --json
    assay check model.onnx --sarif > model.sarif
"""

from __future__ import annotations

import json

from assay.cli import interrupt, options
from assay.cli.command import GOOD, NO, Argument, Report, Values
from assay.cli.progress import Bars
from assay.errors import RequestError

ARGUMENTS = (
    options.MODEL,
    options.JSON,
    Argument("--sarif", "in SARIF 2.1.0, for tools that show what checkers found"),
)


def run(arguments: Values) -> Report:
    from assay.audit.report import check

    if arguments.json and arguments.sarif:
        raise RequestError("two forms of a report", place="--sarif", want="--json or --sarif", got="both")
    with Bars() as progress, interrupt.raises():
        found = check(arguments.model, progress.download)
    text = json.dumps(found.sarif()) if arguments.sarif else str(found)
    return Report(found.json(), text.splitlines(), GOOD if found.ok else NO)
