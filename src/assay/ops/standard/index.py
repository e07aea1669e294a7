"""Operators that take and put elements where a value says, in the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from assay.graph.dim import Dim
from assay.kernels.sizes import GREATEST, LEAST, PRODUCT, SUM
from assay.kernels.strides import KINDS, along, of_elements, of_tuples
from assay.ops.standard.definition import AXIS, FLAG, NATURAL, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.move import copy
from assay.ops.standard.registry import define
from assay.ops.standard.site import UNRANKED, Array, Made, Site, elements
from assay.tensor.dtype import I64

INDICES = "An index is below the size, or counts from its end where negative; one outside ends the run."
REDUCED: Mapping[str, tuple[int, Callable[..., None]]] = {
    "add": (SUM, np.add.at), "mul": (PRODUCT, np.multiply.at), "max": (GREATEST, np.maximum.at),
    "min": (LEAST, np.minimum.at),
}  # fmt: skip
REDUCTION = one_of("none", *REDUCED)


def within(site: Site, index: int, numbers: Array | None, size: Dim, what: str = "index") -> None:
    """Hold known indices against the size that they are in."""
    if size.constant is not None:
        site.bounded(index, numbers, -size.constant, size.constant - 1, what)


def _words(site: Site, wide: int, words: Sequence[int]) -> list[int]:
    return [int(site.dtype(wide) == I64), *words]


# Gather


def _gather(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), site.shape(0)
    within(site, 1, site.peek(1), shape[axis])
    return [(*shape[:axis], *site.shape(1), *shape[axis + 1 :])]


def _gather_elements(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), site.shape(0)
    if not site.want_rank(1, len(shape)):
        return [None]
    within(site, 1, site.peek(1), shape[axis])
    _below(site, 1, axis)
    return [site.shape(1)]


def _below(site: Site, index: int, axis: int) -> None:
    """Indices span at most the data's sizes along the other axes."""
    for at, (size, many) in enumerate(zip(site.shape(0), site.shape(index), strict=True)):
        if at != axis:
            site.fits(index, many, size, f"more indices than data along axis {at}")


def _tuples(site: Site, batch: int) -> int | None:
    """How many axes each tuple of indices says, held against the data; None where it isn't known."""
    rank, good = site.rank(0), site.want_rank(0, 1, -1) and site.want_rank(1, 1, -1)
    parts = site.shape(1)[-1].constant if good else None
    want = f"1 to {rank - batch}, for {site.type(0)}"
    if parts is None or not site.require(
        1 <= parts <= rank - batch, "indices say another number of axes", want=want, got=parts, input=1
    ):  # fmt: skip
        return None
    numbers = site.peek(1)
    for at in range(parts if numbers is not None else 0):
        assert numbers is not None
        within(site, 1, numbers[..., at], site.shape(0)[batch + at], f"index of axis {batch + at}")
    return parts


def _gather_nd(site: Site) -> Sequence[Made]:
    batch, rank = site.integer("batch_dims"), min(site.rank(0), site.rank(1))
    rule = "attribute batch_dims out of range"
    if not site.require(batch < max(rank, 1), rule, want=f"below {rank}", got=batch):
        return [None]
    for at in range(batch):
        site.agree(site.shape(0)[at], site.shape(1)[at], f"batch sizes along axis {at}", 1)
    parts = _tuples(site, batch)
    return [UNRANKED if parts is None else (*site.shape(1)[:-1], *site.shape(0)[batch + parts :])]


def _grids(shape: Sequence[int], axis: int, indices: Array) -> tuple[Array, ...]:
    """The places of elements whose place along an axis is their index."""
    places = np.indices(shape, sparse=True)
    return tuple(indices if at == axis else place for at, place in enumerate(places))


def _run_gather_nd(data: Array, indices: Array, *, batch_dims: int) -> Array:
    places = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
    found: Array = data[(*places, *np.moveaxis(indices, -1, 0))]
    return found


def _lower_gather(words: Callable[[Site], tuple[int, ...]], site: Site, emitter: Emitter) -> None:
    if prod(site.out()):
        x, indices, y = emitter.input(0), emitter.input(1), emitter.output()
        arguments = [x, indices, y, *_words(site, 1, words(site))]
        emitter.call("index.gather", arguments, writes=[y])


def _along(site: Site) -> tuple[int, ...]:
    return along(site.dtype(0).size, site.sizes(0), site.integer("axis"), prod(site.sizes(1)))


def _of_elements(site: Site) -> tuple[int, ...]:
    return of_elements(site.dtype(0).size, site.sizes(0), site.integer("axis"), site.sizes(1))


