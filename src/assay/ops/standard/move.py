"""Operators that move values as they are. Kernels copy between views: the chain kernel without operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from assay.graph.dim import Dim, greatest, least
from assay.ops import chain
from assay.ops.operator import Address
from assay.ops.standard.definition import AXIS, POSITIVE
from assay.ops.standard.emit import Emitter
from assay.ops.standard.registry import define
from assay.ops.standard.shape import axes_of
from assay.ops.standard.site import Array, Made, Site

Strides = Sequence[chain.Extent]
COPIED = (("elementwise.chain, which copies between two views", "always"),)
BEYOND = 1 << 31
"""From here on a place in an axis stands for its end."""


# Copies


def copy(
    emitter: Emitter,
    size: int,
    shape: Sequence[int],
    source: tuple[Address, Strides, int],
    target: tuple[Address, Strides, int],
) -> None:
    """Copy elements of `size` bytes between places: an address, strides in bytes, bytes to the first."""
    if size == 16:
        shape, size = (*shape, 2), 8
        source, target = ((a, (*steps, 8), first) for a, steps, first in (source, target))
    ends = [
        chain.Operand(address.name, size, chain.view(size, shape, steps, first))
        for address, steps, first in (source, target)
    ]
    if prod(shape):
        emitter.copy(ends[0], ends[1], prod(shape))


def pick(site: Site, emitter: Emitter, shape: Sequence[int], steps: Strides, first: int = 0) -> None:
    """The output, contiguous in the order of `shape`, is the first input's elements so far apart."""
    size = site.dtype(0).size
    whole = emitter.output(), chain.strides(size, shape), 0
    copy(emitter, size, shape, (emitter.input(0), steps, first), whole)


def ordered(site: Site, emitter: Emitter, shape: Sequence[int], order: Sequence[int]) -> None:
    """The output is the first input, taken as of that shape, with its axes in another order."""
    steps = chain.strides(site.dtype(0).size, shape)
    pick(site, emitter, [shape[axis] for axis in order], [steps[axis] for axis in order])


# Transpose, Concat, Split


def _order(site: Site) -> tuple[int, ...]:
    order = site.integers("perm")
    return tuple(range(site.rank(0)))[::-1] if order is None else order


def _transpose(site: Site) -> Sequence[Made]:
    shape, order = site.shape(0), _order(site)
    want = f"each of 0 to {len(shape) - 1} once, for {site.type(0)}"
    if not site.require(
        sorted(order) == list(range(len(shape))), "attribute perm: no permutation of the axes",
        want=want, got=list(order),
    ):  # fmt: skip
        return [None]
    return [tuple(shape[axis] for axis in order)]


define(
    "Transpose", _transpose, formula="transposed[i_perm(0), i_perm(1), …] = data[i_0, i_1, …]",
    shapes="data's sizes in the order `perm`, by default reversed.",
    reference=lambda data, perm: np.transpose(data, perm), sizes=True, kernels=COPIED,
    lower=lambda site, emitter: ordered(site, emitter, site.sizes(0), _order(site)),
)  # fmt: skip


def _concat(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), list(site.shape(0))
    for index in range(1, len(site.types)):
        other = site.shape(index)
        if not site.want_rank(index, len(shape)):
            return [None]
        for at, dim in enumerate(other):
            if at == axis:
                shape[at] = shape[at] + dim
            else:
                shape[at] = site.agree(shape[at], dim, f"sizes along axis {at}", index)
    return [tuple(shape)]


def _parts(
    site: Site, emitter: Emitter, axis: int, shapes: Sequence[Sequence[int]], whole: Sequence[int], out: bool
) -> None:
    """Copy between an array and what it is made of along an axis: the inputs, or the outputs with `out`."""
    size, at = site.dtype(0).size, 0
    steps = chain.strides(size, whole)
    for index, shape in enumerate(shapes):
        part = emitter.output(index) if out else emitter.input(index)
        ends = [
            (part, chain.strides(size, shape), 0),
            (emitter.input(0) if out else emitter.output(), steps, at),
        ]
        if part.name:
            copy(emitter, size, shape, ends[out], ends[not out])
        at += shape[axis] * int(steps[axis])  # type: ignore[arg-type]


def _lower_concat(site: Site, emitter: Emitter) -> None:
    shapes = [site.sizes(index) for index in range(len(site.types))]
    _parts(site, emitter, site.integer("axis"), shapes, site.out(), False)


define(
    "Concat", _concat, ranges={"axis": AXIS},
    formula="concat_result = the inputs behind each other along axis",
    shapes="The inputs' sizes, which must agree but along `axis`; there, their sum.",
    reference=lambda *inputs, axis: np.concatenate(inputs, axis), lower=_lower_concat, sizes=True,
    kernels=COPIED,
)  # fmt: skip


