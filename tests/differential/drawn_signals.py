"""Windows and transforms, sampled images, boxes, quantised products, attention."""

from __future__ import annotations

import numpy as np

from differential.draw import Array, Bound, Call, Draw, Known
from differential.families import family, vector

SINE = Bound(64, 1, True)
"""Sums of a few sines of angles up to some turns, which float32 has to 1e-7 of a turn."""


@family("BlackmanWindow HammingWindow HannWindow")
def window(d: Draw) -> Call:
    return Call([Known(np.array(d.integer(2, 40)))], {"periodic": d.pick(0, 1)}, bound=SINE)


@family("MelWeightMatrix")
def mel(d: Draw) -> Call:
    rate, low = d.pick(8000, 16000), float(d.pick(0, 300))
    numbers = [np.array(d.integer(2, 9)), np.array(d.pick(16, 64, 256)), np.array(rate)]
    ends = [np.array(low, np.float32), np.array(rate / 2, np.float32)]
    return Call([Known(each) for each in (*numbers, *ends)], bound=Bound(64, 1))


@family("DFT")
def dft(d: Draw) -> Call:
    shape = (d.integer(1, 2), d.integer(2, 9), d.pick(1, 2))
    x, attributes = d.data(shape, d.type("T1", "f"), low=-1, high=1), {"onesided": 0, "inverse": 0}
    if shape[-1] == 1:
        attributes["onesided"] = d.pick(0, 1)
    else:
        attributes["inverse"] = d.pick(0, 1)
    length = Known(np.array(d.integer(2, 9))) if d.chance(0.4) else None
    if d.version < 20:
        return Call([x, length], {**attributes, "axis": 1}, bound=Bound(256, 4, True))
    return Call([x, length, Known(np.array(1))], attributes, bound=Bound(256, 4, True))


@family("STFT")
def stft(d: Draw) -> Call:
    size = d.pick(4, 6, 8)
    x = d.data((d.integer(1, 2), d.integer(12, 30), 1), d.type("T1", "f"), low=-1, high=1)
    shape = d.data((size,), x.dtype, low=0, high=1) if d.chance(0.6) else None
    inputs = [x, Known(np.array(d.integer(1, 4))), shape, Known(np.array(size)) if shape is None else None]
    return Call(inputs, {"onesided": d.pick(0, 1)}, bound=Bound(256, 4, True))


@family("AffineGrid")
def affine(d: Draw) -> Call:
    rank = d.pick(2, 3)
    theta = d.data((d.integer(1, 2), rank, rank + 1), d.type("T1", "f"), low=-2, high=2)
    sizes = vector([len(theta), 1, *(d.integer(2, 5) for _ in range(rank))])
    return Call([theta, sizes], {"align_corners": d.pick(0, 1)}, bound=Bound(64, 8, True))


@family("GridSample")
def sampled(d: Draw) -> Call:
    batch, dtype = d.integer(1, 2), np.dtype(np.float32)
    x = d.data((batch, d.integer(1, 3), d.integer(2, 5), d.integer(2, 5)), dtype, low=-1, high=1)
    # Not on a border between two pixels, where the last bit decides which one is nearer.
    grid = d.data((batch, d.integer(1, 4), d.integer(1, 4), 2), dtype, low=-1.3, high=1.3)
    modes = ("bilinear", "nearest", "bicubic") if d.version < 20 else ("linear", "nearest", "cubic")
    attributes = {"mode": d.pick(*modes), "padding_mode": d.pick("zeros", "border", "reflection")}
    return Call([x, grid], {**attributes, "align_corners": d.pick(0, 1)}, bound=Bound(1024, 4, True))


def boxes(d: Draw, count: int, size: int) -> Array:
    """[count, 4]: corners inside an image of that size, the second behind the first."""
    first = d.data((count, 2), np.float32, low=0, high=size / 2)
    span = d.data((count, 2), np.float32, low=1, high=size / 2)
    return np.concatenate([first, first + span], 1)


@family("RoiAlign")
def aligned(d: Draw) -> Call:
    x = d.data((d.integer(1, 2), d.integer(1, 3), 8, 8), np.float32, low=-1, high=1)
    count = d.integer(1, 3)
    places = d.random.integers(0, len(x), count)
    attributes: dict[str, object] = {"output_height": d.integer(1, 3), "output_width": d.integer(1, 3)}
    attributes |= {
        "sampling_ratio": d.integer(0, 3),
        "mode": d.pick("avg", "max"),
        "spatial_scale": float(d.pick(1.0, 0.5)),
    }
    if d.version >= 16:
        attributes["coordinate_transformation_mode"] = d.pick("half_pixel", "output_half_pixel")
    return Call([x, boxes(d, count, 8), places], attributes, bound=Bound(1024, 4, True))


@family("MaxRoiPool")
def pooled(d: Draw) -> Call:
    x = d.data((d.integer(1, 2), d.integer(1, 3), 8, 8), np.float32, low=-1, high=1)
    count = d.integer(1, 3)
    corners = np.rint(boxes(d, count, 8))
    rois = np.concatenate([d.random.integers(0, len(x), (count, 1)), corners], 1).astype(np.float32)
    return Call([x, rois], {"pooled_shape": [d.integer(1, 3), d.integer(1, 3)]})


