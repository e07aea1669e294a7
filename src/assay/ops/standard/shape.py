"""Operators about shapes: what they make can be known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.standard.definition import Range
from assay.ops.standard.registry import define
from assay.ops.standard.site import RANK, UNRANKED, Array, Made, Site, elements
from assay.tensor.dtype import I64


def sizes_array(shape: Sequence[Dim]) -> Array:
    """Sizes as a value: integers, or Dims where symbols are left."""
    plain = [dim.constant for dim in shape]
    if None not in plain:
        return np.array(plain, np.int64)
    found = np.empty(len(shape), object)
    found[:] = list(shape)
    return found


def _shape(site: Site) -> Sequence[Made]:
    shape = site.shape(0)
    rank = len(shape)
    end = site["end"]
    first, last = (
        min(max(each + rank if each < 0 else each, 0), rank)
        for each in (site.integer("start"), rank if end is None else site.integer("end"))
    )
    site.made[0] = sizes_array(shape[first:last])
    return [ValueType.of(I64, max(last - first, 0))]


def _size(site: Site) -> Sequence[Made]:
    value = np.empty((), object)
    value[()] = elements(site.shape(0))
    constant = elements(site.shape(0)).constant
    site.made[0] = value if constant is None else np.array(constant, np.int64)
    return [ValueType.of(I64)]


define("Shape", _shape, formula="shape = the sizes of data from start to end", shapes="[end − start]")
define("Size", _size, formula="size = the product of data's sizes", shapes="[]")
define(
    "Identity", lambda site: [site.type(0)], formula="output = input", shapes="That of the input.",
    reference=lambda input: input, view=True, unranked=True, sizes=True,
)  # fmt: skip


def _reshape(site: Site) -> Sequence[Made]:
    whole = site.shape(0)
    wanted = site.dims(1)
    if wanted is None:
        count = site.type(1).shape[0].constant if site.rank(1) == 1 else None
        if not site.require(
            (count or 0) <= RANK, "too many axes", want=f"at most {RANK}", got=count, input=1
        ):
            return [None]
        return [site.open_shape(count)]
    shape: list[Dim] = []
    free: list[int] = []
    for axis, dim in enumerate(wanted):
        if dim.constant == -1:
            free.append(axis)
        elif dim.constant == 0 and not site["allowzero"]:
            if axis >= len(whole):
                site.refuse(
                    "0 copies a size that isn't there", want=f"an axis below {len(whole)}", got=axis, input=1
                )
                return [None]
            dim = whole[axis]
        elif (dim.constant or 0) < -1:
            site.refuse("negative size", want="−1 or more", got=dim, input=1)
        shape.append(Dim.of(1) if dim.constant == -1 else dim)
    total, known = elements(whole), elements(tuple(shape))
    if len(free) > 1:
        site.refuse(
            "several sizes left open", want="at most one −1", got=[str(dim) for dim in wanted], input=1
        )
    elif free:
        if known.constant == 0:
            site.refuse(
                "a size left open beside 0", want="sizes above 0", got=[str(d) for d in wanted], input=1
            )
            return [None]
        shape[free[0]] = total // known
        if total.constant is not None and known.constant is not None:
            rule, want = "elements don't fill the shape", f"a multiple of {known}"
            site.require(
                total.constant % known.constant == 0,
                rule,
                want=want,
                got=f"{total} in {site.type(0)}",
                input=1,
            )
    else:
        rule, want = "another number of elements", f"{total}, of {site.type(0)}"
        got = f"{known} in [{', '.join(map(str, shape))}]"
        site.require(
            not total.differs(known),
            rule,
            want=want,
            got=got,
            input=1,
            hint="the sizes must multiply to the same",
        )
    return [tuple(shape)]


define(
    "Reshape", _reshape, formula="reshaped[i] = data[i], in the order of rows",
    ranges={"allowzero": Range(choices=(0, 1))},
    shapes="shape, with 0 for the input's own size (unless allowzero) and −1 for what fills it.",
    reference=lambda data, shape, allowzero: data.reshape(
        [data.shape[axis] if size == 0 and not allowzero else size for axis, size in enumerate(shape)]
    ), view=True, sizes=True,
)  # fmt: skip


def axes_of(site: Site, index: int, rank: int) -> list[int] | None:
    """The axes in an input, from 0 on, each once; None where they aren't known, or wrong."""
    found = site.ints(index)
    if found is None:
        return None
    if not all(-rank <= axis < rank for axis in found):
        site.refuse("axis out of range", want=f"{-rank} to {rank - 1}", got=found, input=index)
        return None
    whole = [axis % rank for axis in found]
    if len(set(whole)) != len(whole):
        site.refuse("an axis given twice", want="each once", got=found, input=index)
        return None
    return whole


def _squeeze(site: Site) -> Sequence[Made]:
    shape = site.shape(0)
    if not site.has(1):
        if any(dim.constant is None for dim in shape):
            return [UNRANKED]
        return [tuple(dim for dim in shape if dim.constant != 1)]
    axes = axes_of(site, 1, len(shape))
    if axes is None:
        return [UNRANKED]
    for axis in axes:
        rule, hint = f"axis {axis} can't be squeezed", "only axes of size 1 can"
        site.require(shape[axis].equals(1), rule, want="1", got=f"{shape[axis]} in {site.type(0)}", input=0,
                     dim=shape[axis], hint=hint)  # fmt: skip
    return [tuple(dim for axis, dim in enumerate(shape) if axis not in axes)]


def _unsqueeze(site: Site) -> Sequence[Made]:
    shape = list(site.shape(0))
    count = site.type(1).shape[0].constant if site.rank(1) == 1 else 1
    if count is None:
        return [UNRANKED]
    axes = axes_of(site, 1, len(shape) + count)
    if axes is None:
        return [UNRANKED if site.problems else site.open_shape(len(shape) + count)]
    for axis in sorted(axes):
        shape.insert(axis, Dim.of(1))
    return [tuple(shape)]


def _axes(axes: Array | None) -> tuple[int, ...] | None:
    return None if axes is None else tuple(int(each) for each in axes.reshape(-1))


define("Squeeze", _squeeze, formula="squeezed = data without axes of 1", shapes="data's without `axes`.",
       reference=lambda data, axes=None: np.squeeze(data, _axes(axes)), view=True, sizes=True)  # fmt: skip
define("Unsqueeze", _unsqueeze, formula="expanded = data with axes of 1", shapes="data's with 1 at `axes`.",
       reference=lambda data, axes: np.expand_dims(data, _axes(axes) or ()), view=True,
       sizes=True)  # fmt: skip


def _flatten(site: Site) -> Sequence[Made]:
    axis, shape = site.integer("axis"), site.shape(0)
    rank = len(shape)
    if not site.require(
        -rank <= axis <= rank, "attribute axis out of range", want=f"{-rank} to {rank}", got=axis
    ):
        return [None]
    axis = axis + rank if axis < 0 else axis
    return [(elements(shape[:axis]), elements(shape[axis:]))]


define("Flatten", _flatten, formula="output = input as a matrix", shapes="[d0 ⋯ d(axis−1), daxis ⋯ d(r−1)]",
       reference=lambda input, axis: input.reshape(int(np.prod(input.shape[:axis])), -1),
       view=True)  # fmt: skip


define("Constant", lambda site: [None], formula="output = value", shapes="The value's own.")
