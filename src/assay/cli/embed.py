"""Print the vectors of texts, each a line of JSON.

A line is an array of numbers. A text's vector is the same whatever the others are.

    assay embed minilm "A cat sits outside." "Eine Katze sitzt draußen."
    assay embed minilm --file sentences.txt > vectors.jsonl
    cut -f2 table.tsv | assay embed ./model --file - --truncate
"""

from __future__ import annotations

import json
import sys

from assay.cli import options, streams
from assay.cli.command import Argument, Values
from assay.cli.model import load_any
from assay.cli.progress import Bars
from assay.errors import RequestError, within
from assay.models.pooling import KINDS

CHUNK = 256
"""Texts whose vectors are in memory at once."""
ARGUMENTS = (
    *options.LOADING,
    Argument("texts", "texts to embed", "TEXT", nargs="*"),
    Argument("--file", "more texts, one a line; - reads standard input", "FILE"),
    Argument("--pooling", "instead of the model's own", "|".join(KINDS), options.one_of(KINDS)),
    Argument("--truncate", "cut texts that are too long"),
)


def run(arguments: Values) -> None:
    texts = arguments.texts
    places = [f"TEXT {number}" for number in range(1, len(texts) + 1)]
    if arguments.file:
        with within("--file"):
            content = streams.read(arguments.file)
        lines = content.removesuffix("\n").split("\n") if content else []
        texts += lines
        places += [f"--file › line {number}" for number in range(1, len(lines) + 1)]
    if not texts:
        raise RequestError("nothing to embed", place="TEXT", want="a text, or --file with a line")
    model = load_any(arguments)
    if not hasattr(model, "embed"):
        hint = "assay run answers with it"
        raise RequestError("this model is no embedder", place=arguments.model, hint=hint)
    with Bars() as progress:
        for first in range(0, len(texts), CHUNK):
            if not sys.stdout.isatty():  # else the vectors show how far it is
                progress.count("embedding", "texts", first, len(texts))
            chunk = texts[first : first + CHUNK]
            try:
                vectors = model.embed(chunk, pooling=arguments.pooling, truncate=arguments.truncate)
            except RequestError as error:
                error.place = error.place.replace("pooling", "--pooling")
                for index, place in enumerate(places[first : first + CHUNK]):
                    error.place = error.place.replace(f"texts[{index}]", place)
                error.hint = error.hint.replace("truncate ", "--truncate ")
                raise
            for vector in vectors:
                # A float32's own digits: a float of Python would show twice as many.
                print(json.dumps([float(str(value)) for value in vector]))
            sys.stdout.flush()
