"""Names, types and attribute values as text and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from assay.errors import FormatError
from assay.graph.dim import Dim, read
from assay.graph.graph import AttributeValue, Graph, Literal, Reference, ValueType
from assay.tensor.dtype import BY_NAME

T = TypeVar("T")

KEYWORDS = ("graph", "opset", "function", "input", "weight", "state", "node", "output", "end")
SHOWN = 64
"""The most elements of a tensor in an attribute that are written out."""
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./'-]*")
_JSON = json.JSONDecoder()
_MARKED = re.compile(r"tensor\(|type\(|graph\b")
_LIST_OF_MARKED = re.compile(r"\[\s*(tensor|type)\(")
_LINE_NUMBER = re.compile(r"[0-9]+(?=\s|$)")


def quote(name: str) -> str:
    """A name as it is when it is plain, else in quotes with JSON's escapes, so that the text is ASCII."""
    return name if PLAIN.fullmatch(name) and name not in KEYWORDS else json.dumps(name)


def written(value: AttributeValue) -> str:
    """An attribute's value; of a graph a mark, since its lines follow those of its node."""
    if isinstance(value, Graph):
        return "graph"
    if isinstance(value, Reference):
        return f"@{quote(value.name)}"
    if isinstance(value, ValueType):
        return f"type({value})"
    if isinstance(value, Literal):
        kind = ValueType.of(value.dtype, *value.sizes)
        elements = _elements(value)
        return f"tensor({kind}, {json.dumps(value.digest if elements is None else elements)})"
    if isinstance(value, tuple) and value and isinstance(value[0], Literal | ValueType):
        return f"[{', '.join(map(written, cast(tuple[AttributeValue, ...], value)))}]"
    return json.dumps(value)


def _elements(literal: Literal) -> list[object] | None:
    """Those of a short one as JSON has them; of complex numbers both parts, of narrow ones the bytes. None
    where the digest has to stand for them.
    """
    if literal.data is None or literal.data.size > SHOWN:
        return None
    flat = literal.data.reshape(-1)
    parts = flat.view(_parts(flat.dtype))
    # A NaN of other bits than the usual one isn't the same again.
    same = parts.dtype.kind != "f" or np.array(parts.tolist(), parts.dtype).tobytes() == parts.tobytes()
    return parts.tolist() if same else None


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
        if self.accept("("):
            element = self.type()
            self.expect(")")
            return ValueType(dtype, (), element)
        self.expect("[")
        shape = self.items(self.dim, "]")
        self.expect("]")
        return ValueType(dtype, shape)

    def dim(self) -> Dim:
        position = self.position
        try:
            dim, end = read(self.text, position)
            if self.text[end : end + 1] not in ("", ",", "]"):
                raise ValueError(self.text[end:])
        except ValueError as error:
            raise self.error("a dimension, such as 64 or 2*T + 1", position) from error
        self.skip(end)
        return dim

    def value(self) -> AttributeValue | None:
        """An attribute's value: JSON, but lists are of one kind and there are no objects; a tensor, a type, a
        function's attribute; None for a graph.
        """
        position = self.position
        if self.accept("@"):
            return Reference(self.name())
        word = self.take(_MARKED)
        if word == "graph":
            return None
        if word:
            return self.literal() if word == "tensor(" else self.closed(self.type())
        if _LIST_OF_MARKED.match(self.text, position):
            self.expect("[")
            values = self.items(self.value, "]")
            self.expect("]")
            return cast(AttributeValue, values)
        value = self.json("a number, a string in quotes, true, false or a list of them")
        if isinstance(value, int | float | str):
            return value
        kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
        if not isinstance(value, list) or len(kinds) > 1 or not kinds <= {int, float, str}:
            raise self.error("integers, floats or strings, all of one kind", position)
        return tuple(value)

    def closed(self, value: T) -> T:
        self.expect(")")
        return value

    def literal(self) -> Literal:
        """A tensor, behind its opening bracket."""
        position = self.position
        kind = self.type()
        self.expect(",")
        given = self.json("the elements, or their digest")
        sizes = kind.sizes
        if sizes is None:
            raise self.error("a tensor's sizes", position)
        if isinstance(given, str):
            return self.closed(Literal(kind.dtype, sizes, given, None))
        try:
            flat = np.array(given, _parts(kind.dtype.numpy)).view(kind.dtype.numpy)
            return self.closed(Literal.of(kind.dtype, flat.reshape(sizes)))
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(f"the elements of {kind}", position) from error


def _parts(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """What a complex number is made of; other types are that themselves."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
