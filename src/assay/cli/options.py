"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from assay.cli.command import Parser, near
from assay.errors import RequestError
from assay.llm.options import ACTIVATIONS, QUANTIZE

if TYPE_CHECKING:
    from assay.llm.request import SamplingFields

T = TypeVar("T")
MODEL = (
    "a name from the catalogue (smollm2), a path to a .gguf file or to a folder with safetensors, or "
    "pypi:package/path-in-wheel"
)


def wrong(rule: str, want: str, text: str) -> argparse.ArgumentTypeError:
    """What a type of argument raises for a text that it can't read."""
    return argparse.ArgumentTypeError(str(RequestError(rule, want=want, got=repr(text))))


def whole(low: int) -> Callable[[str], int]:
    """A type of argument: an integer of at least `low`."""

    def integer(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) < low:
            raise wrong("not such an integer", f"an integer of at least {low}", text)
        return int(text)

    return integer


def number(text: str) -> float:
    """A type of argument: a number."""
    try:
        return float(text)
    except ValueError:
        raise wrong("not a number", "a number", text) from None


def bias(text: str) -> tuple[int, float]:
    """A type of argument: a token's id, a colon, and what is added to its logit."""
    token, colon, amount = text.partition(":")
    if not colon:
        raise wrong("not a bias", "a token's id, a colon and a number: 42:-100", text)
    return whole(0)(token), number(amount)


def content(text: str) -> str:
    """A type of argument: a file, of which the text is wanted."""
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise wrong("not a file that can be read", "a text file", text) from None


SAMPLING: tuple[tuple[str, Callable[[str], object], str, str], ...] = (
    ("temperature", number, "X", "0 takes the likeliest token, more varies (default: 0)"),
    ("top_k", whole(0), "N", "draw from the N likeliest (0: all)"),
    ("min_p", number, "X", "draw from those at least X times as likely as the likeliest"),
    ("typical_p", number, "X", "draw from those nearest to the entropy, with this probability"),
    ("top_p", number, "X", "draw from the likeliest with this probability"),
    ("repetition_penalty", number, "X", "above 1: avoid what was in the prompt or the answer"),
    ("presence_penalty", number, "X", "-2 to 2: avoid tokens that were in the answer"),
    ("frequency_penalty", number, "X", "-2 to 2: avoid them more the more often they were"),
    ("min_tokens", whole(0), "N", "don't end before the answer has N tokens"),
    ("json_schema", content, "FILE", "hold the answer to this JSON schema"),
    ("regex", str, "RE", "hold the answer to this regular expression"),
)
"""Fields of `Sampling`, how they are read, and what they mean."""


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """A type of argument: one of these names."""

    def name(text: str) -> str:
        if text not in names:
            raise wrong(f"no such choice{near(text, names)}", " | ".join(names), text)
        return text

    return name


def several(one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """A type of argument: some of that type, with commas between."""
    return lambda text: tuple(map(one, text.split(",")))


def add_model(parser: Parser) -> None:
    """MODEL and how to run it."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "--threads",
        type=whole(1),
        metavar="N",
        help="threads (default: all processors, or ASSAY_THREADS); the answer doesn't depend on it",
    )
    parser.add_argument(
        "--quantize",
        type=one_of(QUANTIZE),
        metavar="TYPE",
        help=f"round plain matrices to blocks while they are loaded: {', '.join(QUANTIZE)}",
    )
    add_activations(parser)


def add_activations(parser: Parser) -> None:
    """How linear maps and the cache are computed."""
    parser.add_argument(
        "--activations",
        type=one_of(ACTIVATIONS),
        metavar="|".join(ACTIVATIONS),
        default="int8",
        help="float32 is slower and exact to rounding (default: int8)",
    )


def add_guesses(parser: Parser) -> None:
    """Whether tokens are guessed, and who guesses."""
    parser.add_argument("--draft", metavar="MODEL", help="a smaller model with the same tokens that guesses")
    parser.add_argument(
        "--guesses",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compute guesses of the next tokens along with them, where that pays (default: yes)",
    )


def add_sampling(parser: Parser, max_tokens: int) -> None:
    """How tokens are chosen."""
    parser.add_argument(
        "--max-tokens",
        type=whole(1),
        default=max_tokens,
        metavar="N",
        help=f"the most tokens of an answer (default: {max_tokens})",
    )
    for name, kind, metavar, meaning in SAMPLING:
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=meaning)
    parser.add_argument(
        "--logit-bias",
        type=bias,
        action="append",
        metavar="ID:X",
        help="add X, -100 to 100, to this token's logit; may be repeated",
    )
    parser.add_argument("--bad-word", action="append", metavar="TEXT", help="never say this; may be repeated")
    parser.add_argument("--seed", type=whole(0), metavar="N", help="same seed, same answer (default: drawn)")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end where this appears; may be repeated"
    )


def sampling(arguments: argparse.Namespace) -> SamplingFields:
    """The fields of `Sampling` that are given, checked before a model is loaded. Raises RequestError."""
    from assay.llm.request import Sampling

    names = ("max_tokens", "seed", "stop", *(name for name, *_ in SAMPLING))
    given = {name: getattr(arguments, name) for name in names}
    given["logit_bias"] = dict(arguments.logit_bias) if arguments.logit_bias else None
    given["bad_words"] = arguments.bad_word
    fields = cast("SamplingFields", {name: value for name, value in given.items() if value is not None})
    try:
        Sampling(**fields)
    except RequestError as error:
        error.place = f"--{error.place.partition('[')[0].replace('_', '-')}"
        raise
    return fields