def _split(site: Site) -> Sequence[Made]:
    axis, shape, count = site.integer("axis"), site.shape(0), len(site.node.outputs)
    whole = shape[axis]
    want = f"{count}, the number of outputs"
    if site.has(1):
        alone, found = site["num_outputs"] is None, site.length(1)
        site.require(alone, "both split and num_outputs", want="one of them", got="both")
        site.require(found in (None, count), "sizes in split", want=want, got=found, input=1)
        sizes = site.dims(1) or [site.unknown(str(index)) for index in range(count)]
        site.natural(1, sizes)
        if site.peek(1) is not None:
            site.agree(whole, sum(sizes, Dim.of(0)), "size and sum of split", 1)
    else:
        site.require(site["num_outputs"] == count, "attribute num_outputs disagrees, and there is no split",
                     want=want, got=site["num_outputs"])  # fmt: skip
        chunk = -(-whole // count)
        sizes = [chunk] * (count - 1) + [whole - chunk * (count - 1)]
        rule, got = f"axis {axis} can't be split", f"{whole} in {site.type(0)}"
        hint = "give the sizes as the input split"
        site.require((sizes[-1].constant or 0) >= 0, rule, want=f"enough for {count} parts", got=got, input=0,
                     dim=whole, hint=hint)  # fmt: skip
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes[:count]]


