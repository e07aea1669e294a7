"""Resize: one axis after the other, each output a weighted sum of a few inputs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, inf, prod

import numpy as np

from assay.graph.dim import Dim
from assay.kernels.filters import Resize
from assay.kernels.strides import along
from assay.ops.operator import Exactness
from assay.ops.standard.definition import FLAG, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site
from assay.tensor.dtype import F32, F64

MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip


def _axes(site: Site) -> list[int] | None:
    """The axes that scales, sizes and roi speak of."""
    rank, given = site.rank(0), site.integers("axes")
    axes = list(range(rank)) if given is None else list(given)
    good = all(-rank <= axis < rank for axis in axes)
    if not site.require(good, "attribute axes out of range", want=f"{-rank} to {rank - 1}", got=axes):
        return None
    return [axis % rank for axis in axes]


def _given(site: Site, index: int) -> bool:
    """Whether an input is there and not empty: an empty one stands for none."""
    return site.has(index) and site.type(index).sizes != (0,)


def _resize(site: Site) -> Sequence[Made]:
    axes, shape = _axes(site), list(site.shape(0))
    scaled, sized = _given(site, 2), _given(site, 3)
    site.require(
        scaled != sized, "scales or sizes", want="one of the two", got="both" if scaled else "neither"
    )
    if axes is None or site.problems:
        return [None]
    if site.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        rule, want = "roi of another length", f"{2 * len(axes)}, starts and ends"
        regions = site.value(1)
        if regions is not None:
            site.require(regions.size == 2 * len(axes), rule, want=want, got=regions.size, input=1)
    index = 2 if scaled else 3
    values = site.value(index)
    for axis in axes:
        shape[axis] = site.unknown(str(axis))
    if values is None:
        return [tuple(shape)]
    rule, want = "scales or sizes of another length", f"{len(axes)}, one for each axis"
    if not site.require(values.size == len(axes), rule, want=want, got=values.size, input=index):
        return [None]
    scales = [float(each) for each in values.reshape(-1)] if scaled else _scales(site, axes)
    site.natural(3, (site.dims(3) if sized else None) or ())
    if site.problems:
        return [None]
    for place, axis in enumerate(axes):
        dim = site.shape(0)[axis]
        if scaled:
            good, got = 0 < scales[place] < inf, scales[place]
            if not site.require(good, "no such scale", want="above 0 and finite", got=got, input=2):
                continue
            shape[axis] = _times(dim, scales[place], site, axis)
        elif site.text("keep_aspect_ratio_policy") == "stretch":
            shape[axis] = Dim.of(values.reshape(-1)[place])
        elif scales:
            shape[axis] = Dim.of(floor((dim.constant or 0) * scales[place] + 0.5))
    return [tuple(shape)]


def _times(dim: Dim, scale: float, site: Site, axis: int) -> Dim:
    """The size times a scale, rounded down."""
    if dim.constant is not None:
        return Dim.of(floor(dim.constant * scale))
    exact = Fraction(scale)
    return dim * exact.numerator // exact.denominator if exact.denominator < 1024 else site.unknown(str(axis))


def _scales(site: Site, axes: Sequence[int]) -> list[float]:
    """Of each axis by the sizes that are asked for; none where they aren't known."""
    values, known = site.ints(3), [site.shape(0)[axis].constant for axis in axes]
    if values is None or None in known:
        return []
    scales = [value / (size or 1) for value, size in zip(values, known, strict=True)]
    policy = site.text("keep_aspect_ratio_policy")
    if policy != "stretch":
        scales = [min(scales) if policy == "not_larger" else max(scales)] * len(scales)
    return scales


def _lower(site: Site, emitter: Emitter) -> None:
    axes, sizes, out = _axes(site), list(site.sizes(0)), site.out()
    assert axes is not None
    given = site.peek(2) if _given(site, 2) else None
    scales = _scales(site, axes) if given is None else [float(each) for each in given.reshape(-1)]
    corners = site.peek(1) if _given(site, 1) else None
    regions = [0.0, 1.0] if corners is None else [float(each) for each in corners.reshape(-1)]
    filters = Resize(
        site.text("mode"), site.text("coordinate_transformation_mode"), site.text("nearest_mode"),
        site.number("cubic_coeff_a"), bool(site["antialias"]), bool(site["exclude_outside"]),
    )  # fmt: skip
    crop = filters.coordinate_transformation_mode == "tf_crop_and_resize"
    nearest = filters.mode == "nearest" and not crop
    dtype = site.dtype(0) if nearest or site.dtype(0) == F64 else F32
    address = emitter.input(0, dtype)
    work = [
        place for place, axis in enumerate(axes) if sizes[axis] != out[axis] or scales[place] != 1 or crop
    ]
    if nearest:
        work.sort(key=lambda place: -axes[place])  # the inner axes while there is less of the others
    target = emitter.narrowed(dtype)
    for number, place in enumerate(work or [0]):
        axis = axes[place] if axes else 0
        extent, count = sizes[axis], out[axis]
        scale = scales[place]
        width = scale * extent if given is not None or filters.mode != "nearest" else count
        roi = (regions[place], regions[place + len(axes)]) if corners is not None and crop else (0.0, 1.0)
        indices, weights = filters.table(extent, count, scale, width if given is not None else count, roi)
        made = [*sizes[:axis], count, *sizes[axis + 1 :]]
        last = number == len(work or [0]) - 1
        to = target if last else emitter.temporary(dtype.size * prod(made))
        if nearest:
            table = emitter.table(np.ascontiguousarray(indices[:, 0]))
            words = [address, table, to, 1, *along(dtype.size, sizes, axis, count)]
            emitter.call("index.gather", words, writes=[to])
        else:
            table = emitter.table(np.ascontiguousarray(indices))
            factors = emitter.table(np.ascontiguousarray(weights.astype(dtype.numpy)))
            words = [
                address, table, factors, to, prod(sizes[:axis]), extent, count, indices.shape[1],
                prod(sizes[axis + 1 :]), site.number("extrapolation_value"),
            ]  # fmt: skip
            emitter.call(f"resize.{dtype}", words, writes=[to])
        address, sizes = to, made


define(
    "Resize", _resize, summary="Another size, by interpolation along each axis.",
    formula="Y = Σ_t w[t] · X[x + t] along one axis after the other, x where the output's place lies in X",
    shapes="sizes, or ⌊size · scale⌋ for each axis.", lower=_lower,
    ranges={
        "antialias": FLAG, "exclude_outside": FLAG, "mode": one_of("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": one_of(*MODES),
        "nearest_mode": one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "keep_aspect_ratio_policy": one_of("stretch", "not_larger", "not_smaller"),
    },
    exactness=Exactness("ulp", 64, "places and weights are float64, rounded once; sums of a few by fma"),
    numerics=("Axes in ascending order; along each, taps by fma in ascending order from zero.",),
    kernels=(("index.gather", "nearest"), ("resize.<type>", "linear, cubic, and where places may lie "
    "outside")),
    not_differentiable={"roi": "only places depend on it", "scales": "only places depend on it",
                        "sizes": "sizes are integers"},
)  # fmt: skip
