"""`assay embed`: vectors of texts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from assay.cli import options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import load_any
from assay.errors import RequestError
from assay.models.pooling import KINDS


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="a text")
    parser.add_argument("--file", metavar="F", help="more texts, one a line; - reads standard input")
    parser.add_argument(
        "--pooling", type=options.one_of(KINDS), metavar="|".join(KINDS), help="instead of the model's own"
    )
    parser.add_argument("--truncate", action="store_true", help="cut texts that are too long")


def _run(arguments: argparse.Namespace) -> int:
    texts = arguments.texts + (_lines(arguments.file) if arguments.file else [])
    if not texts:
        raise RequestError("nothing to embed", place="TEXT", want="a text, or --file")
    model = load_any(arguments)
    if not hasattr(model, "embed"):
        rule, hint = "this model's files say of no vectors", "assay run answers with it"
        raise RequestError(rule, place=arguments.model, hint=hint)
    for vector in model.embed(texts, pooling=arguments.pooling, truncate=arguments.truncate):
        # A float32's own digits: a float of Python would show twice as many.
        print(json.dumps([float(str(value)) for value in vector]))
    return GOOD


def _lines(name: str) -> list[str]:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode().removesuffix("\n").split("\n")
    except (OSError, UnicodeError) as error:
        raise RequestError("no such texts", place=name, want="lines of UTF-8", got=str(error)) from None


COMMAND = Command(
    "embed",
    "Print the vectors of texts, each a line of JSON.",
    (
        'assay embed minilm "A cat sits outside." "Eine Katze sitzt draußen."',
        "assay embed minilm --file sentences.txt > vectors.jsonl",
        "cut -f2 table.tsv | assay embed ./model --file - --truncate",
    ),
    _declare,
    _run,
    "A line is an array of numbers. A text's vector is the same whatever the others are.",
)
