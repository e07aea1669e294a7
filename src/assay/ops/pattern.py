"""The patterns of Port.dims held against shapes: names are bound, everything else must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from assay.errors import ContractError
from assay.graph.dim import Dim

REST = "..."
"""The pattern's word for any dimensions; as a name it is bound to their product."""

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Axis:
    """One axis of a pattern as written, as an expression, and the name when it is nothing but a name."""

    text: str
    dim: Dim
    name: str

    @property
    def binds(self) -> str:
        """The name that this axis can bind: alone, or times a number (`32*B`); or nothing."""
        if len(self.dim.terms) == 1 and len(self.dim.terms[0][0]) == 1:
            return str(self.dim.terms[0][0][0])
        return ""


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: whether any dimensions may stand in front, and the axes after them."""

    rest: bool
    axes: tuple[Axis, ...]

    @property
    def first(self) -> str:
        """What the first dimension goes by: `...`, or the first axis's name if it is nothing but a name."""
        if self.rest:
            return REST
        return self.axes[0].name if self.axes else ""

    @property
    def names(self) -> frozenset[str]:
        """Every name of the pattern, those inside expressions too."""
        return frozenset().union(*(axis.dim.symbols for axis in self.axes))


class Place(NamedTuple):
    """One axis of a port's pattern beside the dimension that stands there."""

    port: str
    number: int
    axis: Axis
    got: Dim

    def __str__(self) -> str:
        return f"{self.port}[{self.number}]"

    def disagrees(self, want: str, describe: Callable[[str], str]) -> ContractError:
        """The error about a dimension that isn't what is wanted."""
        rule, got = f"input {self.port}: axis {self.number} disagrees", f"{self.got} in {describe(self.port)}"
        return ContractError(rule, want=want, got=got)


@dataclass(frozen=True)
class Binding:
    """What the patterns' names stand for. `rest` is what `...` stands for; `dims["..."]` is its product."""

    dims: Mapping[str, Dim]
    rest: Shape = ()


@lru_cache(maxsize=1024)
def parse(text: str) -> Pattern:
    """A pattern from its text, such as `"... heads*head_dim"`. Raises ValueError."""
    words = text.split()
    rest = words[:1] == [REST]
    if REST in words[rest:]:
        raise ValueError(f"not a dimension: {REST} behind others, in {text!r}")
    dims = [Dim.of(word) for word in words[rest:]]
    axes = (
        Axis(word, dim, word if word in dim.symbols else "")
        for word, dim in zip(words[rest:], dims, strict=True)
    )
    return Pattern(rest, tuple(axes))


def unify(
    patterns: Mapping[str, str],
    shapes: Mapping[str, Shape],
    integers: Mapping[str, int],
    describe: Callable[[str], str],
) -> tuple[Binding, list[ContractError]]:
    """Bind the names of `patterns` from `shapes`, both by port, and list what disagrees.

    `integers` are attributes, which are bound from the start; `describe` says what stands at a port. A port
    without a shape binds nothing. Names that stand alone are bound first, by the first port that has them,
    then those times a number, so expressions stand anywhere.
    """
    dims = {name: Dim.of(value) for name, value in integers.items()}
    origins = dict.fromkeys(integers, "an attribute")
    places, errors = _line_up(patterns, shapes, describe)
    for place in sorted(places, key=lambda place: not place.axis.name):
        name = place.axis.binds
        if name and name not in dims:
            factor = place.axis.dim.terms[0][1]
            quotient = Dim(tuple((monomial, count // factor) for monomial, count in place.got.terms))
            if quotient * factor == place.got:
                dims[name], origins[name] = quotient, str(place)
            else:
                errors.append(place.disagrees(f"{place.axis.text} = a multiple of {factor}", describe))
    for place in places:
        text, names = place.axis.text, sorted(place.axis.dim.symbols)
        if dims.keys() >= set(names) and (value := place.axis.dim.substitute(dims)) != place.got:
            values = {name: text if place.axis.name else f"{name} = {dims[name]}" for name in names}
            because = ", ".join(f"{values[name]} from {origins[name]}" for name in names)
            want = f"{text} = {value} ({because})" if names else str(value)
            errors.append(place.disagrees(want, describe))
    bound = {name: dim for name, dim in dims.items() if not (name in integers or name.startswith(REST))}
    rest = tuple(dim for name, dim in dims.items() if name.startswith(REST))
    if any(parse(patterns[port]).rest for port in shapes):
        bound[REST] = prod(rest, start=Dim.of(1))
    return Binding(bound, rest), errors


def _line_up(
    patterns: Mapping[str, str], shapes: Mapping[str, Shape], describe: Callable[[str], str]
) -> tuple[list[Place], list[ContractError]]:
    """The axes of all shapes that have the right rank, those of `...` as names of their own."""
    places: list[Place] = []
    errors = []
    first: tuple[int, str] | None = None
    for port, shape in shapes.items():
        text, pattern = patterns[port], parse(patterns[port])
        rank, extra = len(pattern.axes), len(shape) - len(pattern.axes)
        first = first or ((extra, port) if pattern.rest and extra >= 0 else None)
        want = ""
        if extra < 0 or (extra and not pattern.rest):
            want = f"{rank}{' or more' if pattern.rest else ''} for [{text}]"
        elif pattern.rest and first and extra != first[0]:
            want = f"{first[0] + rank} for [{text}] ({REST} has {first[0]} from {first[1]})"
        if want:
            got = f"{len(shape)} in {describe(port)}"
            errors.append(ContractError(f"input {port}: wrong rank", want=want, got=got))
        else:
            axes = (*map(_rest, range(extra)), *pattern.axes)
            places += [Place(port, *each) for each in zip(range(len(shape)), axes, shape, strict=True)]
    return places, errors


def _rest(index: int) -> Axis:
    """What stands for one of the dimensions of `...`."""
    name = f"{REST}{index}"
    return Axis(REST, Dim((((name,), 1),)), name)


def shape_of(text: str, binding: Binding, integers: Mapping[str, int]) -> Shape:
    """The shape that a pattern has under a binding. Raises KeyError for a name that isn't bound."""
    pattern = parse(text)
    values = {**binding.dims, **{name: Dim.of(value) for name, value in integers.items()}}
    own = (values[axis.name] if axis.name else axis.dim.substitute(values) for axis in pattern.axes)
    return (*(binding.rest if pattern.rest else ()), *own)
