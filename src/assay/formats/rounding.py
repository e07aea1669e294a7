"""Numbers rounded to blocks of quantised weights (blocks.py).

Types of 32 are rounded as ggml's reference quantisation does. For the others, of several scales of each group
the one is taken with which the group errs least in square; sums are in order, lane by lane, so that bits are
the same on every processor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.formats.blocks import Blocks, Bytes, Floats, Integers
from assay.kernels.panels import FORMATS
from assay.tensor.dtype import QUANTISED, DType

TRIES = np.arange(-9, 10, dtype=np.float32)


def _symmetric(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """The element of largest magnitude becomes the least integer, so d has the opposite sign to it."""
    least, most = -FORMATS[dtype.name].offset, (1 << FORMATS[dtype.name].bits) - 1
    d = _peak(x, 1)[:, None] / np.float32(least)
    blocks["d"] = d[:, 0]
    _put(_whole(x * _inverse(d) + np.float32(0.5 - least), most), dtype, blocks)


def _ranged(x: Floats, dtype: DType, blocks: Blocks) -> None:
    most = (1 << FORMATS[dtype.name].bits) - 1
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(most)
    blocks["d"] = d[:, 0]
    blocks["m"] = m[:, 0]
    _put(_whole((x - m) * _inverse(d) + np.float32(0.5), most), dtype, blocks)


def _q8_0(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """Halves are rounded away from zero."""
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    whole = np.floor(np.abs(scaled))
    whole += np.abs(scaled) - whole >= 0.5
    blocks["d"] = d[:, 0]
    blocks["q"] = np.copysign(whole, scaled).astype(np.int8)


def _scaled(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """Integers, or codes, around zero."""
    form = FORMATS[dtype.name]
    groups = _groups(x, form.group)
    levels = np.array(form.codes or [n - form.offset for n in range(1 << form.bits)], np.float32)
    nearest = _nearest(levels)
    step = np.float32(1 if form.codes else 0.1)
    peak = _peak(groups, 0)
    scale, most = peak / levels[0], np.zeros_like(peak)
    for near in levels[0] + step * TRIES:
        q = nearest(groups * _inverse(peak / near))
        product = (q * groups).sum(axis=0)
        tried = product * _inverse((q * q).sum(axis=0))
        better = product * tried > most
        scale[better], most[better] = tried[better], (product * tried)[better]
    scale = scale.reshape(len(x), -1)
    shared = _share(scale, _ENDS.get(dtype.name, 1), "d", blocks)
    if form.super_block:
        _PUT_SCALES[dtype.name](blocks, shared.astype(np.int8))
    steps = groups * _inverse((blocks["d"].astype(np.float32)[:, None] * shared).reshape(-1))
    places: Bytes = np.asarray(np.searchsorted(levels, nearest(steps)), np.uint8)
    _put(places.T.reshape(x.shape), dtype, blocks)


def _nearest(levels: Floats) -> Callable[[Floats], Floats]:
    """The function to the level nearest to each number: between two halves all numbers have the same one."""
    halves = np.arange(-256, 256, dtype=np.float32) / 2
    table = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, halves + np.float32(0.25))]
    return lambda y: table[np.floor(y * 2).clip(-256, 255).astype(np.int16) + 256]


def _with_minimums(x: Floats, dtype: DType, blocks: Blocks) -> None:
    """Integers from 0 on, less a minimum that isn't negative."""
    form = FORMATS[dtype.name]
    groups, count = _groups(x, form.group), np.float32(form.group)
    most = np.float32((1 << form.bits) - 1)
    least = np.minimum(groups.min(axis=0), 0)
    span, total = groups.max(axis=0) - least, groups.sum(axis=0)
    scale, minimum, error = span / most, -least, np.full_like(span, np.inf)
    for near in most + np.float32(0.1) * TRIES:
        q = np.rint((groups - least) * _inverse(span / near)).clip(0, most)
        sums, squares, product = q.sum(axis=0), (q * q).sum(axis=0), (q * groups).sum(axis=0)
        of_both = _inverse(count * squares - sums * sums)
        # What errs least with these integers; with no minimum where that one would be negative.
        m = (sums * product - squares * total) * of_both
        tried = np.where(m > 0, (count * product - sums * total) * of_both, product * _inverse(squares))
        m = np.maximum(m, 0)
        wrong = ((q * tried - m - groups) ** 2).sum(axis=0)
        better = wrong < error
        scale[better], minimum[better], error[better] = tried[better], m[better], wrong[better]
    s = _share(scale.reshape(len(x), -1), _ENDS[dtype.name], "d", blocks)
    t = _share(minimum.reshape(len(x), -1), _ENDS[dtype.name], "dmin", blocks)
    _PUT_SCALES[dtype.name](blocks, s.astype(np.uint8), t.astype(np.uint8))
    d, dmin = (blocks[field].astype(np.float32)[:, None] for field in ("d", "dmin"))
    q = np.rint((groups + (dmin * t).reshape(-1)) * _inverse((d * s).reshape(-1))).clip(0, most)
    _put(q.astype(np.uint8).T.reshape(x.shape), dtype, blocks)


