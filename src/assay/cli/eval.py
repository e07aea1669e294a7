"""`assay eval`: how well a model predicts a text, and how far that is from another one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli import options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import load_model
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.llm.options import ACTIVATIONS

if TYPE_CHECKING:
    from assay.audit.evaluation import Evaluation
    from assay.llm.language_model import LanguageModel

BEFORE = 12
"""Tokens shown before a place where models differ."""


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    whole = options.whole
    parser.add_argument("file", metavar="FILE", help="the text, in UTF-8")
    parser.add_argument("--context", type=whole(4), default=512, metavar="N", help="tokens of a window (512)")
    parser.add_argument("--against", metavar="OTHER", help="the model to compare with (default: the same)")
    parser.add_argument(
        "--against-activations",
        type=options.one_of(ACTIVATIONS),
        metavar="|".join(ACTIVATIONS),
        help="how to run the other (default: as the first)",
    )
    parser.add_argument("--worst", type=whole(0), default=5, metavar="N", help="places to show (5)")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    from assay.audit.evaluation import evaluate, windows

    text = _text(arguments.file)
    names = [f"{arguments.model} ({arguments.activations})"]
    models = [load_model(arguments, guesses=False, prefix_cache=False)]
    if arguments.against or arguments.against_activations:
        other = argparse.Namespace(**vars(arguments))
        other.model = arguments.against or arguments.model
        other.activations = arguments.against_activations or arguments.activations
        names.append(f"{other.model} ({other.activations})")
        models.append(load_model(other, guesses=False, prefix_cache=False))
    tokens = _tokens(models, text)
    tokenizer = models[0].tokenizer
    cut = windows(tokens, arguments.context, tokenizer.bos_id if tokenizer.adds_bos else None)
    if not cut:
        want, got = f"at least {arguments.context} tokens, a window", f"{len(tokens)}"
        raise RequestError("the text is too short", place="FILE", want=want, got=got, hint="--context")
    with Bars() as progress:
        found = evaluate(models, cut, progress.evaluate)
    places = [
        _place(found, index, tokens, models[0], arguments.context) for index in found.worst(arguments.worst)
    ]
    figures: dict[str, object] = {
        "file": arguments.file,
        "context": arguments.context,
        "windows": len(cut),
        "scored": len(found.positions),
        "models": [
            {"name": name, "perplexity": model.perplexity, "error": model.error}
            for name, model in zip(names, found.models, strict=True)
        ],
    }
    if len(models) > 1:
        mean, most = float(found.divergence.mean()), float(found.divergence.max())
        figures["divergence"] = {"mean": mean, "max": most}
        figures |= {"agreement": found.agreement, "worst": places}
    print(
        json.dumps(figures, ensure_ascii=False) if arguments.json else "\n".join(_lines(names, found, places))
    )
    return GOOD


def _text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeError) as error:
        raise RequestError("not a text", place="FILE", want="a file of UTF-8", got=str(error)) from None


def _tokens(models: list[LanguageModel], text: str) -> list[int]:
    """The text's tokens. Raises RequestError unless the models have the same ones."""
    found = []
    for lm in models:
        every = map(lm.tokenizer.token_bytes, range(lm.tokenizer.vocabulary_size))
        bos, eos = lm.tokenizer.adds_bos, lm.tokenizer.adds_eos
        found.append((lm.tokenizer.encode(text, bos=bos, eos=eos), [*every]))
    if found[0] != found[-1]:
        raise RequestError("models with different tokens can't be compared", place="--against")
    return found[0][0]


def _place(
    found: Evaluation, index: int, tokens: list[int], lm: LanguageModel, context: int
) -> dict[str, object]:
    """A place where the models differ: the text before it, the token there, and what each said of it."""
    at = int(found.positions[index])

    def shown(*ids: int) -> str:
        return lm.tokenizer.decode(ids, skip_special=False)

    return {
        "divergence": float(found.divergence[index]),
        "position": at,
        "before": shown(*tokens[max(at - at % context, at - BEFORE) : at]),
        "token": shown(tokens[at]),
        "surprise": [float(model.surprise[index]) for model in found.models],
        "likeliest": [shown(int(model.likeliest[index])) for model in found.models],
    }


def _lines(names: list[str], found: Evaluation, places: list[dict[str, object]]) -> Iterator[str]:
    for name, model in zip(names, found.models, strict=True):
        yield f"perplexity {model.perplexity:.4f} ± {model.error:.4f}  {name}"
    yield f"{len(found.positions):,} tokens scored"
    if len(names) > 1:
        mean, most = found.divergence.mean(), found.divergence.max()
        yield f"divergence from the other: mean {mean:.6f}, max {most:.6f} nats"
        yield f"same likeliest token: {found.agreement:.2%}"
        for place in places:
            yield f"  {place['divergence']:.6f} at token {place['position']}"
            yield f"    {place['before']!r} → {place['token']!r}, likeliest {place['likeliest']}"


COMMAND = Command(
    "eval",
    "How well a model predicts a text; how far that is from another model.",
    (
        "assay eval smollm2 book.txt",
        "assay eval smollm2 book.txt --against-activations float32",
        "assay eval ./q4_0.gguf book.txt --against ./f16.gguf --json",
    ),
    _declare,
    _run,
    "The text is cut into windows of --context tokens that don't overlap, each begun with the token that\n"
    "begins texts if the model has one. Perplexity is over the second half of each window, each token\n"
    "after those before it in its window: the figure of llama.cpp's perplexity tool. Divergence is\n"
    "Kullback-Leibler's, of the model from the other one, at the same tokens.",
)
