"""The parts of a contract that are the same for every operator: arity, attributes, types, ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from assay.errors import near
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Literal, Node, Reference, ValueType
from assay.graph.text import quote
from assay.ops.standard.definition import Range
from assay.ops.standard.schema import Port, Schema, spelled, type_of
from assay.ops.standard.site import UNKNOWN, UNRANKED, Made, Problem, Site

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "int": int, "float": (float, int), "string": str, "tensor": Literal, "sparse_tensor": Literal,
    "graph": Graph, "type_proto": ValueType,
}  # fmt: skip


def arity(node: Node, schema: Schema) -> Iterator[Problem]:
    """Inputs and outputs that are too many, too few or absent."""
    for what, ports, given in (
        ("inputs", schema.inputs, node.inputs), ("outputs", schema.outputs, node.outputs)
    ):  # fmt: skip
        least = sum(port.least if port.variadic else not port.optional for port in ports)
        most = None if ports and ports[-1].variadic else len(ports)
        names = ", ".join(
            port.name + ("?" if port.optional else "…" if port.variadic else "") for port in ports
        )
        if (most is not None and len(given) > most) or (what == "inputs" and len(given) < least):
            want = (
                f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            )
            yield Problem(f"wrong number of {what}", f"{want}: {names}", str(len(given)), "", -1, None)
            continue
        for index, name in enumerate(given):
            port = schema.port(ports, index)
            if not name and port and not port.optional and what == "inputs":
                yield Problem("input missing", "a value: it isn't optional", '""', "", index, None)


def attributes(node: Node, schema: Schema) -> Iterator[Problem]:
    """Attributes that are unknown, missing or of another kind."""
    known, inputs = schema.attributes, {port.name for port in schema.inputs}
    for key, value in node.attributes.items():
        if key not in known:
            want = ", ".join(known) or "no attributes"
            input = f"in version {schema.version} it is an input" if key in inputs else ""
            hint = input or near(key, known) or f"version {schema.version} of {schema.name} hasn't got it"
            yield Problem(f"unknown attribute {quote(key)}", want, _short(value), hint, -1, None)
        elif isinstance(value, Reference):
            rule, hint = f"attribute {key}: a reference outside a function", "give the value itself"
            yield Problem(rule, known[key].kind, f"the function's {quote(value.name)}", hint, -1, None)
        elif not _of_kind(value, known[key].kind):
            yield Problem(
                f"attribute {key}: wrong kind of value", known[key].kind, _short(value), "", -1, None
            )
    for key, each in known.items():
        if each.required and key not in node.attributes:
            yield Problem(f"attribute {key} missing", each.kind, "nothing", _first(each.doc), -1, None)


def _of_kind(value: AttributeValue, kind: str) -> bool:
    if kind in _KINDS:
        return isinstance(value, _KINDS[kind]) and not isinstance(value, bool)
    return isinstance(value, tuple) and all(
        isinstance(each, _KINDS[kind.removesuffix("s")]) for each in value
    )


def _short(value: AttributeValue) -> str:
    text = f"a {type(value).__name__.lower()}" if isinstance(value, Graph | Literal) else repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def _first(doc: str) -> str:
    return doc.partition(". ")[0].partition("\n")[0]


def dtypes(node: Node, schema: Schema, kinds: Sequence[ValueType | None]) -> Iterator[Problem]:
    """Inputs whose types the schema doesn't admit, or that differ where they must not."""
    bound: dict[str, tuple[str, str]] = {}
    for index, kind in enumerate(kinds):
        port = schema.port(schema.inputs, index)
        if kind in (None, UNKNOWN) or port is None:
            continue
        assert kind is not None
        text = spelled(kind)
        if text not in port.types:
            want = " or ".join(sorted(port.types)) if len(port.types) < 12 else _families(port)
            hint = "another version of the operator may admit it" if schema.version else ""
            yield Problem("type not admitted", want, f"{text} in {kind}", hint, index, None)
        elif port.variable and (not port.variadic or port.uniform):
            first, name = bound.setdefault(port.variable, (text, port.name))
            if first != text:
                want = f"{first}, as input {name} has"
                yield Problem("types differ", want, text, "cast one of them", index, None)


def _families(port: Port) -> str:
    return ", ".join(sorted(port.types)[:8]) + f" and {len(port.types) - 8} more types"