def _of_tuples(site: Site) -> tuple[int, ...]:
    batch = site.attributes.get("batch_dims", 0)
    assert isinstance(batch, int)
    return of_tuples(site.dtype(0).size, site.sizes(0), batch, site.sizes(1))


GATHERED = (("index.gather", "always"),)
define(
    "Gather", _gather, ranges={"axis": AXIS}, sizes=True, kernels=GATHERED, numerics=(INDICES,),
    formula="output[i, j, k] = data[i, indices[j], k], j in place of axis",
    shapes="data's, with indices' in place of `axis`.",
    reference=lambda data, indices, axis: np.take(data, indices.astype(np.int64), axis),
    lower=partial(_lower_gather, _along),
)  # fmt: skip
define(
    "GatherElements", _gather_elements, ranges={"axis": AXIS}, kernels=GATHERED, numerics=(INDICES,),
    formula="output[i, j, k] = data[i, indices[i, j, k], k], j along axis", shapes="indices'.",
    reference=lambda data, indices, axis: data[_grids(indices.shape, axis, indices)],
    lower=partial(_lower_gather, _of_elements),
)  # fmt: skip
define(
    "GatherND", _gather_nd, ranges={"batch_dims": NATURAL}, kernels=GATHERED, numerics=(INDICES,),
    formula="output[b, i] = data[b, indices[b, i, 0], indices[b, i, 1], …], b over batch_dims axes",
    shapes="indices' without its last, then data's behind the axes that these say.", reference=_run_gather_nd,
    lower=partial(_lower_gather, _of_tuples), sizes=True,
)  # fmt: skip


# Scatter


def _scatter_elements(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), site.shape(0)
    if site.want_rank(1, len(shape)):
        within(site, 1, site.peek(1), shape[axis])
        _below(site, 1, axis)
        site.match(2, *site.shape(1), what="indices and updates")
    return [shape]


def _scatter_nd(site: Site) -> Sequence[Made]:
    parts = _tuples(site, 0)
    if parts is not None:
        site.match(2, *site.shape(1)[:-1], *site.shape(0)[parts:], what="sizes of updates")
    return [site.shape(0)]


