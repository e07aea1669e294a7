"""What goes along an axis in order: running sums and products, and the first of an order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import PRODUCT, SUM
from assay.kernels.strides import KINDS
from assay.ops.operator import Exactness
from assay.ops.standard.definition import AXIS, FLAG
from assay.ops.standard.emit import Emitter
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Numbers, Site
from assay.tensor.dtype import I64

IN_ORDER = Exactness("ulp", "N", "of magnitudes: one rounding for each element, in order")


def _axis(site: Site) -> Sequence[Made]:
    rank, axis = site.rank(0), site.ints(1)
    site.want_rank(1, 0, 1)
    if axis is not None:
        good = len(axis) == 1 and -rank <= axis[0] < rank
        site.require(
            good, "axis out of range", want=f"{-rank} to {rank - 1}, for {site.type(0)}", got=axis, input=1
        )
    return [site.shape(0)]


def _lower_running(how: int, site: Site, emitter: Emitter) -> None:
    axes = site.ints(1)
    assert axes
    x, dtype = emitter.widened(0)
    y, sizes, axis = emitter.narrowed(dtype), site.sizes(0), axes[0] % site.rank(0)
    start = emitter.table(np.array([how == PRODUCT], dtype.numpy))
    words = [x, y, start, KINDS[dtype.name], how, prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :])]
    words += [site.integer("exclusive"), site.integer("reverse")]
    emitter.call("index.cumulate", words, writes=[y])


def _running(how: int, x: Numbers, axis: Numbers, *, exclusive: int, reverse: int) -> Numbers:
    at, add = int(axis.reshape(-1)[0]), np.add if how == SUM else np.multiply
    wide = np.moveaxis(x.astype(np.float64) if x.dtype.kind not in "iu" else x, at, 0)
    wide = wide[::-1] if reverse else wide
    found = add.accumulate(wide, dtype=wide.dtype)
    if exclusive:
        found = np.concatenate([np.full_like(wide[:1], how != SUM), found[:-1]])
    return np.moveaxis(found[::-1] if reverse else found, 0, at).astype(x.dtype)


for _op, _how, _sign in (("CumSum", SUM, "Σ"), ("CumProd", PRODUCT, "Π")):
    define(
        _op, _axis, lower=partial(_lower_running, _how), reference=partial(_running, _how),
        exactness=IN_ORDER,
        formula=f"y[…, i, …] = {_sign} x[…, j, …] over j ≤ i along axis (exclusive: j < i; reverse: from "
        f"the end)",
        shapes="x's.", ranges={"exclusive": FLAG, "reverse": FLAG}, kernels=(("index.cumulate", "always"),),
        natively=lambda site: site.peek(1) is not None,
        numerics=("In order, halves in float32 and each rounded once; integers wrap around.",),
    )  # fmt: skip


def _top(site: Site) -> Sequence[Made]:
    shape, axis, found = list(site.shape(0)), site.integer("axis"), site.dims(1)
    site.want_rank(1, 1)
    many = found[0] if found and len(found) == 1 else site.unknown("k")
    if many.constant is not None and many.constant < 0:
        site.refuse("negative k", want="0 or more", got=many, input=1)
    site.fits(1, many, shape[axis], "more than there are")
    shape[axis] = many
    return [tuple(shape), ValueType(I64, tuple(shape))]


def _lower_top(site: Site, emitter: Emitter) -> None:
    x, dtype = emitter.widened(0)
    sizes, axis = site.sizes(0), site.integer("axis")
    found = site.ints(1)
    assert found
    size, names = prod(site.out()), (*site.node.outputs, "")
    values = emitter.narrowed(dtype) if names[0] else emitter.temporary(dtype.size * size)
    indices = emitter.output(1) if names[1] else emitter.temporary(8 * size)
    words = [KINDS[dtype.name], prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :]), found[0]]
    arguments = [x, values, indices, "scratch", *words, int(not site["largest"])]
    emitter.call("order.top", arguments, writes=[values, indices], scratch=max(16 * found[0], 64))


def _best(X: Numbers, K: Numbers, *, axis: int, largest: int, sorted: int) -> tuple[Numbers, Numbers]:
    many, x = int(K.reshape(-1)[0]), np.moveaxis(X, axis, -1)
    order = np.argsort(x, -1, kind="stable")
    if largest:  # the lower index is first of equal ones, so the order is turned around twice
        order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
    places = order[..., :many]
    return np.moveaxis(np.take_along_axis(x, places, -1), -1, axis), np.moveaxis(places, -1, axis).astype(
        np.int64
    )


define(
    "TopK", _top, lower=_lower_top, reference=_best, ranges={"axis": AXIS, "largest": FLAG, "sorted": FLAG},
    formula="Values = the K greatest (or least) elements of X along axis, in that order; X[Indices] = Values",
    shapes="X's, with K along axis.", kernels=(("order.top", "K is known ahead"),),
    natively=lambda site: site.peek(1) is not None,
    numerics=("Of equal elements the lower index is first. NaN is greater than all numbers.",),
)  # fmt: skip
