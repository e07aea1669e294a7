"""JSON from files that may be hostile: small, shallow, finite, of whole characters, and no key said twice.

What the text would make is measured from its bytes before it is parsed: an object in Python takes up to forty
times the bytes of its text.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TypeAlias

import numpy as np

from assay.errors import FormatError
from assay.formats.files import opened, read_at
from assay.formats.tensors import quoted

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

DEPTH_LIMIT = 32
MARK_LIMIT = 1 << 19
"""Commas, colons and opening brackets, which are at least as many as values and keys, but for the first."""
NUMBER_LIMIT = 64
"""Characters of a number. Some tokenizers give 10**30 for "no limit"."""

_STEP = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_MARK = np.zeros(256, np.bool_)
_MARK[list(b"[{,:")] = True
_NO_SIGN = bytes(set(range(256)) - set(b'"[]{},:'))
_HALF = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""An escaped half of a character beyond 16 bits, without its other half."""


def read_json(path: Path, limit: int, marks: int = MARK_LIMIT) -> dict[str, JsonValue]:
    """The object that is the whole of the file at `path`, which has at most `limit` bytes and `marks`.

    Raises ModelNotFoundError where nothing is there, FormatError for all else that isn't such an object.
    """
    return _object_in(read_value(path, limit, marks), str(path))


def read_value(path: Path, limit: int, marks: int = MARK_LIMIT) -> JsonValue:
    """The same of any value."""
    with opened(path, "a JSON file") as (fd, size):
        if size > limit:
            raise FormatError("the file is too long", want=f"at most {limit} bytes", got=f"{size} bytes")
        return _parse(read_at(fd, 0, size).tobytes(), marks)


def parse_object(data: bytes, marks: int = MARK_LIMIT) -> dict[str, JsonValue]:
    """The object that these bytes are. Raises FormatError; the caller bounds the length."""
    return _object_in(_parse(data, marks), "")


def _object_in(value: JsonValue, place: str) -> dict[str, JsonValue]:
    if type(value) is not dict:
        raise FormatError("not a JSON object", place=place, want="an object", got=kind(value))
    return value


def _parse(data: bytes, marks: int) -> JsonValue:
    _measure(data, marks)
    try:
        value: JsonValue = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        bad = data[error.start : error.start + 4].hex(" ")
        raise FormatError("not text", want="UTF-8", got=f"bytes {bad} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise FormatError("not JSON", place=place, want="JSON as in RFC 8259", got=error.msg) from None
    return value


def kind(value: JsonValue) -> str:
    """What a value is called in JSON, with an article."""
    names = {bool: "a boolean", int: "an integer", float: "a fraction", str: "a string", list: "an array"}
    return names.get(type(value), "null" if value is None else "an object")


def _measure(data: bytes, most: int) -> None:
    """Refuse what is too deep or too many, and half characters.

    Exact for all that a parser would get to: outside of strings, a backslash ends it.
    """
    plain = data.replace(rb"\\", b"__")
    half = _HALF.search(plain)
    if half:
        got = f"{half[0].decode()!a} at byte {half.start()}"
        raise FormatError("half a character", want="both escapes of a surrogate pair", got=got)
    signs = np.frombuffer(plain.replace(rb"\"", b"").translate(None, _NO_SIGN), np.uint8)
    inside = np.cumsum(signs == ord('"'), dtype=np.uint8)  # wraps, and stays odd inside of strings
    signs = signs[inside & 1 == 0]
    marks = int(np.count_nonzero(_MARK[signs]))
    if marks > most:
        want = f"at most {most} commas, colons and brackets"
        raise FormatError("too many values", want=want, got=str(marks))
    depth = int(np.cumsum(_STEP[signs], dtype=np.int32).max(initial=0))
    if depth > DEPTH_LIMIT:
        raise FormatError("nested too deep", want=f"at most {DEPTH_LIMIT} levels", got=str(depth))


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FormatError("a key occurs twice", place=f"key {quoted(key)}", want="each key once")
            seen.add(key)
    return made


def _integer(text: str) -> int | float:
    _check_length(text)
    return int(text) if text != "-0" else -0.0  # no integer has that sign


def _float(text: str) -> float:
    _check_length(text)
    value = float(text)
    if math.isinf(value):
        raise FormatError("a number is too large", want="a number that fits 64 bits", got=text)
    return value


def _check_length(text: str) -> None:
    if len(text) > NUMBER_LIMIT:
        want, got = f"at most {NUMBER_LIMIT} characters", f"{len(text)} characters"
        raise FormatError("a number is too long", want=want, got=got)


def _constant(text: str) -> float:
    raise FormatError("not a finite number", want="finite numbers", got=text)
