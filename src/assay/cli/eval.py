"""`assay eval`: how well a model predicts a text, and how far that is from another one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.cli import options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import load_model
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.llm.options import ACTIVATIONS

if TYPE_CHECKING:
    from assay.audit.evaluation import Evaluation
    from assay.llm.language_model import LanguageModel
    from assay.llm.tokenizer import Tokenizer

BEFORE = 12
"""Tokens shown before a place where models differ."""


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    whole, ways = options.whole, options.one_of(ACTIVATIONS)
    parser.add_argument("file", metavar="FILE", help="the text, in UTF-8")
    parser.add_argument("--context", type=whole(4), default=512, metavar="N", help="tokens of a window (512)")
    parser.add_argument("--against", metavar="OTHER", help="the model to compare with (default: the same)")
    how = "how to run the other (default: as the first)"
    parser.add_argument("--against-activations", type=ways, metavar="|".join(ACTIVATIONS), help=how)
    parser.add_argument("--worst", type=whole(0), default=5, metavar="N", help="places to show (5)")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    from assay.audit.evaluation import evaluate, windows

    text = _text(arguments.file)
    asked = [arguments]
    if arguments.against or arguments.against_activations:
        asked.append(argparse.Namespace(**vars(arguments)))
        asked[1].model = arguments.against or arguments.model
        asked[1].activations = arguments.against_activations or arguments.activations
    models = [load_model(each, guesses=False, prefix_cache=False) for each in asked]
    tokens, tokenizer = _tokens(models, text), models[0].tokenizer
    cut = windows(tokens, arguments.context, tokenizer.bos_id if tokenizer.adds_bos else None)
    if not cut:
        want = f"at least {arguments.context} tokens, a window"
        raise RequestError("the text is too short", place="FILE", want=want, got=str(len(tokens)))
    with Bars() as progress:
        found = evaluate([lm.logits for lm in models], cut, progress.evaluate)
    worst = np.argsort(-found.divergence, kind="stable")[: arguments.worst].tolist()
    figures: dict[str, object] = {
        "models": [f"{each.model} ({each.activations})" for each in asked],
        "perplexity": found.perplexity,
        "scored_tokens": len(found.position),
    }
    if len(models) > 1:
        figures["divergence_mean"] = float(found.divergence.mean())
        figures["divergence_max"] = float(found.divergence.max())
        figures["same_likeliest_token"] = found.agreement
        figures["worst"] = [_place(found, index, tokens, tokenizer, arguments.context) for index in worst]
    if arguments.json:
        print(json.dumps({"file": arguments.file, "context": arguments.context, **figures}))
        return GOOD
    for name, value in figures.items():
        rows = value if isinstance(value, list) else [value]
        print(f"{name.replace('_', ' ')}:", *rows, sep="\n  " if name == "worst" else "  ")
    return GOOD


def _text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeError) as error:
        raise RequestError("not a text", place="FILE", want="a file of UTF-8", got=str(error)) from None


def _tokens(models: list[LanguageModel], text: str) -> list[int]:
    """The text's tokens. Raises RequestError unless the models have the same ones."""
    tokenizers = [lm.tokenizer for lm in models]
    found = [each.encode(text, bos=each.adds_bos, eos=each.adds_eos) for each in tokenizers]
    spelt = [[*map(each.token_bytes, range(each.vocabulary_size))] for each in tokenizers]
    if (found[0], spelt[0]) != (found[-1], spelt[-1]):
        raise RequestError("models with different tokens can't be compared", place="--against")
    return found[0]


def _place(
    found: Evaluation, index: int, tokens: list[int], tokenizer: Tokenizer, context: int
) -> dict[str, object]:
    """A place where the models differ: the text before it, the token there, and what each said of it."""
    at = int(found.position[index])
    likeliest = found.likeliest[:, index].tolist()
    return {
        "divergence": float(found.divergence[index]),
        "position": at,
        "before": tokenizer.decode(tokens[max(at - at % context, at - BEFORE) : at], skip_special=False),
        "token": tokenizer.decode([tokens[at]], skip_special=False),
        "surprise": found.surprise[:, index].tolist(),
        "likeliest": [tokenizer.decode([token], skip_special=False) for token in likeliest],
    }


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
