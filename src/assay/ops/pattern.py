"""The patterns of Port.dims held against shapes: names are bound, everything else must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

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
            return self.dim.terms[0][0][0]
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


@dataclass(frozen=True)
class Mismatch:
    """A shape that breaks its pattern: `expression` is `value` there (`because` says why) and not `got`.

    `axis` is None when the rank is wrong; `expression` is then the whole pattern and `value` the rank.
    """

    port: str
    axis: int | None
    expression: str
    value: str
    because: str
    got: str


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
    dims = [Dim.of(word) for word in words[rest:]]
    axes = (
        Axis(word, dim, word if word in dim.symbols else "")
        for word, dim in zip(words[rest:], dims, strict=True)
    )
    return Pattern(rest, tuple(axes))


def unify(
    patterns: Mapping[str, str], shapes: Mapping[str, Shape], integers: Mapping[str, int]
) -> tuple[Binding, list[Mismatch]]:
    """Bind the names of `patterns` from `shapes`, both by port, and list what disagrees.

    `integers` are attributes, which are bound from the start. A port without a shape binds nothing.
    Names that stand alone are bound first, by the first port that has them, then those times a number, so
    expressions stand anywhere.
    """
    dims = {name: Dim.of(value) for name, value in integers.items()}
    origins = dict.fromkeys(integers, "an attribute")
    rest: Shape | None = None
    rest_origin = ""
    mismatches = []
    expressions = []
    for port, shape in shapes.items():
        text = patterns[port]
        pattern = parse(text)
        extra = len(shape) - len(pattern.axes)
        if extra < 0 or (extra and not pattern.rest):
            wanted = f"{len(pattern.axes)} or more" if pattern.rest else str(len(pattern.axes))
            mismatches.append(Mismatch(port, None, text, wanted, "", str(len(shape))))
            continue
        if pattern.rest:
            if rest is None:
                rest, rest_origin = shape[:extra], port
            else:
                mismatches += _compare_rest(port, text, shape[:extra], len(pattern.axes), rest, rest_origin)
        for index, (axis, got) in enumerate(zip(pattern.axes, shape[extra:], strict=True), start=extra):
            if not axis.name:
                expressions.append((port, index, axis, got))
            elif axis.name not in dims:
                dims[axis.name], origins[axis.name] = got, f"{port}[{index}]"
            elif dims[axis.name] != got:
                because = f"{axis.name} from {origins[axis.name]}"
                mismatches.append(Mismatch(port, index, axis.name, str(dims[axis.name]), because, str(got)))
    for port, index, axis, got in expressions:
        if axis.binds and axis.binds not in dims:
            factor = axis.dim.terms[0][1]
            quotient = Dim(tuple((monomial, count // factor) for monomial, count in got.terms))
            if quotient * factor == got:
                dims[axis.binds], origins[axis.binds] = quotient, f"{port}[{index}]"
            else:
                wanted = f"a multiple of {factor}"
                mismatches.append(Mismatch(port, index, axis.text, wanted, "", str(got)))
    for port, index, axis, got in expressions:
        names = sorted(axis.dim.symbols)
        if all(name in dims for name in names) and (value := axis.dim.substitute(dims)) != got:
            because = ", ".join(f"{name} = {dims[name]} from {origins[name]}" for name in names)
            mismatches.append(Mismatch(port, index, axis.text, str(value), because, str(got)))
    bound = {name: dim for name, dim in dims.items() if name not in integers}
    if rest is not None:
        bound[REST] = prod(rest, start=Dim.of(1))
    return Binding(bound, rest or ()), mismatches


def shape_of(text: str, binding: Binding, integers: Mapping[str, int]) -> Shape:
    """The shape that a pattern has under a binding. Raises KeyError for a name that isn't bound."""
    pattern = parse(text)
    values = {**binding.dims, **{name: Dim.of(value) for name, value in integers.items()}}
    own = (values[axis.name] if axis.name else axis.dim.substitute(values) for axis in pattern.axes)
    return (*(binding.rest if pattern.rest else ()), *own)


def _compare_rest(port: str, text: str, got: Shape, behind: int, want: Shape, origin: str) -> list[Mismatch]:
    if len(got) != len(want):
        because = f"{REST} has {len(want)} from {origin}"
        return [Mismatch(port, None, text, str(len(want) + behind), because, str(len(got) + behind))]
    return [
        Mismatch(port, axis, REST, str(wanted), f"{origin}[{axis}]", str(found))
        for axis, (wanted, found) in enumerate(zip(want, got, strict=True))
        if wanted != found
    ]
