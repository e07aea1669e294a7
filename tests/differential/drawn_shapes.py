"""Operators that move, take and make elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import helper, numpy_helper

from differential.draw import DTYPES, Array, Bound, Call, Draw, Known, most
from differential.families import family, plain, vector

# Shapes


@family("Reshape")
def reshape(d: Draw) -> Call:
    shape = list(d.shape(0, 4))
    target = list(d.random.permutation(shape)) if shape else []
    if target and d.chance(0.3) and prod(shape):
        target[d.integer(0, len(target) - 1)] = -1
    if d.chance(0.3) and prod(shape):
        target = [*target, 1]
    attributes: dict[str, object] = {}
    if 0 in shape and d.version >= 14:
        attributes["allowzero"] = 1
    elif 0 in shape:
        target = [0] * len(shape)
    elif shape and target and d.chance(0.2):
        target = [0, -1][: max(1, min(2, len(shape)))] if len(shape) > 1 else [0]
    return Call([d.data(shape, d.type()), vector([int(each) for each in target])], attributes)


@family("Flatten")
def flatten(d: Draw) -> Call:
    shape = d.shape()
    rank = len(shape)
    axis = d.integer(-rank, rank) if d.version >= 11 else d.integer(0, rank)
    return Call([d.data(shape, d.type())], {"axis": axis} if rank == 0 or d.chance(0.7) else {})


@family("Squeeze")
def squeeze(d: Draw) -> Call:
    shape = [1 if d.chance(0.5) else size for size in d.shape(0, 5)]
    ones = [at for at, size in enumerate(shape) if size == 1]
    axes = [
        int(at) - (len(shape) if d.chance(0.4) and d.version >= 11 else 0)
        for at in d.random.permutation(ones)
    ]
    axes = axes[: d.integer(1, len(axes))] if axes else []
    x = d.data(shape, d.type())
    if not axes or d.chance(0.3):
        return Call([x])
    return Call([x, vector(axes)]) if d.version >= 13 else Call([x], {"axes": axes})


@family("Unsqueeze")
def unsqueeze(d: Draw) -> Call:
    shape = d.shape(0, 3)
    more = d.integer(1, 3)
    rank = len(shape) + more
    axes = [
        int(at) - (rank if d.chance(0.4) and d.version >= 11 else 0)
        for at in d.random.permutation(rank)[:more]
    ]
    x = d.data(shape, d.type())
    return Call([x, vector(axes)]) if d.version >= 13 else Call([x], {"axes": axes})


@family("Transpose")
def transpose(d: Draw) -> Call:
    shape = d.shape(0, 5)
    perm = {"perm": d.random.permutation(len(shape)).tolist()} if shape and d.chance(0.8) else {}
    return Call([d.data(shape, d.type())], perm)


@family("Expand")
def expand(d: Draw) -> Call:
    shape = d.shape()
    own = d.stretch(shape)
    target = [1 if d.chance(0.2) else size for size in shape] if d.chance(0.5) else list(shape)
    return Call([d.data(own, d.type()), vector(target)])


@family("Concat")
def concat(d: Draw) -> Call:
    shape, dtype = list(d.shape(1)), d.type()
    axis = d.integer(0, len(shape) - 1)
    parts = [d.data([*shape[:axis], d.size(), *shape[axis + 1 :]], dtype) for _ in range(d.integer(1, 4))]
    return Call(parts, {"axis": axis - len(shape) if d.version >= 11 and d.chance(0.4) else axis})


@family("Split")
def split(d: Draw) -> Call:
    shape, dtype = list(d.shape(1)), d.type()
    axis = d.integer(0, len(shape) - 1)
    parts = [d.size() for _ in range(d.integer(1, 4))]
    attributes: dict[str, object] = {"axis": axis - len(shape) if d.version >= 11 and d.chance(0.4) else axis}
    if d.chance(0.4):
        count = len(parts)
        shape[axis] = d.integer(1, 4) * count
        if d.version >= 18:
            attributes["num_outputs"] = count
            shape[axis] += d.integer(0, count - 1) if shape[axis] > count else 0
        return Call([d.data(shape, dtype)], attributes, len(parts))
    shape[axis] = sum(parts)
    if d.version < 13:
        return Call([d.data(shape, dtype)], attributes | {"split": parts}, len(parts))
    return Call([d.data(shape, dtype), vector(parts)], attributes, len(parts))


@family("Slice")
def sliced(d: Draw) -> Call:
    shape = d.shape(1)
    x = d.data(shape, d.type())
    axes = d.axes(len(shape), 1)
    if d.version < 10:
        axes = sorted(axis % len(shape) for axis in axes)
    far = (-(1 << 31), (1 << 31) - 1, 1 << 40, -(1 << 40))
    starts, ends = ([d.pick(*far) if d.chance(0.15) else d.integer(-6, 8) for _ in axes] for _ in "se")
    if d.version < 10:
        attributes = {"starts": starts, "ends": ends}
        return Call(
            [x],
            attributes if axes == list(range(len(axes))) and d.chance(0.5) else attributes | {"axes": axes},
        )
    inputs = [x, vector(starts), vector(ends), vector(axes)]
    if d.chance(0.7):
        inputs.append(vector([d.pick(1, 1, 2, 3, -1, -2, 7) for _ in axes]))
    return Call(inputs)


@family("Pad")
def pad(d: Draw) -> Call:
    mode = d.pick("constant", "constant", "reflect", "edge", *(["wrap"] if d.version >= 19 else []))
    shape = d.shape(1, 4, 0 if mode == "constant" else 2)
    dtype, rank = d.type(), len(shape)
    most_ = [3 if mode == "constant" else size - 1 for size in shape] * 2
    pads = [d.integer(0, min(3, each)) for each in most_]
    if mode == "constant" and d.chance(0.3):
        pads = [max(each - 2, -(size // 2)) for each, size in zip(pads, [*shape, *shape], strict=True)]
    attributes: dict[str, object] = {"mode": mode} if mode != "constant" or d.chance(0.5) else {}
    x = d.data(shape, dtype)
    if d.version < 11:
        attributes |= {"value": 1.5} if d.chance(0.5) else {}
        return Call([x], attributes | {"pads": pads})
    value = Known(np.asarray(d.data((), dtype))) if d.chance(0.5) else None
    if d.version >= 18 and d.chance(0.4):
        axes = d.axes(rank, 1)
        return Call(
            [x, vector([pads[a % rank + side * rank] for side in (0, 1) for a in axes]), value, vector(axes)],
            attributes,
        )
    return Call([x, vector(pads), value], attributes)


@family("Tile")
def tile(d: Draw) -> Call:
    shape = d.shape(1)
    return Call([d.data(shape, d.type()), vector([d.integer(0, 3) for _ in shape])])


@family("Shape")
def shape_of(d: Draw) -> Call:
    ends = {key: d.integer(-6, 6) for key in ("start", "end") if d.version >= 15 and d.chance(0.5)}
    return Call([d.data(d.shape(), d.type())], ends)


@family("Size")
def size_of(d: Draw) -> Call:
    return Call([d.data(d.shape(), d.type())])


@family("Trilu")
def trilu(d: Draw) -> Call:
    x = d.data((*d.shape(0, 2), d.size(), d.size()), d.type())
    inputs = [x, Known(np.array(d.integer(-4, 4)))] if d.chance(0.6) else [x]
    return Call(inputs, {"upper": d.pick(0, 1)} if d.chance(0.7) else {})


@family("DepthToSpace SpaceToDepth")
def depth(d: Draw) -> Call:
    block, c = d.integer(1, 3), d.integer(1, 3)
    h, w = d.integer(1, 4), d.integer(1, 4)
    attributes: dict[str, object] = {"blocksize": block}
    if d.op == "SpaceToDepth":
        return Call([d.data((d.size(), c, h * block, w * block), d.type())], attributes)
    if d.version >= 11 and d.chance(0.6):
        attributes["mode"] = d.pick("DCR", "CRD")
    return Call([d.data((d.size(), c * block * block, h, w), d.type())], attributes)


@family("CenterCropPad")
def crop(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    axes = d.axes(len(shape), 1)
    if d.chance(0.5):
        return Call([d.data(shape, d.type()), vector([d.integer(1, 6) for _ in shape])])
    return Call([d.data(shape, d.type()), vector([d.integer(1, 6) for _ in axes])], {"axes": axes})


@family("ReverseSequence")
def reverse(d: Draw) -> Call:
    shape, batch = d.shape(2, 4, 1), d.pick(0, 1)
    lengths = d.random.integers(1, shape[1 - batch] + 1, shape[batch])
    return Call(
        [d.data(shape, d.type()), vector(lengths.tolist())], {"batch_axis": batch, "time_axis": 1 - batch}
    )


# Indices


@family("Gather")
def gather(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    axis = d.axis(len(shape)) if d.version >= 11 else d.integer(0, len(shape) - 1)
    low = None if d.version >= 11 else 0
    indices = d.places(d.shape(0, 3), shape[axis], d.pick(np.int64, np.int32), low)
    return Call([d.data(shape, d.type()), indices], {"axis": axis} if d.chance(0.7) or axis else {})


@family("GatherElements")
def gather_elements(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    axis = d.axis(len(shape))
    many = [d.size() if at == axis % len(shape) else d.integer(0, size) for at, size in enumerate(shape)]
    return Call(
        [d.data(shape, d.type()), d.places(many, shape[axis], d.pick(np.int64, np.int32))], {"axis": axis}
    )


def tuples(d: Draw, shape: Sequence[int], leading: Sequence[int], parts: int, batch: int = 0) -> Array:
    columns = [d.places(leading, size) for size in shape[batch : batch + parts]]
    return np.stack(columns, -1)


@family("GatherND")
def gather_nd(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    batch = d.integer(0, min(1, len(shape) - 1)) if d.version >= 12 else 0
    parts = d.integer(1, len(shape) - batch)
    leading = [*shape[:batch], *d.shape(0, 2)] if batch else d.shape(0, 2)
    indices = tuples(d, shape, leading, parts, batch)
    return Call(
        [d.data(shape, d.type("Tind" if False else "T")), indices], {"batch_dims": batch} if batch else {}
    )


REDUCTIONS = {16: ("none", "add", "mul"), 18: ("none", "add", "mul", "max", "min")}


def combined(d: Draw) -> str:
    known = [REDUCTIONS[since] for since in sorted(REDUCTIONS) if d.version >= since]
    return d.pick(*known[-1]) if known else "none"


@family("ScatterElements Scatter")
def scatter(d: Draw) -> Call:
    shape, dtype = d.shape(1, 3, 1), d.type()
    rank, how = len(shape), combined(d)
    axis = d.axis(rank) if d.version >= 11 else d.integer(0, rank - 1)
    many = [d.integer(0, size) for size in shape]
    if how == "none":  # each place once
        rows = d.random.permuted(
            np.broadcast_to(
                np.moveaxis(np.arange(shape[axis]).reshape(-1, *[1] * (rank - 1)), 0, axis % rank), shape
            ),
            axis=axis,
        )
        indices = rows[tuple(map(slice, many))]
        indices = (
            np.where(d.random.random(indices.shape) < 0.3, indices - shape[axis], indices)
            if d.version >= 11
            else indices
        )
    else:
        indices = d.places(many, shape[axis])
    data, updates = plain(d, shape, dtype), plain(d, many, dtype)
    return Call(
        [data, indices, updates],
        {"axis": axis} | ({"reduction": how} if how != "none" else {}),
        bound=Bound(64, most(data, updates), True),
    )


@family("ScatterND")
def scatter_nd(d: Draw) -> Call:
    shape, dtype = d.shape(1, 3, 1), d.type()
    parts, how = d.integer(1, len(shape)), combined(d)
    whole = prod(shape[:parts])
    count = d.integer(0, min(whole, 6))
    flat = d.random.permutation(whole)[:count] if how == "none" else d.random.integers(0, whole, count)
    indices = np.stack(np.unravel_index(flat, shape[:parts]), -1).astype(np.int64)
    data, updates = plain(d, shape, dtype), plain(d, (count, *shape[parts:]), dtype)
    return Call(
        [data, indices, updates],
        {"reduction": how} if how != "none" else {},
        bound=Bound(64, most(data, updates), True),
    )


@family("OneHot")
def one_hot(d: Draw) -> Call:
    shape, depth = d.shape(0, 3), d.integer(1, 5)
    low = -depth - 2 if d.version >= 11 else 0
    kind = d.type("T1")
    indices = d.data(shape, kind, low=low if kind.kind != "u" else 0, high=depth + 1)
    values = d.data((2,), d.type("T3"))
    attributes = {"axis": d.axis(len(shape) + 1)} if d.chance(0.6) else {}
    return Call([indices, Known(np.array(depth, d.type("T2"))), values], attributes)


@family("Compress")
def compress(d: Draw) -> Call:
    shape = d.shape(1)
    axis = d.axis(len(shape)) if d.version >= 11 else d.integer(0, len(shape) - 1)
    flat = d.chance(0.4)
    size = prod(shape) if flat else shape[axis]
    condition = d.data((d.integer(0, size),), np.bool_)
    return Call([d.data(shape, d.type()), condition], {} if flat else {"axis": axis})


@family("NonZero")
def non_zero(d: Draw) -> Call:
    return Call([np.round(d.data(d.shape(0 if d.version < 0 else 1), d.type(), 1.0))])


@family("Unique")
def unique(d: Draw) -> Call:
    shape = d.shape(1, 3)
    attributes = {"axis": d.axis(len(shape))} if d.chance(0.5) else {}
    attributes |= {"sorted": d.pick(0, 1)}
    d.special = False
    return Call([np.round(d.data(shape, d.type(), 2.0))], attributes, 4)


@family("TensorScatter")
def tensor_scatter(d: Draw) -> Call:
    shape = list(d.shape(2, 4, 1))
    axis = d.integer(1, len(shape) - 1)
    update = [d.integer(1, size) if at == axis else size for at, size in enumerate(shape)]
    mode = d.pick("linear", "circular")
    high = shape[axis] - update[axis] if mode == "linear" else shape[axis] - 1
    starts = d.random.integers(0, high + 1, shape[0]) if d.chance(0.8) else None
    dtype = d.type()
    return Call(
        [d.data(shape, dtype), d.data(update, dtype), starts],
        {"axis": axis - d.pick(0, len(shape)), "mode": mode},
    )


# Values made


@family("Range")
def range_(d: Draw) -> Call:
    dtype = d.type()
    start, limit = d.integer(-9, 9), d.integer(-9, 9)
    delta = d.pick(1, 2, -1, -3) if dtype.kind == "i" else d.pick(0.5, 1.0, -0.25, 2.0)
    return Call([Known(np.array(each, dtype)) for each in (start, limit, delta)], bound=Bound(4, 9))


@family("ConstantOfShape")
def filled(d: Draw) -> Call:
    value = d.data((1,), d.type("T2" if d.chance(0.8) else "T"))
    attributes = {"value": numpy_helper.from_array(value)} if d.chance(0.8) else {}
    return Call([vector(d.shape())], attributes)


@family("EyeLike")
def eye(d: Draw) -> Call:
    attributes: dict[str, object] = {"k": d.integer(-3, 3)} if d.chance(0.6) else {}
    if d.chance(0.5):
        attributes["dtype"] = helper.np_dtype_to_tensor_dtype(d.type("T2"))
    return Call([d.data((d.size(), d.size()), d.type("T1"))], attributes)


@family("Constant")
def constant(d: Draw) -> Call:
    return Call([], {"value": numpy_helper.from_array(d.data(d.shape(), np.dtype(d.pick(*DTYPES.values()))))})


# Running sums, orders, quantised values


@family("CumSum CumProd")
def running(d: Draw) -> Call:
    shape, dtype = d.shape(1), d.type()
    x = d.data(shape, dtype, low=0 if dtype.kind == "u" else -2, high=2)
    attributes = {key: d.pick(0, 1) for key in ("exclusive", "reverse") if d.chance(0.6)}
    axis = Known(np.array(d.axis(len(shape)), np.int64))
    return Call([x, axis], attributes, bound=Bound(64, 2.0 * max(shape), True))


@family("TopK")
def top(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    rank = len(shape)
    axis = d.axis(rank) if d.version >= 11 else d.integer(0, rank - 1)
    x = np.round(d.data(shape, d.type(), low=0, high=9))
    k = d.integer(0, shape[axis])
    attributes = {key: d.pick(0, 1) for key in ("largest",) if d.version >= 11 and d.chance(0.6)}
    if d.version < 10:
        return Call([x], {"axis": axis, "k": max(k, 1)}, 2)
    return Call([x, vector([k])], {"axis": axis, **attributes}, 2)


@family("QuantizeLinear DequantizeLinear")
def quantised(d: Draw) -> Call:
    shape = d.shape(1, 3)
    axis = d.integer(0, len(shape) - 1)
    own = (shape[axis],) if d.version >= 13 and d.chance(0.5) else ()
    target = np.dtype(d.pick(np.uint8, np.int8))
    scale = d.data(own, np.float32, low=0.1, high=2)
    zero = Known(d.data(own, target, low=0, high=20)) if d.chance(0.6) else None
    x = d.data(shape, np.float32, low=-99, high=99)
    if d.op == "DequantizeLinear":
        x = d.data(shape, target if zero else np.uint8, low=0, high=99)
    elif zero is None:
        x = np.abs(x)
    if zero is not None and zero.array.dtype != target:
        zero = None
    attributes = {"axis": axis} if own else {}
    return Call([x, Known(scale), zero], attributes, bound=Bound(4))


@family("MatMulInteger")
def integers(d: Draw) -> Call:
    n, k, m = d.size(), d.size(1), d.size()
    a, b = d.data((n, k), d.type("T1"), low=0, high=99), d.data((k, m), d.type("T2"), low=0, high=99)
    zeros = [Known(np.array(d.integer(0, 9), x.dtype)) if d.chance(0.5) else None for x in (a, b)]
    return Call([a, Known(b), *zeros])


@family("Einsum")
def einsum(d: Draw) -> Call:
    equation = d.pick(
        "ij,jk->ik", "ij->ji", "bij,bjk->bik", "ij,ij->", "i,j->ij", "...ij->...i", "ij,ji", "bii->bi"
    )
    sizes = {letter: d.size(1) for letter in "bijk"}
    terms = equation.partition("->")[0].replace("...", "b").split(",")
    values = [d.data([sizes[letter] for letter in term], np.float32, low=-2, high=2) for term in terms]
    return Call(values, {"equation": equation}, bound=Bound(64, 4 * 17 * 17))


@family("Det")
def determinant(d: Draw) -> Call:
    size = d.integer(1, 4)
    return Call([d.data((*d.shape(0, 2), size, size), np.float32, low=-2, high=2)], bound=Bound(64, 64))