def _put(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    found = data.astype(object) if updates.dtype == object else data.copy()
    if reduction == "none":
        found[places] = updates
    else:
        REDUCED[reduction][1](found, places, updates)
    return found


def _lower_scatter(words: Callable[[Site], tuple[int, ...]], site: Site, emitter: Emitter) -> None:
    reduction, kind = site.text("reduction"), site.type(0)
    data, updates, y, dtype = emitter.input(0), emitter.input(2), emitter.output(), kind.dtype
    if reduction != "none":
        (data, dtype), (updates, _) = emitter.widened(0), emitter.widened(2)
        y = emitter.narrowed(dtype)
    total, size = prod(site.out()), dtype.size
    if total:
        ends = [(each, [min(size, 8)], 0) for each in (data, y)]
        copy(emitter, min(size, 8), [total * size // min(size, 8)], ends[0], ends[1])
    if total and prod(site.sizes(2)):
        block, positions, axes, parts, *rest = words(site)
        block, rest = block // kind.dtype.size * size, _scaled(rest, axes, parts, kind.dtype.size, size)
        how = 1 if reduction != "none" else 0, REDUCED.get(reduction, (0,))[0], KINDS.get(dtype.name, 0)
        head = _words(site, 1, (block, positions, axes, parts, total * size // block, *how, *rest))
        indices = emitter.input(1)
        emitter.call("index.scatter", [updates, indices, y, *head], reads=[updates, indices, y], writes=[y])


def _scaled(words: Sequence[int], axes: int, parts: int, size: int, wide: int) -> list[int]:
    """Strides in bytes of elements of another size: the second of each axis' three and of each part's two."""
    strides = {3 * axis + 1 for axis in range(axes)} | {3 * axes + 2 * part + 1 for part in range(parts)}
    return [word // size * wide if at in strides else word for at, word in enumerate(words)]


ORDER = "Elements are combined in the order of the indices, halves in float32 and rounded once."
SCATTERED = (("index.scatter", "always"),)
define(
    "ScatterElements", _scatter_elements, ranges={"axis": AXIS, "reduction": REDUCTION}, sizes=True,
    formula="output = data; output[i, indices[i, j, k], k] = updates[i, j, k], j along axis, or what "
    "reduction makes of both", shapes="data's.", kernels=SCATTERED, numerics=(INDICES, ORDER),
    reference=lambda data, indices, updates, axis, reduction: _put(
        data, _grids(indices.shape, axis, indices), updates, reduction
    ),
    lower=partial(_lower_scatter, _of_elements),
)  # fmt: skip
define(
    "ScatterND", _scatter_nd, ranges={"reduction": REDUCTION}, sizes=True, kernels=SCATTERED,
    formula="output = data; output[indices[i, 0], indices[i, 1], …] = updates[i], or what reduction makes of "
    "both", shapes="data's.", numerics=(INDICES, ORDER),
    reference=lambda data, indices, updates, reduction: _put(
        data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction
    ),
    lower=partial(_lower_scatter, _of_tuples),
)  # fmt: skip


def _tensor_scatter(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), site.shape(0)
    site.require(axis > 0, "attribute axis is the batch's", want=f"1 to {len(shape) - 1}", got=axis)
    if not site.want_rank(1, len(shape)):
        return [shape]
    many = site.shape(1)[axis]
    site.match(1, *shape[:axis], many, *shape[axis + 1 :])
    site.fits(1, many, shape[axis], "an update longer than the cache")
    site.match(2, shape[0], what="sizes of the batch")
    if site["mode"] == "linear":
        site.bounded(2, site.peek(2), 0, (shape[axis] - many).constant, "index")
    return [shape]


def _run_tensor_scatter(
    past_cache: Array, update: Array, write_indices: Array | None = None, *, axis: int, mode: str
) -> Array:
    found, size = past_cache.copy(), past_cache.shape[axis]
    starts = [0] * len(found) if write_indices is None else write_indices.tolist()
    for row, start in enumerate(starts):
        places = start + np.arange(update.shape[axis])
        if mode == "linear" and start < 0:
            raise ValueError(f"an index of {start}")
        np.moveaxis(found[row], axis - 1, 0)[places % size if mode == "circular" else places] = np.moveaxis(
            update[row], axis - 1, 0
        )
    return found


define(
    "TensorScatter", _tensor_scatter, ranges={"axis": AXIS, "mode": one_of("linear", "circular")},
    formula="present_cache = past_cache; present_cache[b, …, write_indices[b] + t, …] = update[b, …, t, …], "
    "the place modulo the size where mode is circular", shapes="past_cache's.", reference=_run_tensor_scatter,
)  # fmt: skip


# What only data can tell the number of


def _compress(site: Site) -> Sequence[Made]:
    axis, shape, condition = site["axis"], site.shape(0), site.peek(1)
    if not site.want_rank(1, 1):
        return [None]
    whole, many = elements(shape) if axis is None else shape[site.integer("axis")], site.shape(1)[0]
    site.fits(1, many, whole, "a condition longer than the axis")
    kept = site.unknown("kept") if condition is None else Dim.of(int(np.count_nonzero(condition)))
    if axis is None:
        return [(kept,)]
    at = site.integer("axis")
    return [(*shape[:at], kept, *shape[at + 1 :])]


define(
    "Compress", _compress, ranges={"axis": AXIS},
    reference=lambda input, condition, axis: np.compress(condition, input, axis),
    formula="output = the elements of input along axis (by default: all in a row) where condition is true",
    shapes="input's, along `axis` the number of true ones.",
)  # fmt: skip


def _non_zero(X: Array) -> Array:
    found = np.nonzero(np.atleast_1d(X))
    return np.stack(found) if X.ndim else np.zeros((0, len(found[0])), np.int64)


define(
    "NonZero", lambda site: [(Dim.of(site.rank(0)), site.unknown("found"))], reference=_non_zero,
    formula="Y[:, n] = the place of X's nth element that isn't 0",
    shapes="[rank of X, number of such elements]",
)  # fmt: skip


def _unique(site: Site) -> Sequence[Made]:
    axis, shape, found = site["axis"], site.shape(0), site.unknown("found")
    if axis is None:
        return [(found,), (found,), (elements(shape),), (found,)]
    at = site.integer("axis")
    return [(*shape[:at], found, *shape[at + 1 :]), (found,), (shape[at],), (found,)]


def _run_unique(X: Array, *, axis: int | None, sorted: int) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(X, True, True, True, axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, first, inverse, counts


define(
    "Unique", _unique, ranges={"axis": AXIS, "sorted": FLAG}, reference=_run_unique,
    formula="X[indices] = Y, Y[inverse_indices] = X: each element, or each part along axis, once, in "
    "ascending order or as they come", shapes="X's with the number found along `axis`, else [that number].",
)  # fmt: skip
