"""Operators on sequences and optional values: lists of arrays, and None for nothing. The host runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.standard.cast import named
from assay.ops.standard.control import Run, arity, common, differ
from assay.ops.standard.definition import FLAG, Range
from assay.ops.standard.registry import define
from assay.ops.standard.site import UNRANKED, Array, Made, Shape, Site
from assay.tensor.dtype import F32, I64, OPTIONAL, SEQUENCE

Values = list[Array]


def _of(element: ValueType | None) -> ValueType | None:
    return None if element is None else ValueType(SEQUENCE, (), element)


def _element(site: Site, index: int = 0) -> ValueType:
    """What a sequence or an optional value holds."""
    element = site.type(index).element
    assert element is not None
    return element


def _joined(site: Site, kinds: Sequence[ValueType]) -> ValueType | None:
    """The type of what several tensors are elements of."""
    found = kinds[0]
    for index, kind in enumerate(kinds[1:], start=1):
        same = not differ(found, kind)
        site.require(same, "elements of other types", want=str(found), got=kind, input=index)
        found = common(site, found, kind, "element")
    return _of(found)


def _construct(site: Site) -> Sequence[Made]:
    return [_joined(site, [site.type(index) for index in range(len(site.types))])]


define(
    "SequenceConstruct", _construct, formula="output_sequence = [inputs…]", unranked=True,
    shapes="A sequence; sizes that differ are left open.", reference=lambda *inputs: list(inputs),
)  # fmt: skip


def _empty(site: Site) -> Sequence[Made]:
    return [_of(ValueType(named(site, "dtype", F32, SEQUENCE), UNRANKED))]


define(
    "SequenceEmpty", _empty, formula="output = []",
    shapes="A sequence of tensors of `dtype`, by default float.",
    reference=lambda dtype: [],
)  # fmt: skip


def _at(site: Site) -> Sequence[Made]:
    site.single(1)
    return [_element(site)]


def _place(position: Array | None, count: int, most: int) -> int:
    """A place among `count` elements, negative ones counted from the end; the last one by default."""
    place = most if position is None else int(position.reshape(-1)[0])
    if not -count <= place <= most:
        raise IndexError(f"position {place} in a sequence of {count}")
    return place + count if place < 0 else place


define(
    "SequenceAt", _at, formula="tensor = input_sequence[position]", shapes="That of the sequence's elements.",
    reference=lambda values, position: values[_place(position, len(values), len(values) - 1)],
)  # fmt: skip


def _insert(site: Site) -> Sequence[Made]:
    site.single(2)
    held, kind = _element(site), site.type(1)
    want = f"{held.dtype}, as the sequence holds"
    site.require(not differ(held, kind), "an element of another type", want=want, got=kind, input=1)
    return [_of(common(site, held, kind, "element"))]


def _run_insert(values: Values, tensor: Array, position: Array | None = None) -> Values:
    place = _place(position, len(values), len(values))
    return [*values[:place], tensor, *values[place:]]


def _run_erase(values: Values, position: Array | None = None) -> Values:
    place = _place(position, len(values), len(values) - 1)
    return values[:place] + values[place + 1 :]


define(
    "SequenceInsert", _insert, reference=_run_insert, unranked=True,
    formula="output_sequence = input_sequence with tensor before position, by default behind all",
    shapes="A sequence; sizes that differ are left open.",
)  # fmt: skip


def _erase(site: Site) -> Sequence[Made]:
    site.single(1)
    return [site.type(0)]


define(
    "SequenceErase", _erase, reference=_run_erase, shapes="The sequence's type.",
    formula="output_sequence = input_sequence without the element at position, by default the last",
)  # fmt: skip
define(
    "SequenceLength", lambda site: [ValueType.of(I64)], formula="length = the number of elements",
    shapes="[]",
    reference=lambda values: np.array(len(values), np.int64),
)  # fmt: skip


def _map(site: Site) -> Sequence[Made]:
    kinds = [kind.element if kind and kind.dtype is SEQUENCE else kind for kind in site.types]
    if not arity(site, len(kinds), len(site.node.outputs), "what is mapped, then the rest"):
        return []
    return [_of(kind) for kind in site.infer_body("body", kinds)]


def _run_map(values: Values, *more: object, body: object, bodies: Mapping[str, Run]) -> object:
    rows = []
    for place, value in enumerate(values):
        for each in more:
            if isinstance(each, list) and len(each) != len(values):
                raise ValueError(f"sequences of {len(values)} and {len(each)} elements")
        given = [each[place] if isinstance(each, list) else each for each in more]
        rows.append(bodies["body"]([value, *given]))
    return tuple(map(list, zip(*rows, strict=True)))


define(
    "SequenceMap", _map, reference=_run_map, unranked=True,
    formula="out_sequence[i] = body(input_sequence[i], additional inputs, of sequences their element i)",
    shapes="Sequences of what body makes of elements of these types.",
)  # fmt: skip


def _split(site: Site) -> Sequence[Made]:
    axis, kind, shape = site.integer("axis"), site.type(0), list(site.shape(0))
    sizes, part = site.ints(1) if site.has(1) else None, site.unknown("part")
    site.want_rank(1, 0, 1)
    if sizes is not None:
        site.natural(1, [Dim.of(size) for size in sizes])
        if site.rank(1):
            site.agree(shape[axis], Dim.of(sum(sizes)), "size and sum of split", 1)
        else:
            site.require(sizes[0] != 0, "parts of nothing", want="1 or more", got=0, input=1)
    shape[axis] = part if site.has(1) else Dim.of(1)
    if not site.has(1) and not site["keepdims"]:
        del shape[axis]
    return [_of(replace(kind, shape=tuple(shape)))]


def _run_split(input: Array, split: Array | None = None, *, axis: int, keepdims: int) -> Values:
    size = input.shape[axis]
    if split is None:
        parts = np.split(input, range(1, size), axis) if size else []
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    if split.ndim == 0:
        return np.split(input, range(int(split), size, int(split)), axis)
    if int(split.sum()) != size:
        raise ValueError(f"parts of {split.tolist()} of a size of {size}")
    return np.split(input, np.cumsum(split)[:-1], axis)


define(
    "SplitToSequence", _split, ranges={"axis": Range(axis=0), "keepdims": FLAG}, reference=_run_split,
    formula="output_sequence = the parts of input along axis, of the sizes in split, or all of one size",
    shapes="A sequence of input's shape with a part's size along `axis`; without it where keepdims is 0.",
)  # fmt: skip


def _concat(site: Site) -> Sequence[Made]:
    element, new = _element(site), bool(site["new_axis"])
    if not element.ranked:
        return [element]
    at = site.axis(site.integer("axis"), len(element.shape) + new, "attribute axis")
    if at is None:
        return [None]
    shape: Shape = (*element.shape[:at], site.unknown("joined"), *element.shape[at + (not new) :])
    return [replace(element, shape=shape)]


def _run_concat(values: Values, *, axis: int, new_axis: int) -> Array:
    return np.stack(values, axis) if new_axis else np.concatenate(values, axis)


define(
    "ConcatFromSequence", _concat, ranges={"new_axis": FLAG}, reference=_run_concat,
    formula="concat_result = the elements behind each other along axis, a new one where new_axis is 1",
    shapes="That of an element, along `axis` the sum of sizes, or the number of elements.",
)  # fmt: skip


# Optional values


def _optional(site: Site) -> Sequence[Made]:
    declared = site["type"]
    kind = site.types[0] if site.has(0) else declared if isinstance(declared, ValueType) else None
    site.require(kind is not None, "neither a value nor a type", want="the attribute type", got="nothing")
    return [ValueType(OPTIONAL, (), kind)]


def _has(site: Site) -> Sequence[Made]:
    if not site.has(0) or site.dtype(0) is not OPTIONAL:
        site.made[0] = np.array(site.has(0))
    return [()]


def _get(site: Site) -> Sequence[Made]:
    return [_element(site) if site.dtype(0) is OPTIONAL else site.type(0)]


def _run_get(value: object) -> object:
    if value is None:
        raise ValueError("an optional value that has no element")
    return value


define(
    "Optional", _optional, formula="output = input, or nothing", unranked=True,
    shapes="An optional of input's type.",
    reference=lambda value=None, *, type: value,
)  # fmt: skip
define(
    "OptionalHasElement", _has, formula="output = whether input is something", shapes="[]", unranked=True,
    reference=lambda value=None: np.array(value is not None),
)  # fmt: skip
define(
    "OptionalGetElement", _get, formula="output = what input holds; of nothing, the run ends with an error",
    shapes="That of the element.", reference=_run_get, unranked=True,
)  # fmt: skip
