"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.cli.command import Parser, near
from assay.errors import RequestError
from assay.llm.options import ACTIVATIONS

if TYPE_CHECKING:
    from assay.llm.request import SamplingFields

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


def wholes(low: int) -> Callable[[str], tuple[int, ...]]:
    """A type of argument: integers of at least `low`, with commas between."""
    parse = whole(low)
    return lambda text: tuple(map(parse, text.split(",")))


def number(text: str) -> float:
    """A type of argument: a number."""
    try:
        return float(text)
    except ValueError:
        raise wrong("not a number", "a number", text) from None


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """A type of argument: one of these names."""

    def name(text: str) -> str:
        if text not in names:
            raise wrong(f"no such choice{near(text, names)}", " | ".join(names), text)
        return text

    return name


def some_of(names: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A type of argument: some of these names, with commas between."""
    parse = one_of(names)
    return lambda text: tuple(map(parse, text.split(",")))


def add_model(parser: Parser) -> None:
    """MODEL and how to run it."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "--threads",
        type=whole(1),
        metavar="N",
        help="threads (default: all processors, or ASSAY_THREADS); the answer doesn't depend on it",
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
    parser.add_argument(
        "--temperature",
        type=number,
        default=0.0,
        metavar="X",
        help="0 takes the likeliest token, more varies (default: 0)",
    )
    parser.add_argument(
        "--top-k", type=whole(0), default=0, metavar="N", help="draw from the N likeliest (0: all)"
    )
    parser.add_argument(
        "--top-p", type=number, default=1.0, metavar="X", help="draw from the likeliest with this probability"
    )
    parser.add_argument("--seed", type=whole(0), metavar="N", help="same seed, same answer (default: drawn)")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end where this appears; may be repeated"
    )


def sampling(arguments: argparse.Namespace) -> SamplingFields:
    """The fields of `Sampling`, checked before a model is loaded. Raises RequestError."""
    from assay.llm.request import Sampling

    names = ("max_tokens", "temperature", "top_k", "top_p", "seed", "stop")
    fields: SamplingFields = {name: getattr(arguments, name) for name in names}  # type: ignore[assignment]
    try:
        Sampling(**fields)
    except RequestError as error:
        error.place = f"--{error.place.partition('[')[0].replace('_', '-')}"
        raise
    return fields
