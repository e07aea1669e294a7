"""Operators that put something around a value, or cut it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from assay.graph.dim import least
from assay.ops import chain
from assay.ops.standard.definition import AXIS, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.move import COPIED, copy
from assay.ops.standard.registry import define
from assay.ops.standard.shape import axes_of
from assay.ops.standard.site import Array, Made, Site

MOST_TURNS = 4096
"""How often an axis may be mirrored or repeated."""


def _pad(site: Site) -> Sequence[Made]:
    shape, rank, count = list(site.shape(0)), site.rank(0), site.length(1)
    if site.has(3):
        axes, number = axes_of(site, 3, rank), site.length(3)
    else:
        axes, number = list(range(rank)), rank
    good = None if count is None or number is None else count == 2 * number
    want = f"{2 * (number or 0)}: one before and one behind each axis"
    widths = site.dims(1)
    site.require(good, "number of pads", want=want, got=count, input=1)
    if site.problems or widths is None or axes is None:
        return [None if site.problems else site.open_shape(rank)]
    site.single(2)
    for at, axis in enumerate(axes):
        before, behind, size = widths[at], widths[at + len(axes)], shape[axis]
        left = least(before, 0) + size + least(behind, 0)
        what = f"{size} in {site.type(0)}, padded by {before} and {behind}"
        site.require((left.constant or 0) >= 0, f"axis {axis} is cut to less than nothing", want="0 or more",
                     got=what, input=1)  # fmt: skip
        empty = left.constant == 0 and site.text("mode") != "constant" and (before + behind).sign == 1
        site.require(not empty, f"nothing along axis {axis} to pad with", want="1 or more elements", got=what,
                     input=0, dim=size)  # fmt: skip
        most = MOST_TURNS * max((left.constant or 2) - 1, 1)
        much = max(before.constant or 0, behind.constant or 0) > most
        much = much and site.text("mode") in ("reflect", "wrap")
        rule, want = f"axis {axis} is repeated too often", f"pads of at most {most}"
        site.require(not much, rule, want=want, got=what, input=1)
        shape[axis] = before + size + behind
    return [tuple(shape)]


def _widths(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> list[tuple[int, int]]:
    """Elements before and behind each axis."""
    found, half = [(0, 0)] * rank, len(pads) // 2
    for at, axis in enumerate(range(rank) if axes is None else axes):
        found[axis] = int(pads[at]), int(pads[at + half])
    return found


def _run_pad(
    data: Array, pads: Array, constant_value: Array | None = None, axes: Array | None = None, *, mode: str
) -> Array:
    widths = _widths(pads.tolist(), None if axes is None else axes.tolist(), data.ndim)
    inside = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(data.shape, widths, strict=True))
    wide = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode != "constant":
        found = data[inside]
        for axis, (before, behind) in enumerate(wide):
            size = found.shape[axis]
            found = np.take(found, _source(mode, np.arange(-before, size + behind), size), axis)
        return found
    zero = "" if data.dtype == object else np.zeros((), data.dtype)
    value = zero if constant_value is None else constant_value.reshape(())
    found = np.full([n + a + b for n, (a, b) in zip(data.shape, widths, strict=True)], value, data.dtype)
    middle = tuple(slice(a, n - b) for n, (a, b) in zip(found.shape, wide, strict=True))
    found[middle] = data[inside]
    return found


def _source(mode: str, places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The elements of an axis that places outside repeat."""
    if mode == "edge" or size == 1:
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    places = places % (2 * (size - 1))
    return np.minimum(places, 2 * (size - 1) - places)


def _runs(mode: str, first: int, count: int, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Places from `first` on as runs: the place, the element there, its neighbour's distance, how many."""
    place, end = first, first + count
    while place < end:
        source = int(_source(mode, np.array(place), size))
        if mode == "edge" or size == 1:
            step, many = 0, count
        elif mode == "reflect" and place % (2 * (size - 1)) >= size - 1:
            step, many = -1, source
        else:
            step, many = 1, size - source - (mode == "reflect")
        many = min(many, end - place)
        yield place, source, step, many
        place += many


def _lower_pad(site: Site, emitter: Emitter) -> None:
    """The middle first; then, axis by axis, what lies before and behind is filled from what is there."""
    mode, size, whole = site.text("mode"), site.dtype(0).size, list(site.out())
    axes, pads = site.ints(3) if site.has(3) else None, site.ints(1)
    assert pads is not None
    widths = _widths(pads, axes, site.rank(0))
    extents = [n + min(a, 0) + min(b, 0) for n, (a, b) in zip(site.sizes(0), widths, strict=True)]
    each = (chain.strides(size, sizes) for sizes in (site.sizes(0), whole))
    steps, into = ([int(n) for n in strides] for strides in each)  # type: ignore[arg-type]
    skipped = sum(max(-a, 0) * step for (a, _), step in zip(widths, steps, strict=True))
    begin = sum(max(a, 0) * step for (a, _), step in zip(widths, into, strict=True))
    out = emitter.output()
    copy(emitter, size, extents, (emitter.input(0), steps, skipped), (out, into, begin))
    for axis, (before, behind) in enumerate(widths):
        count, step = extents[axis], into[axis]
        for first, width in ((-max(before, 0), max(before, 0)), (count, max(behind, 0))):
            shape = [*extents[:axis], width, *extents[axis + 1 :]]
            if mode == "constant":
                value = emitter.input(2) if site.has(2) else emitter.table(np.zeros((), site.dtype(0).numpy))
                flat = value, [0] * len(shape), 0
                copy(emitter, size, shape, flat, (out, into, begin + first * step))
                continue
            for place, source, stride, many in _runs(mode, first, width, count):
                shape[axis] = many
                apart = [*into[:axis], stride * step, *into[axis + 1 :]]
                ends = (out, apart, begin + source * step), (out, into, begin + place * step)
                copy(emitter, size, shape, *ends)
        begin -= max(before, 0) * step
        extents[axis] = whole[axis]


define(
    "Pad", _pad, ranges={"mode": one_of("constant", "reflect", "edge", "wrap")},
    formula="output[i + pads before] = data[i]; outside, constant_value, or data mirrored, held or repeated",
    shapes="Each size and its two pads; negative ones cut, before anything is padded.",
    reference=_run_pad, lower=_lower_pad, kernels=COPIED,
)  # fmt: skip


def _crop(site: Site) -> Sequence[Made]:
    shape, axes, count = list(site.shape(0)), site.integers("axes"), site.length(1)
    axes = tuple(range(len(shape))) if axes is None else axes
    site.require(len(set(axes)) == len(axes), "an axis given twice", want="each once", got=list(axes))
    good = None if count is None else count == len(axes)
    site.require(good, "numbers of sizes and of axes disagree", want=str(len(axes)), got=count, input=1)
    wanted = site.dims(1)
    site.natural(1, wanted or ())
    for at, axis in enumerate(axes if not site.problems else ()):
        shape[axis] = wanted[at] if wanted else site.unknown(str(axis))
    return [tuple(shape)]


define(
    "CenterCropPad", _crop, ranges={"axes": AXIS}, expand=True,
    formula="output_data = input_data cut, or padded by zeros, to the sizes, the same on both sides",
    shapes="The sizes in `shape` along `axes`, by default all.",
)  # fmt: skip
