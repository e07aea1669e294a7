"""Regions of images: boxes that are chosen, and what is read of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.standard.definition import FLAG, NATURAL, POSITIVE, one_of
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.registry import define
from assay.ops.standard.sampled import EXACTNESS, Reader, pixels, precision
from assay.ops.standard.site import Array, Made, Numbers, Site
from assay.tensor.dtype import I64


def _regions(site: Site) -> Sequence[Made]:
    pooled = site.integers("pooled_shape") if "pooled_shape" in site.attributes else None
    wide = 4 if pooled is None else 5
    if not (site.want_rank(0, 4) & site.want_rank(1, 2)):
        return [None]
    site.agree(Dim.of(wide), site.shape(1)[1], "numbers of a region", 1)
    if pooled is None:
        pooled = site.integer("output_height"), site.integer("output_width")
        if site.want_rank(2, 1):
            site.agree(site.shape(1)[0], site.shape(2)[0], "regions and their images", 2)
    rule = "attribute pooled_shape: not two sizes"
    site.require(len(pooled) == 2, rule, want="a height and a width above 0", got=pooled)
    return [(site.shape(1)[0], site.shape(0)[1], *map(Dim.of, pooled))]


def _align(f: Function) -> Sequence[Name] | None:
    site, ratio = f.site, f.site.integer("sampling_ratio")
    if not ratio:
        return None
    x, (count, _), sizes = site.sizes(0), site.sizes(1), site.out()
    dtype, half = precision(site, 0), site["coordinate_transformation_mode"] == "half_pixel"
    first = f("Mul", f.reshape(f.input(2), count, 1), f.number(x[2] * x[3]))
    reader = Reader(f, f.cast(pixels(f, f.input(0), x), dtype), x[2:], first, dtype)
    scaled = f("Mul", f.cast(f.input(1), dtype), reader.number(site.number("spatial_scale")))
    corner = f("Sub", scaled, reader.number(0.5 if half else 0))
    places, inside = [], ""
    for axis in range(2):
        low, high = (f.slice(corner, 1, at, at + 1) for at in (1 - axis, 3 - axis))
        span = f("Sub", high, low)
        if not half:
            span = f("Max", span, reader.number(1))
        number = sizes[2 + axis]
        steps = (np.arange(number * ratio) + 0.5) / ratio
        at = f("Add", low, f("Mul", f("Div", span, reader.number(number)), f.number(steps, dtype)))
        shape = [count, number * ratio, 1] if axis == 0 else [count, 1, number * ratio]
        rows = f.number([count, sizes[2] * ratio, sizes[3] * ratio])
        at = f.reshape(f("Expand", f.reshape(at, *shape), rows), count, sizes[2] * sizes[3] * ratio**2)
        near = f("GreaterOrEqual", at, reader.number(-1)), f("LessOrEqual", at, reader.number(x[2 + axis]))
        here = f("And", *near)
        inside = f("And", inside, here) if inside else here
        places.append(reader.clipped(at, axis))
    most = site["mode"] == "max"
    found = reader.read(places, "linear", "border", fold="Max" if most else "Add")
    found = f("Where", f("Unsqueeze", inside, f.number([-1])), found, reader.number(0))
    parts = f.reshape(found, count, sizes[2], ratio, sizes[3], ratio, x[1])
    pooled = f("ReduceMax" if most else "ReduceMean", parts, f.number([2, 4]), keepdims=0)
    return [f.cast(f.moved(pooled, (0, 3, 1, 2)), site.dtype(0))]


def _aligned(
    X: Numbers, rois: Numbers, batch_indices: Array, *, mode: str, sampling_ratio: int, spatial_scale: float,
    output_height: int, output_width: int, coordinate_transformation_mode: str, site: Site,
) -> Numbers:  # fmt: skip
    wide, half = np.result_type(X, np.float32).type, coordinate_transformation_mode == "half_pixel"
    y = np.zeros((len(rois), X.shape[1], output_height, output_width), wide)
    corners = rois.astype(wide) * wide(spatial_scale) - wide(0.5 if half else 0)
    for r, (left, top, right, bottom) in enumerate(corners):
        axes = []
        for low, high, many, size in zip((top, left), (bottom, right), y.shape[2:], X.shape[2:], strict=True):
            span = high - low if half else max(high - low, wide(1))
            ratio = sampling_ratio or max(0, int(np.ceil(span / wide(many))))
            if 8 * X.shape[1] * many * ratio > site.memory:
                raise MemoryError(f"{ratio} places along a bin of region {r}")
            at = low + span / wide(many) * ((np.arange(many * ratio, dtype=wide) + wide(0.5)) / wide(ratio))
            inside, at = (at >= -1) & (at <= size), np.clip(at, 0, size - 1)
            first = np.floor(at).astype(np.int64)
            pairs = (first, 1 - (at - first)), (np.minimum(first + 1, size - 1), at - first)
            axes.append([(places, weights * inside) for places, weights in pairs])
        image = X[int(batch_indices[r])].astype(wide)
        read = [image[:, a[:, None], b] * (u[:, None] * v) for (a, u), (b, v) in product(*axes)]
        if read[0].size:
            found = np.maximum.reduce(read) if mode == "max" else reduce(np.add, read)
            parts = found.reshape(X.shape[1], output_height, -1, output_width, found.shape[2] // output_width)
            y[r] = parts.max((2, 4)) if mode == "max" else parts.mean((2, 4))
    return y.astype(X.dtype)


define(
    "RoiAlign", _regions, function=written(_align), reference=_aligned, informed=True, exactness=EXACTNESS,
    formula="Y[r, c, h, w] = the mean (or with mode max the greatest weighted pixel) of X[batch_indices[r], "
    "c] at "
    "sampling_ratio² places of bin (h, w) of region r, read between pixels; 0 more than a pixel outside",
    shapes="[regions, C, output_height, output_width]",
    ranges={"mode": one_of("avg", "max"), "output_height": POSITIVE, "output_width": POSITIVE,
            "sampling_ratio": NATURAL,
            "coordinate_transformation_mode": one_of("half_pixel", "output_half_pixel")},
    kernels=(("index.gather and elementwise.chain", "sampling_ratio above 0"),
             ("none: a reference in NumPy", "sampling_ratio 0: ⌈a bin's size⌉ places, as data decides")),
)  # fmt: skip


def _max_regions(X: Numbers, rois: Numbers, *, pooled_shape: Sequence[int], spatial_scale: float) -> Numbers:
    y = np.zeros((len(rois), X.shape[1], *pooled_shape), X.dtype)
    for r, roi in enumerate(rois.astype(np.float64)):
        image = X[int(roi[0])]
        left, top, right, bottom = (int(np.floor(each * spatial_scale + 0.5)) for each in roi[1:])
        edges = []
        for first, last, many, size in zip(
            (top, left), (bottom, right), pooled_shape, X.shape[2:], strict=True
        ):
            span = max(last - first + 1, 1) / many
            starts = np.clip(np.floor(np.arange(many) * span) + first, 0, size).astype(int)
            ends = np.clip(np.ceil(np.arange(1, many + 1) * span) + first, 0, size).astype(int)
            edges.append(list(zip(starts, ends, strict=True)))
        for h, w in np.ndindex(*pooled_shape):
            part = image[:, slice(*edges[0][h]), slice(*edges[1][w])]
            y[r, :, h, w] = part.max((1, 2)) if part.size else 0
    return y


define(
    "MaxRoiPool", _regions, reference=_max_regions, ranges={"pooled_shape": POSITIVE},
    formula="Y[r, c, h, w] = the greatest of X[rois[r, 0], c] in bin (h, w) of the region rois[r, 1:] · "
    "spatial_scale, "
    "rounded to pixels; 0 for an empty bin", shapes="[regions, C, pooled_shape]",
)  # fmt: skip


def _boxes(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 3) & site.want_rank(1, 3)):
        return [None]
    boxes, scores = site.shape(0), site.shape(1)
    site.agree(Dim.of(4), boxes[2], "numbers of a box", 0)
    site.agree(boxes[0], scores[0], "sizes of the batch", 1)
    site.agree(boxes[1], scores[2], "boxes and scores", 1)
    for index in (2, 3, 4):
        site.want_rank(index, 0, 1)
    iou = site.peek(3)
    good = iou is None or bool(np.all(np.abs(iou.astype(np.float64) - 0.5) <= 0.5))
    site.require(good, "threshold out of range", want="0 to 1", got=iou, input=3)
    return [ValueType(I64, (site.unknown("selected"), Dim.of(3)))]


def _selected(
    boxes: Numbers, scores: Numbers, max_output_boxes_per_class: Array | None, iou_threshold: Array | None,
    score_threshold: Array | None, *, center_point_box: int,
) -> Array:  # fmt: skip
    most, iou, least = (
        None if each is None else each.reshape(-1)[0]
        for each in (max_output_boxes_per_class, iou_threshold, score_threshold)
    )
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    low, high = np.minimum(first, second), np.maximum(first, second)
    area, found = np.prod(high - low, -1), []
    for image, kind in np.ndindex(*scores.shape[:2]):
        row, a, b, size = scores[image, kind], low[image], high[image], area[image]
        order = np.argsort(-row, kind="stable")
        order = order if least is None else order[row[order] > least]
        for _ in range(0 if most is None else int(most)):
            if not order.size:
                break
            best, order = order[0], order[1:]
            found.append((image, kind, best))
            shared = np.prod(np.maximum(np.minimum(b[best], b[order]) - np.maximum(a[best], a[order]), 0), -1)
            union = size[best] + size[order] - shared
            order = order[~((shared > 0) & (shared / union > (0 if iou is None else iou)))]
    return np.array(found, np.int64).reshape(-1, 3)


define(
    "NonMaxSuppression", _boxes, reference=_selected, ranges={"center_point_box": FLAG},
    formula="selected_indices = (image, class, box) of boxes in the order of their scores above "
    "score_threshold, but "
    "those that share more than iou_threshold of their union with one before", shapes="[selected, 3]",
    numerics=("Of equal scores the lower box is first. Areas are in the boxes' type.",),
    not_differentiable={"boxes": "a choice has no slope", "scores": "a choice has no slope"},
)  # fmt: skip