@family("NonMaxSuppression")
def suppressed(d: Draw) -> Call:
    batch, many, classes = d.integer(1, 2), d.integer(1, 7), d.integer(1, 2)
    corners = np.stack([boxes(d, many, 8) for _ in range(batch)])
    scores = d.data((batch, classes, many), np.float32, low=0, high=1)
    limits = [vector([d.integer(0, 4)]), Known(np.float32([d.pick(0.0, 0.3, 0.7)]))]
    limits += [Known(np.float32([d.pick(0.0, 0.4)]))] * d.pick(0, 1)
    return Call([corners, scores, *limits], {"center_point_box": 0})


@family("Col2Im")
def columns(d: Draw) -> Call:
    image, block = [d.integer(3, 6), d.integer(3, 6)], [d.integer(1, 3), d.integer(1, 3)]
    count = int(np.prod([size - each + 1 for size, each in zip(image, block, strict=True)]))
    shape = (d.integer(1, 2), d.integer(1, 2) * int(np.prod(block)), count)
    x = d.data(shape, np.float32, low=-1, high=1)
    return Call([x, vector(image), vector(block)], bound=Bound(64, 8, True))


@family("DynamicQuantizeLinear")
def dynamic(d: Draw) -> Call:
    return Call([d.data(d.shape(1, 3, 1), np.float32, low=-5, high=5)], outputs=3)


def grain(d: Draw) -> tuple[Known, Known]:
    """A scale and a zero point."""
    return Known(d.data((), np.float32, low=0.05, high=0.2)), Known(d.data((), np.uint8, low=90, high=160))


@family("QLinearMatMul")
def product(d: Draw) -> Call:
    rows, inner, columns = d.integer(1, 4), d.integer(1, 9), d.integer(1, 4)
    kind = np.dtype(np.uint8)
    a, b = d.data((rows, inner), kind, low=0, high=255), d.data((inner, columns), kind, low=0, high=255)
    return Call([a, *grain(d), b, *grain(d), *grain(d)])


@family("QLinearConv")
def layer(d: Draw) -> Call:
    kind, groups = np.dtype(np.uint8), d.pick(1, 1, 2)
    inside, outside = groups * d.integer(1, 3), groups * d.integer(1, 3)
    x = d.data((1, inside, d.integer(3, 6), d.integer(3, 6)), kind, low=0, high=255)
    w = d.data((outside, inside // groups, d.integer(1, 3), d.integer(1, 3)), kind, low=0, high=255)
    bias = [Known(d.data((outside,), np.int32, low=-500, high=500))] * d.pick(0, 1)
    attributes = {"group": groups, "pads": [d.pick(0, 1) for _ in range(4)], "strides": [d.integer(1, 2)] * 2}
    return Call([x, *grain(d), Known(w), *grain(d), *grain(d), *bias], attributes)


@family("DeformConv")
def deformed(d: Draw) -> Call:
    inside, outside, size = d.integer(1, 3), d.integer(1, 3), d.integer(3, 6)
    x = d.data((1, inside, size, size), np.float32, low=-1, high=1)
    w = Known(d.data((outside, inside, 2, 2), np.float32, low=-1, high=1))
    offsets = d.data((1, 8, size - 1, size - 1), np.float32, low=-1.5, high=1.5)
    bias = Known(d.data((outside,), np.float32, low=-1, high=1)) if d.chance(0.5) else None
    mask = d.data((1, 4, size - 1, size - 1), np.float32, low=0, high=1) if d.chance(0.5) else None
    return Call([x, w, offsets, bias, mask], {"kernel_shape": [2, 2]}, bound=Bound(1024, 16, True))


@family("RotaryEmbedding")
def rotated(d: Draw) -> Call:
    batch, heads, steps, half = d.integer(1, 2), d.integer(1, 3), d.integer(1, 4), d.integer(1, 4)
    x = d.data((batch, heads, steps, 2 * half), np.float32, low=-1, high=1)
    angles = d.data((9, half), np.float64, low=-3, high=3)
    places = d.random.integers(0, 9, (batch, steps))
    tables = [Known(each(angles).astype(np.float32)) for each in (np.cos, np.sin)]
    return Call([x, *tables, places], {"interleaved": d.pick(0, 1)}, bound=Bound(8, 2, True))


@family("Attention")
def attention(d: Draw) -> Call:
    batch, groups, share, size = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2), d.integer(1, 5)
    queries, keys = d.integer(1, 5), d.integer(1, 6)
    q = d.data((batch, groups * share, queries, size), np.float32, low=-1, high=1)
    k, v = (d.data((batch, groups, keys, size), np.float32, low=-1, high=1) for _ in "kv")
    mask = d.pick(None, d.data((queries, keys), np.float32, low=-1, high=1))
    attributes: dict[str, object] = {"is_causal": 1} if d.chance(0.4) and queries <= keys else {}
    attributes |= {"scale": 0.5} if d.chance(0.4) else {}
    attributes |= {"softcap": 2.0} if d.chance(0.3) else {}
    return Call([q, k, v, mask], attributes, bound=Bound(1024, 2, True))


@family("BitCast")
def bits(d: Draw) -> Call:
    pairs = ((np.float32, 6), (np.int32, 1), (np.int64, 11), (np.float64, 7), (np.uint8, 3))
    kind, to = pairs[d.integer(0, len(pairs) - 1)]
    return Call([d.data(d.shape(), kind)], {"to": to})