def _run_split(input: Array, split: Array | None = None, *, axis: int, num_outputs: int | None) -> object:
    if split is None:
        assert num_outputs
        chunk = -(-input.shape[axis] // num_outputs)
        ends = [chunk * (index + 1) for index in range(num_outputs - 1)]
    else:
        ends = np.cumsum(split)[:-1].tolist()
        if int(np.sum(split)) != input.shape[axis]:
            raise ValueError(f"parts of {split.tolist()} of a size of {input.shape[axis]}")
    return tuple(np.split(input, ends, axis))


def _lower_split(site: Site, emitter: Emitter) -> None:
    shapes = [site.out(index) for index in range(len(site.outputs))]
    _parts(site, emitter, site.integer("axis"), shapes, site.sizes(0), True)


define(
    "Split", _split, ranges={"axis": AXIS, "num_outputs": POSITIVE},
    formula="outputs = the parts of input along axis, in order",
    shapes="input's, but along `axis` the sizes in `split`; without, all ⌈size / num_outputs⌉ but the last.",
    reference=_run_split, lower=_lower_split, sizes=True, kernels=COPIED,
)  # fmt: skip


# Slice


def at_least(dim: Dim, low: int) -> Dim:
    """The greater of the two."""
    return dim if (dim - low + 1).sign == 1 else greatest(dim, low)


def _bounded(place: Dim, size: Dim, low: int, high: Dim, open_end: bool = False) -> Dim | None:
    """A place in an axis, counted from its end where negative, inside the bounds; None where its sign isn't
    known. With `open_end` a place behind the end may stay.
    """
    constant = place.constant
    if constant is not None and abs(constant) >= BEYOND:
        return Dim.of(low) if constant < 0 else high
    if constant is not None and constant < 0:
        place = place + size
    elif (place + 1).sign != 1:
        return None
    return at_least(place if open_end or (high - place + 1).sign == 1 else least(place, high), low)


def span(size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim] | None:
    """The first element of a slice and the number of its elements; None where they can't be told."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = _bounded(start, size, 0, high, step > 0), _bounded(end, size, low, high)
    if first is None or last is None:
        return None
    if step == 1 and last == size and -BEYOND < (start.constant or 0) < 0:
        return first, least(-start, size)
    count = at_least(-((first - last) // step), 0)
    return first, least(count, size) if step < 0 else count


def _slice(site: Site) -> Sequence[Made]:
    shape, rank = list(site.shape(0)), site.rank(0)
    counts = {index: site.length(index) for index in range(1, 5) if site.has(index)}
    for index in counts:
        if not site.problems:
            site.agree(site.shape(1)[0], site.shape(index)[0], "numbers of starts and of the rest", index)
    count = next((each for each in counts.values() if each is not None), None)
    known = count is not None and (site.has(3) or site.require(
        count <= rank, "more starts than axes", want=f"at most {rank}, for {site.type(0)}", got=count, input=1
    ))  # fmt: skip
    starts, ends = site.dims(1), site.dims(2)
    steps = site.ints(4) if site.has(4) else [1] * (count or 0)
    axes = axes_of(site, 3, rank) if site.has(3) else list(range(count or 0))
    site.require(0 not in (steps or ()), "a step of 0", want="steps that aren't 0", got=steps, input=4)
    if site.problems or not known or axes is None:
        return [None if site.problems else site.open_shape(rank)]
    for at, axis in enumerate(axes):
        found = span(shape[axis], starts[at], ends[at], steps[at]) if starts and ends and steps else None
        shape[axis] = found[1] if found else site.unknown(str(axis))
    return [tuple(shape)]


def _spans(
    shape: Sequence[int], starts: Sequence[object], ends: Sequence[object],
    axes: Sequence[int] | None, steps: Sequence[int] | None,
) -> Iterator[tuple[int, int, int, int]]:  # fmt: skip
    """Axis, first element, number and step of each slice."""
    for at, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else int(steps[at])
        start, end = Dim.of(starts[at]), Dim.of(ends[at])  # type: ignore[arg-type]
        found = span(Dim.of(shape[axis]), start, end, step)
        if found is None or None in (found[0].constant, found[1].constant):
            raise ValueError("a slice that depends on sizes")
        yield int(axis), found[0].constant or 0, found[1].constant or 0, step


def _run_slice(
    data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    lists = (None if each is None else each.tolist() for each in (axes, steps))
    for axis, first, count, step in _spans(data.shape, starts.tolist(), ends.tolist(), *lists):
        data = np.take(data, first + step * np.arange(count), axis)
    return data


def _lower_slice(site: Site, emitter: Emitter) -> None:
    steps, first = list(chain.strides(site.dtype(0).size, site.sizes(0))), 0
    lists = [site.ints(index) if site.has(index) else None for index in range(1, 5)]
    assert lists[0] is not None and lists[1] is not None
    for axis, start, _, step in _spans(site.sizes(0), lists[0], lists[1], lists[2], lists[3]):
        first += start * int(steps[axis])  # type: ignore[arg-type]
        steps[axis] = steps[axis] * step
    pick(site, emitter, site.out(), steps, first)


define(
    "Slice", _slice, formula="output[i] = data[starts + i · steps] along axes, up to ends",
    shapes="⌈(end − start) / step⌉ along each of `axes`, after start and end were put inside the axis.",
    reference=_run_slice, lower=_lower_slice, sizes=True, kernels=COPIED,
)  # fmt: skip


# Expand, Tile


def _expand(site: Site) -> Sequence[Made]:
    count, wanted, shape = site.length(1), site.dims(1), site.shape(0)
    if wanted is None:
        return [site.open_shape(None if count is None else max(count, len(shape)))]
    site.natural(1, wanted)
    return [site.broadcast(shape, tuple(wanted))]


def _expanded(input: Array, shape: Array) -> Array:
    return np.broadcast_to(input, np.broadcast_shapes(input.shape, tuple(int(each) for each in shape)))


def _lower_expand(site: Site, emitter: Emitter) -> None:
    spread = chain.broadcast(site.node.inputs[0], site.type(0), site.made_type().shape)
    axes = spread.view.axes if spread.view else ((prod(site.out()), spread.size),)
    pick(site, emitter, [int(n) for n, _ in axes], [step for _, step in axes])  # type: ignore[arg-type]


define(
    "Expand", _expand, formula="output = input, repeated along axes of 1",
    shapes="That of input and the sizes in `shape`, broadcast together.", kernels=COPIED,
    reference=_expanded, lower=_lower_expand, sizes=True,
)  # fmt: skip


def _tile(site: Site) -> Sequence[Made]:
    shape, count = site.shape(0), site.length(1)
    want, rule = f"{len(shape)}, for {site.type(0)}", "numbers of repeats and of axes disagree"
    if site.problems or not site.require(count in (None, len(shape)), rule, want=want, got=count, input=1):
        return [None]
    repeats = site.dims(1)
    if repeats is None:
        return [site.open_shape(len(shape))]
    site.natural(1, repeats)
    return [tuple(dim * each for dim, each in zip(shape, repeats, strict=True))]


def _lower_tile(site: Site, emitter: Emitter) -> None:
    shape, repeats = site.sizes(0), site.ints(1)
    assert repeats is not None
    steps = chain.strides(site.dtype(0).size, shape)
    extents = [each for pair in zip(repeats, shape, strict=True) for each in pair]
    pick(site, emitter, extents, [each for step in steps for each in (0, step)])


define(
    "Tile", _tile, formula="output[i] = input[i mod the size of input]",
    shapes="Each size times its repeats.",
    reference=lambda input, repeats: np.tile(input, repeats), lower=_lower_tile, sizes=True, kernels=COPIED,
)  # fmt: skip
