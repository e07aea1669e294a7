"""How well a model predicts a text; how far that is from another model.

The text is cut into windows of --context tokens that don't overlap, each begun with the token that
begins texts if the model has one. Perplexity is over the second half of each window, each token
after those before it in its window: the figure of llama.cpp's perplexity tool. Divergence is
Kullback-Leibler's, of the model from the other one, at the same tokens. What --against names is
run without --adapter.

    assay eval smollm2 book.txt
    assay eval smollm2 book.txt --against-activations float32
    assay eval ./q4_0.gguf book.txt --against ./f16.gguf --json
    assay eval ./model book.txt --adapter ./adapter --against ./model
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assay.cli import options, streams
from assay.cli.command import Argument, Report, Values
from assay.cli.model import load_model
from assay.cli.progress import Bars
from assay.cli.text import figures, table
from assay.errors import RequestError, within

if TYPE_CHECKING:
    from assay.audit.evaluation import Evaluation
    from assay.llm.language_model import LanguageModel
    from assay.llm.tokenizer import Tokenizer

BEFORE = 12
"""Tokens shown before a place where models differ."""
ARGUMENTS = (
    *options.LOADING,
    options.ADAPTER,
    Argument("file", "the text, in UTF-8; - reads standard input"),
    Argument("--context", "tokens of a window", "N", options.whole(4), 512),
    Argument("--against", "the model to compare with; default: the same", "OTHER"),
    Argument("--against-activations", "of the other; default: as the first", "TYPE", options.MODES),
    Argument("--worst", "places to show where they differ most; default: 5", "N", options.whole(0)),
    options.JSON,
)


def run(arguments: Values) -> Report:
    from assay.audit.evaluation import evaluate, windows

    with within("FILE"):
        text = streams.read(arguments.file)
    asked = [arguments]
    if arguments.against or arguments.against_activations:
        other = {"activations": arguments.against_activations or arguments.activations}
        other |= {"model": arguments.against, "adapter": None} if arguments.against else {}
        asked.append(Values(**{**vars(arguments), **other}))
    if len(asked) == 1 and arguments.worst is not None:
        want = "--against, or --against-activations"
        raise RequestError("there is nothing to compare with", place="--worst", want=want)
    arguments.worst = 5 if arguments.worst is None else arguments.worst
    models = [load_model(each) for each in asked]
    tokens, tokenizer = _tokens(models, text), models[0].tokenizer
    cut = windows(tokens, arguments.context, tokenizer.bos_id if tokenizer.adds_bos else None)
    if not cut:
        want, got = f"at least {arguments.context} tokens, a window", str(len(tokens))
        hint = f"--context {got} makes windows shorter" if len(tokens) >= 4 else ""
        raise RequestError("the text is too short", place="FILE", want=want, got=got, hint=hint)
    logits = [partial(lm.logits, adapter=each.adapter) for lm, each in zip(models, asked, strict=True)]
    with Bars() as progress:
        found = evaluate(logits, cut, partial(progress.count, "scoring the text", "windows"))
    ways = [", ".join(filter(None, (each.activations, each.adapter))) for each in asked]
    names = [f"{each.model} ({way})" for each, way in zip(asked, ways, strict=True)]
    report: dict[str, object] = {
        "file": arguments.file,
        "context": arguments.context,
        "models": names,
        "perplexity": found.perplexity,
        "scored_tokens": len(found.position),
    }
    worst: list[Place] = []
    if len(models) > 1:
        order = np.argsort(-found.divergence, kind="stable")[: arguments.worst].tolist()
        worst = [_place(found, index, tokens, tokenizer, arguments.context) for index in order]
        report |= {
            "divergence_mean": float(found.divergence.mean()),
            "divergence_max": float(found.divergence.max()),
            "same_likeliest_token": found.agreement,
            "worst": [place._asdict() for place in worst],
        }
    return Report(report, _lines(report, found, names, worst))


def _tokens(models: list[LanguageModel], text: str) -> list[int]:
    """The text's tokens. Raises RequestError unless the models have the same ones."""
    tokenizers = [lm.tokenizer for lm in models]
    found = [each.encode(text, bos=each.adds_bos, eos=each.adds_eos) for each in tokenizers]
    spelt = [[*map(each.token_bytes, range(each.vocabulary_size))] for each in tokenizers]
    if (found[0], spelt[0]) != (found[-1], spelt[-1]):
        raise RequestError("models with different tokens can't be compared", place="--against")
    return found[0]


class Place(NamedTuple):
    """Where the models differ: the text before it, the token there, and what each said of it."""

    divergence: float
    position: int
    before: str
    token: str
    surprise: list[float]
    likeliest: list[str]


def _place(found: Evaluation, index: int, tokens: list[int], tokenizer: Tokenizer, context: int) -> Place:
    at, divergence = int(found.position[index]), float(found.divergence[index])
    read = partial(tokenizer.decode, skip_special=False)
    before, token = read(tokens[max(at - at % context, at - BEFORE) : at]), read([tokens[at]])
    likeliest = [read([each]) for each in found.likeliest[:, index].tolist()]
    return Place(divergence, at, before, token, found.surprise[:, index].tolist(), likeliest)


def _lines(data: dict[str, object], found: Evaluation, names: list[str], worst: list[Place]) -> Iterator[str]:
    """The report for people: each model's figures beside its name."""
    yield from figures({name: value for name, value in data.items() if not isinstance(value, list)})
    yield "perplexity:"
    yield from table(zip((f"  {name}" for name in names), found.perplexity, strict=True))
    for place in worst:
        yield f"position {place.position}, divergence {place.divergence:.6g} nats:"
        yield f"  {place.before!r} and then {place.token!r}"
        for name, nats, token in zip(names, place.surprise, place.likeliest, strict=True):
            yield f"  {name}: surprise {nats:.6g} nats, likeliest {token!r}"