def _groups(x: Floats, size: int) -> Floats:
    """The numbers as [size, groups]."""
    return np.ascontiguousarray(x.reshape(-1, size).T)


def _peak(x: Floats, axis: int) -> Floats:
    """The number of largest magnitude."""
    place = np.expand_dims(np.abs(x).argmax(axis=axis), axis)
    peak: Floats = np.take_along_axis(x, place, axis=axis).squeeze(axis)
    return peak


def _share(numbers: Floats, end: int, field: str, blocks: Blocks) -> Floats:
    """Integers that stand for scales or minimums [n, groups], the largest for `end`; what they are to be
    multiplied with goes into the field.
    """
    blocks[field] = _peak(numbers, 1) / np.float32(end)
    low, high = (end, -1 - end) if end < 0 else (0, end)
    shared: Floats = np.rint(numbers * _inverse(blocks[field].astype(np.float32))[:, None]).clip(low, high)
    return shared


def _inverse(d: Floats) -> Floats:
    return np.where(d == 0, np.float32(0), np.float32(1) / d)


def _whole(steps: Floats, most: int) -> Bytes:
    """Their whole parts, from 0 to the most."""
    q: Bytes = np.trunc(steps).astype(np.uint8).clip(0, most)
    return q


def _put(q: Bytes, dtype: DType, blocks: Blocks) -> None:
    """Lay integers q[n, block] where the type has them."""
    for part in dtype.integers:
        mask = np.uint8((1 << part.bits) - 1)
        packed = _join(q >> np.uint8(part.below) & mask, part.run, part.bits)
        field = blocks[part.field]
        field[...] = packed.view(dtype.layout[part.field].base).reshape(field.shape)


def _join(q: Integers, run: int, bits: int) -> Bytes:
    """What `split` takes apart."""
    places = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    rows = q.astype(np.uint8).reshape(len(q), -1, 8 // bits, run)
    packed: Bytes = np.bitwise_or.reduce(rows << places, axis=2).reshape(len(q), -1)
    return packed


def _put_bytes(blocks: Blocks, s: Integers, t: Integers | None = None) -> None:
    blocks["scales"] = s if t is None else s | t << np.uint8(4)


def _put_three_bits(blocks: Blocks, s: Integers) -> None:
    s = (s + 32).astype(np.uint8)
    blocks["scales"] = np.concatenate([_join(s & 15, 8, 4), _join(s >> 4, 4, 2)], axis=1)


def _put_nibbles(blocks: Blocks, s: Integers) -> None:
    s = (s + 32).astype(np.uint8)
    blocks["scales"], blocks["high"] = _join(s & 15, 1, 4), _join(s >> 4, 1, 2).view("<u2")[:, 0]


def _put_six_bits(blocks: Blocks, s: Integers, t: Integers) -> None:
    first = [each[:, :4] | each[:, 4:] >> 4 << 6 for each in (s, t)]
    blocks["scales"] = np.concatenate([*first, s[:, 4:] & 15 | (t[:, 4:] & 15) << 4], axis=1)


_ENDS = {"q2_k": 15, "q3_k": -32, "q4_k": 63, "q5_k": 63, "q6_k": -128, "iq4_xs": -32}
"""What the largest scale of a block becomes, where they are integers."""
_PUT_SCALES: dict[str, Callable[..., None]] = {
    "q2_k": _put_bytes,
    "q3_k": _put_three_bits,
    "q4_k": _put_six_bits,
    "q5_k": _put_six_bits,
    "q6_k": _put_bytes,
    "iq4_xs": _put_nibbles,
}
_KINDS = {
    "q4_0": _symmetric,
    "q4_1": _ranged,
    "q5_0": _symmetric,
    "q5_1": _ranged,
    "q8_0": _q8_0,
    "q2_k": _with_minimums,
    "q4_k": _with_minimums,
    "q5_k": _with_minimums,
}
QUANTISERS: dict[DType, Callable[[Floats, DType, Blocks], None]] = {
    dtype: _KINDS.get(dtype.name, _scaled) for dtype in QUANTISED
}
"""Each fills its last argument, blocks[n], from its first, finite numbers [n, block]. A scale beyond float16
becomes infinity.
"""
