"""Operators whose elements follow from where they are: of sizes and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import Literal, ValueType
from assay.ops import chain
from assay.ops.standard.cast import named
from assay.ops.standard.definition import FLAG, Range, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.move import COPIED, at_least, copy
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site
from assay.tensor.dtype import BOOL, F32, I64
from assay.tensor.narrow import inside, numpy_of, outside


def constant(site: Site, emitter: Emitter, value: Array) -> None:
    """The output is this value, or this element again and again."""
    made, shape = site.made_type(), site.out()
    size, source = made.dtype.size, emitter.table(inside(np.ascontiguousarray(value), made.dtype))
    steps = chain.strides(size, shape)
    whole = [0] * len(shape) if value.ndim < len(shape) else steps
    copy(emitter, size, shape, (source, whole, 0), (emitter.output(), steps, 0))


def _constant_of_shape(site: Site) -> Sequence[Made]:
    value = site["value"]
    dtype = value.dtype if isinstance(value, Literal) else F32
    wanted = site.dims(0)
    if wanted is None:
        count = site.shape(0)[0].constant if site.rank(0) == 1 else None
        return [ValueType(dtype, site.open_shape(count))]
    site.natural(0, wanted)
    return [ValueType(dtype, tuple(wanted))]


def _lower_filled(site: Site, emitter: Emitter) -> None:
    value = site["value"]
    single = value.array() if isinstance(value, Literal) else np.zeros((), np.float32)
    constant(site, emitter, single.reshape(()))


def _filled(input: Array, value: object) -> Array:
    single = outside(value.array(), value.dtype).reshape(()) if isinstance(value, Literal) else np.float32(0)
    return np.full([int(size) for size in input], single, single.dtype)


define("ConstantOfShape", _constant_of_shape, formula="output[i] = value", shapes="The input's elements.",
       reference=_filled, lower=_lower_filled, kernels=COPIED)  # fmt: skip


def _eye(site: Site) -> Sequence[Made]:
    site.want_rank(0, 2)
    return [ValueType(named(site, "dtype", site.dtype(0)), site.shape(0))]


def _lower_eye(site: Site, emitter: Emitter) -> None:
    rows, columns = site.out()
    numbers = np.eye(rows, columns, site.integer("k"))
    constant(site, emitter, numbers.astype(numpy_of(site.made_type().dtype)))


define(
    "EyeLike", _eye, lower=_lower_eye, kernels=COPIED, formula="output[i, j] = (j − i = k)",
    shapes="input's.",
)  # fmt: skip


def _range(site: Site) -> Sequence[Made]:
    for index in range(3):
        site.single(index)
    known = [site.value(index) for index in range(3)]
    if site.problems or any(each is None for each in known):
        return [(site.unknown("count"),)]
    start, limit, delta = (each.reshape(-1)[0] for each in known if each is not None)
    if not site.require(delta != 0, "a step of 0", want="a delta that isn't 0", got=delta, input=2):
        return [None]
    if Dim in map(type, (start, limit, delta)):
        step = Dim.of(delta).constant
        count = None if step is None else -((Dim.of(start) - Dim.of(limit)) // step)
        return [(site.unknown("count") if count is None else at_least(count, 0),)]
    return [(Dim.of(_count(start, limit, delta)),)]


def _count(start: np.generic, limit: np.generic, delta: np.generic) -> int:
    if start.dtype.kind in "iu":
        return max(-((int(start) - int(limit)) // int(delta)), 0)
    return max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)


def _run_range(start: Array, limit: Array, delta: Array, *, stash_type: int) -> Array:
    first, last, step = (each.reshape(-1)[0] for each in (start, limit, delta))
    if object in (start.dtype, limit.dtype, delta.dtype):
        count = (-((Dim.of(first) - Dim.of(last)) // Dim.of(step))).constant
        if count is None:
            raise ValueError("a range that depends on sizes")
        return np.array([first + step * index for index in range(max(count, 0))], object)
    wide = np.dtype(np.float32) if start.dtype.itemsize == 2 and start.dtype.kind not in "iu" else start.dtype
    places = np.arange(_count(first, last, step)).astype(wide)
    return np.asarray(first.astype(wide) + places * step.astype(wide)).astype(start.dtype)


def _lower_range(site: Site, emitter: Emitter) -> None:
    values = [site.peek(index) for index in range(3)]
    constant(site, emitter, _run_range(*values, stash_type=1))  # type: ignore[arg-type]


define(
    "Range", _range, ranges={"stash_type": one_of(1)}, reference=_run_range, lower=_lower_range, sizes=True,
    natively=lambda site: all(site.peek(index) is not None for index in range(3)), kernels=COPIED,
    formula="output[i] = start + i · delta, halves in float32", shapes="[max(⌈(limit − start) / delta⌉, 0)]",
)  # fmt: skip


def _one_hot(site: Site) -> Sequence[Made]:
    axis, shape, depth = site.integer("axis"), site.shape(0), site.value(1)
    site.single(1)
    if site.want_rank(2, 1):
        site.agree(Dim.of(2), site.shape(2)[0], "values: off and on, and their number", 2)
    if site.problems:
        return [None]
    size = site.unknown("depth") if depth is None else _whole(depth.reshape(-1)[0])
    site.require((size.constant or 0) >= 0, "negative depth", want="0 or more", got=size, input=1)
    return [(*shape[:axis], size, *shape[axis:])]


def _whole(number: object) -> Dim:
    return number if isinstance(number, Dim) else Dim.of(int(number))  # type: ignore[call-overload]


def _run_one_hot(indices: Array, depth: Array, values: Array, *, axis: int) -> Array:
    size, places = int(depth.reshape(-1)[0]), np.expand_dims(indices.astype(np.int64), axis)
    hot = np.arange(size).reshape([-1 if at == axis else 1 for at in range(places.ndim)])
    return np.asarray(np.where((places == hot) | (places == hot - size), values[1], values[0]))


def _lower_one_hot(site: Site, emitter: Emitter) -> None:
    made, axis, size = site.made_type(), site.integer("axis"), site.dtype(2).size
    shape, name, kind = site.out(), emitter.input(0, I64).name, site.type(0)
    places = ValueType(I64, (*kind.shape[:axis], Dim.of(1), *kind.shape[axis:]))
    numbers = ValueType.of(I64, shape[axis], *[1] * (len(shape) - axis - 1))
    bools, found, reads = ValueType(BOOL, made.shape), emitter.output().name, [(name, places)]
    links = []
    for at, first in enumerate((0, -shape[axis])):
        hot = emitter.table(np.arange(first, first + shape[axis])).name
        links.append(chain.pointwise("equal", [*reads, (hot, numbers)], (f"{found}~equal{at}", bools)))
    either = (f"{found}~either", bools)
    links.append(chain.pointwise("or", [(link.makes.name, bools) for link in links], either))
    zeros = [0] * len(shape)
    off, on = (
        chain.Operand(site.node.inputs[2], size, chain.view(size, shape, zeros, first)) for first in (0, size)
    )
    target = chain.Operand(found, size)
    called = chain.function("where", [BOOL, made.dtype], made.dtype)
    links.append(chain.Link(called, (chain.Operand(either[0], 1), on, off), target))
    emitter.chain(shape, *links)


define(
    "OneHot", _one_hot, ranges={"axis": Range(axis=0, extra=1)}, reference=_run_one_hot, lower=_lower_one_hot,
    natively=lambda site: site.peek(1) is not None and site.dtype(2).size <= 8,
    formula="output[i, d, j] = values[1] where indices[i, j] = d or d − depth, else values[0]; d along axis",
    shapes="indices', with depth at `axis`.", numerics=("Indices are cast to int64 first.",),
    kernels=(("elementwise.chain with blocks.equal_int64 and .where_<type>", "where depth is known ahead"),),
)  # fmt: skip


def _triangle(site: Site) -> Sequence[Made]:
    site.want_rank(0, 2, -1)
    site.want_rank(1, 0, 1)
    site.value(1)
    return [site.shape(0)]


def _kept(shape: Sequence[int], k: int, upper: int) -> Array:
    """Which elements of a matrix stay."""
    apart = np.arange(shape[-1]) - np.arange(shape[-2])[:, None]
    return apart >= k if upper else apart <= k


def _run_triangle(input: Array, k: Array | None = None, *, upper: int) -> Array:
    kept = _kept(input.shape, 0 if k is None else int(k.reshape(())), upper)
    return np.where(kept, input, np.zeros((), input.dtype))


def _lower_triangle(site: Site, emitter: Emitter) -> None:
    found, kind, made = site.ints(1) if site.has(1) else [0], site.type(0), site.made_type()
    assert found
    kept, zero = _kept(site.sizes(0), found[0], site.integer("upper")), np.zeros((), kind.dtype.numpy)
    reads = [
        (emitter.table(kept).name, ValueType.of(BOOL, *kept.shape)),
        (site.node.inputs[0], kind),
        (emitter.table(zero).name, ValueType.of(kind.dtype)),
    ]
    emitter.chain(site.out(), chain.pointwise("where", reads, (site.node.outputs[0], made)))


define(
    "Trilu", _triangle, ranges={"upper": FLAG}, reference=_run_triangle, lower=_lower_triangle,
    natively=lambda site: site.dtype(0).size <= 8 and (not site.has(1) or site.peek(1) is not None),
    formula="output[…, i, j] = input[…, i, j] where j − i ≥ k (upper) or ≤ k, else 0", shapes="input's.",
    kernels=(("elementwise.chain with blocks.where_<dtype>", "where k is known ahead"),),
)  # fmt: skip