@lru_cache(maxsize=4096)
def _defaults(schema: Schema) -> Mapping[str, AttributeValue | None]:
    found = {key: each.default for key, each in schema.attributes.items()}
    return {key: None if value is None else _single(value) for key, value in found.items()}


def filled(node: Node, schema: Schema) -> dict[str, AttributeValue]:
    """A node's attributes with the defaults of the rest; None for one that has none."""
    given = {key: _single(value) for key, value in node.attributes.items()}
    return {**_defaults(schema), **given}  # type: ignore[dict-item]


def _single(value: AttributeValue) -> AttributeValue:
    """Floats as the float32 that they are: a graph has them with the fewest digits that say it."""
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, tuple) and any(isinstance(each, float) for each in value):
        return tuple(float(np.float32(each)) for each in value if isinstance(each, int | float))
    return value


def ranges(site: Site) -> Iterator[Problem]:
    """Attributes out of range; axes become numbers from 0 on."""
    for key, admitted in site.definition.ranges.items():
        value = site.attributes.get(key)
        if value is None or (admitted.axis is not None and not _ranked(site, admitted.axis)):
            continue
        several = value if isinstance(value, tuple) else (value,)
        want = str(admitted)
        if admitted.axis is not None:
            rank = site.rank(admitted.axis) + admitted.extra
            want = f"{-rank} to {rank - 1}, for {site.type(admitted.axis)}"
            if all(isinstance(each, int) and -rank <= each < rank for each in several):
                whole = tuple(each % rank for each in several if isinstance(each, int))
                site.attributes[key] = whole if isinstance(value, tuple) else whole[0]
                continue
        elif all(_inside(each, admitted) for each in several):
            continue
        yield Problem(f"attribute {key} out of range", want, _short(value), "", -1, None)


def _ranked(site: Site, index: int) -> bool:
    return site.has(index) and site.type(index).ranked


def _inside(value: object, admitted: Range) -> bool:
    if admitted.choices:
        return value in admitted.choices
    low = -float("inf") if admitted.low is None else admitted.low
    high = float("inf") if admitted.high is None else admitted.high
    return isinstance(value, int | float) and low <= value <= high


def outputs(site: Site, made: Sequence[Made]) -> tuple[ValueType | None, ...]:
    """The outputs' types from what the rule says of them, by the schema's variables where it gives shapes."""
    schema = site.definition.schema
    bound: dict[str, ValueType] = {}
    for index, kind in enumerate(site.types):
        port = schema.port(schema.inputs, index)
        if kind and kind != UNKNOWN and port and port.variable:
            bound.setdefault(port.variable, kind)
    found: list[ValueType | None] = []
    for index in range(len(site.node.outputs)):
        given = made[index] if index < len(made) else None
        port = schema.port(schema.outputs, index)
        if isinstance(given, ValueType) or port is None:
            found.append(given if isinstance(given, ValueType) else UNKNOWN)
            continue
        kind = bound.get(port.variable) or (
            type_of(next(iter(port.types))) if len(port.types) == 1 else UNKNOWN
        )
        if not kind.element and kind != UNKNOWN:
            kind = replace(kind, shape=UNRANKED if given is None else tuple(map(Dim.of, given)))
        found.append(kind)
    return tuple(found)


def joined(inferred: ValueType, declared: ValueType) -> ValueType | None:
    """What an inferred type and a declared one say together, or None where they contradict each other."""
    if UNKNOWN in (inferred, declared):
        return declared if inferred == UNKNOWN else inferred
    if inferred.dtype != declared.dtype:
        return None
    if inferred.element or declared.element:
        if not (inferred.element and declared.element):
            return None
        element = joined(inferred.element, declared.element)
        return None if element is None else replace(inferred, element=element)
    if not (inferred.ranked and declared.ranked):
        return inferred if inferred.ranked else declared
    if len(inferred.shape) != len(declared.shape):
        return None
    dims = []
    for ours, theirs in zip(inferred.shape, declared.shape, strict=True):
        if theirs.constant is not None and ours.equals(theirs) is False:
            return None
        # Data decides a size whose name begins so: the declaration knows better.
        open_size = any(symbol.startswith("_") for symbol in ours.symbols)
        dims.append(theirs if open_size or theirs.constant is not None else ours)
    return ValueType(inferred.dtype, tuple(dims))
