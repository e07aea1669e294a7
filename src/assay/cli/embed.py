"""Print the vectors of texts, each a line of JSON.

A line is an array of numbers. A text's vector is the same whatever the others are.

    assay embed minilm "A cat sits outside." "Eine Katze sitzt draußen."
    assay embed minilm --file sentences.txt > vectors.jsonl
    cut -f2 table.tsv | assay embed ./model --file - --truncate
"""

from __future__ import annotations

import json

from assay.cli import options, streams
from assay.cli.command import Argument, Values
from assay.cli.model import load_any
from assay.errors import RequestError, within
from assay.models.pooling import KINDS

ARGUMENTS = (
    *options.LOADING,
    Argument("texts", "a text", "TEXT", nargs="*"),
    Argument("--file", "more texts, one a line; - reads standard input", "F"),
    Argument("--pooling", "instead of the model's own", "|".join(KINDS), options.one_of(KINDS)),
    Argument("--truncate", "cut texts that are too long"),
)


def run(arguments: Values) -> None:
    texts = arguments.texts
    if arguments.file:
        with within("--file"):
            texts += streams.read(arguments.file).removesuffix("\n").split("\n")
    if not texts:
        raise RequestError("nothing to embed", place="TEXT", want="a text, or --file")
    model = load_any(arguments)
    if not hasattr(model, "embed"):
        rule, hint = "this model's files say of no vectors", "assay run answers with it"
        raise RequestError(rule, place=arguments.model, hint=hint)
    for vector in model.embed(texts, pooling=arguments.pooling, truncate=arguments.truncate):
        # A float32's own digits: a float of Python would show twice as many.
        print(json.dumps([float(str(value)) for value in vector]))
