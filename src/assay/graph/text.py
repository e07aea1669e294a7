"""Names, types and attribute values as text and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from assay.errors import FormatError
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, ValueType
from assay.tensor.dtype import BY_NAME

T = TypeVar("T")

KEYWORDS = ("graph", "input", "weight", "state", "node", "output")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./'-]*")
_JSON = json.JSONDecoder()
_LINE_NUMBER = re.compile(r"[0-9]+(?=\s|$)")
_DIM = re.compile(r"[^,\]]*")


def quote(name: str) -> str:
    """A name as it is when it is plain, else in quotes with JSON's escapes, so that the text is ASCII."""
    return name if PLAIN.fullmatch(name) and name not in KEYWORDS else json.dumps(name)


class Cursor:
    """A cursor over one line."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        self.position = 0
        self.skip(0)
        self.take(_LINE_NUMBER)

    @property
    def done(self) -> bool:
        return self.position == len(self.text)

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """What the pattern matches here, passed over together with the space behind it, or None."""
        match = pattern.match(self.text, self.position)
        if match is None:
            return None
        self.skip(match.end())
        return match[0]

    def skip(self, position: int) -> None:
        """Stand at the first thing that isn't a space from `position` on."""
        while position < len(self.text) and self.text[position].isspace():
            position += 1
        self.position = position

    def accept(self, mark: str) -> bool:
        found = self.text.startswith(mark, self.position)
        if found:
            self.skip(self.position + len(mark))
        return found

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise self.error(repr(mark))

    def error(self, want: str, position: int | None = None) -> FormatError:
        position = self.position if position is None else position
        rest = self.text[position : position + 40]
        got = ascii(rest) if rest else "the end of the line"
        place = f"line {self.number}, column {position + 1}"
        return FormatError("listing can't be read", place=place, want=want, got=got)

    def json(self, want: str) -> object:
        """The JSON value here, passed over together with the space behind it."""
        try:
            value, end = _JSON.raw_decode(self.text, self.position)
        except (ValueError, RecursionError) as error:
            raise self.error(want) from error
        self.skip(end)
        return value

    def name(self) -> str:
        if self.text.startswith('"', self.position):
            return str(self.json("a string with JSON's escapes"))
        text = self.take(PLAIN)
        if text is None:
            raise self.error("a name")
        return text

    def items(self, item: Callable[[], T], stops: str) -> tuple[T, ...]:
        """Items parted by commas, up to one of the marks in `stops`, which isn't passed over."""
        found: list[T] = []
        while self.position == len(self.text) or self.text[self.position] not in stops:
            if found:
                self.expect(",")
            found.append(item())
        return tuple(found)

    def type(self) -> ValueType:
        position = self.position
        dtype = BY_NAME.get(self.take(PLAIN) or "")
        if dtype is None:
            raise self.error(f"a dtype: {', '.join(BY_NAME)}", position)
        self.expect("[")
        shape = self.items(self.dim, "]")
        self.expect("]")
        return ValueType(dtype, shape)

    def dim(self) -> Dim:
        position = self.position
        try:
            return Dim.of(self.take(_DIM) or "")
        except ValueError as error:
            raise self.error("a dimension, such as 64 or 2*T + 1", position) from error

    def value(self) -> AttributeValue:
        """An attribute's value: JSON, but lists are of one kind and there are no objects."""
        position = self.position
        value = self.json("a number, a string in quotes, true, false or a list of them")
        if isinstance(value, int | float | str):
            return value
        kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
        if not isinstance(value, list) or len(kinds) > 1 or not kinds <= {int, float, str}:
            raise self.error("integers, floats or strings, all of one kind", position)
        return tuple(value)
