"""Fields that callers fill in, held to their types and ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.errors import RequestError, shown


def refused(name: str, want: str, got: object, hint: str = "") -> RequestError:
    """The error of a field with another value than it may have."""
    return RequestError("a field is out of range", place=name, want=want, got=shown(got), hint=hint)


def integer(name: str, value: object, low: int, high: int) -> None:
    """Raises RequestError, naming the field, unless `value` is an int from `low` to `high`. A bool isn't."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refused(name, f"an integer from {low} to {high}", value)


def number(name: str, value: object, low: float, high: float, *, above: bool = False) -> None:
    """Raises RequestError, naming the field, unless `value` is a number from (or `above`) `low` to `high`."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not fits or (above and value == low):
        wanted = f"{'above' if above else 'from'} {low:g} {'and up to' if above else 'to'} {high:g}"
        raise refused(name, f"a number {wanted}", value)


def flag(name: str, value: object) -> None:
    """Raises RequestError, naming the field, unless `value` is a bool."""
    if not isinstance(value, bool):
        raise refused(name, "True or False", value)


def text(name: str, value: object, hint: str = "") -> str:
    """A string that UTF-8 can write. Raises RequestError, naming the field, or the character, for others."""
    if not isinstance(value, str):
        got = "nothing" if value is None else type(value).__name__
        raise RequestError("not text", place=name, want="a string", got=got, hint=hint)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        place, got = f"{name}[{error.start}]", repr(value[error.start])
        raise RequestError("not Unicode text", place=place, want="no surrogates", got=got) from None
    return value


def token_ids(
    prompt: Sequence[int], place: str, known: int, most: int, new: int = 0, news: str = ""
) -> list[int]:
    """A copy of the prompt. Raises RequestError unless it is a list, or an array, of tokens below `known`,
    which with the `new` ones are at most so many.
    """
    if isinstance(prompt, np.ndarray):
        prompt = prompt.tolist()
    if not isinstance(prompt, list | tuple | range):
        hint = "lm.tokenizer.encode(text) gives them" if isinstance(prompt, str) else ""
        got = type(prompt).__name__
        raise RequestError("not tokens", place=place, want="a list of integers", got=got, hint=hint)
    if not prompt:
        raise RequestError("the prompt is empty", place=place, want="at least one token", got="none")
    room = most - len(prompt)
    if room < new:
        want, got = f"at most {most} tokens in all", f"{len(prompt)} prompt tokens{news}"
        hint = "shorten the prompt" + (f", or ask for at most {room} new tokens" if room > 0 else "")
        raise RequestError("the context is too long", place=place, want=want, got=got, hint=hint)
    for position, token in enumerate(prompt):
        if type(token) is not int or not 0 <= token < known:
            want, got = f"0 to {known - 1}", shown(token)
            raise RequestError("no such token", place=f"{place}[{position}]", want=want, got=got)
    return list(prompt)
