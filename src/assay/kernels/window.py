"""What moves a window over each channel by itself: depthwise convolutions, and pools. Taps, grids and words
are as in conv.py, and so is every chain of sums: taps in order from zero, then the bias.

A strip of x with its padding is laid out in scratch so that every tap reads side by side what neighbouring
outputs want: rows and columns that are a stride apart lie together. Then a tap is one offset into the strip
for all outputs of a few rows, whatever the ends of the rows; what was computed between them is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from assay.kernels.conv import TABLE, inside, line, mender, special
from assay.kernels.share import take
from assay.simd.device import device
from assay.simd.memory import (
    copy_bytes,
    get_f32,
    get_f64,
    get_i64,
    load,
    load_f64,
    put_f32,
    put_f64,
    put_i64,
    store,
    store_f64,
    words,
)
from assay.simd.vector import fma, select, splat, splat_f64


class Kind(NamedTuple):
    """Numbers of `size` bytes: as vectors, and one by one."""

    size: int
    load: Callable
    store: Callable
    get: Callable
    put: Callable
    splat: Callable
    lowest: int
    """The bits of −∞."""


SINGLE = Kind(4, load, store, get_f32, put_f32, splat, 0xFF800000)
DOUBLE = Kind(8, load_f64, store_f64, get_f64, put_f64, splat_f64, -(1 << 52))


@device
def counted(args, taps, axis, place, low, high):
    """How many taps along an axis are at low ≤ place + offset < high."""
    found, first = 0, args + TABLE
    for tap in range(taps):
        at, apart = first + 24 * tap, 0
        for other in range(0, 24, 8):
            apart += abs(get_i64(at + other) - get_i64(first + other)) if other != 8 * axis else 0
        found += apart == 0 and low <= place + get_i64(at + 8 * axis) < high
    return found


def _windows(kind: Kind, start: float, step, weighted: bool = False):
    """`step(total, value, weight)` takes in what a tap reads; in the padding that is `start`."""
    size, load, store, get, put, splat, lowest = kind
    fill = lowest if start else 0
    move, vector = line(size), 16 * size
    mend, some = mender(size), special(size)

    @device
    def compute(strip, table, taps, weights, total, results):
        """`total` numbers, side by side."""
        for i in range(0, total, 64):
            a = b = c = d = splat(start)
            for tap in range(taps):
                at = strip + get_i64(table + 8 * tap) + size * i
                weight = splat(get(weights + size * tap) if weighted else 1.0)
                a, b = step(a, load(at), weight), step(b, load(at + vector), weight)
                c, d = step(c, load(at + 2 * vector), weight), step(d, load(at + 3 * vector), weight)
            to = results + size * i
            store(to, a)
            store(to + vector, b)
            store(to + 2 * vector, c)
            store(to + 3 * vector, d)

    def kernel(args, tid, nthreads):
        """conv.float32's words with 1 channel to a group, after the taps: output rows and columns of a
        strip; then for each axis from where to where a place counts. The sum over the taps that count is
        divided by their number; without a bound it isn't.
        """
        (
            x, w, bias, y, scratch, own, batch, groups, _, filters, d, h, iw, gd, gh, gw, sz, sy, sx,
            _, _, plane, _, _, _, taps,
        ) = words(args, 26)  # fmt: skip
        first, limits = args + TABLE, args + TABLE + 24 * taps
        z0, y0, x0 = get_i64(first), get_i64(first + 8), get_i64(first + 16)
        zs, ys, xs = get_i64(limits - 24) - z0 + 1, get_i64(limits - 16) - y0, get_i64(limits - 8) - x0
        height, width = get_i64(limits), get_i64(limits + 8)
        pitch, lines = width + xs // sx, height + ys // sy
        slices = sy * sx * lines * pitch
        bounded = get_i64(limits + 16) < get_i64(limits + 24)
        table, results = scratch + own * tid, scratch + own * tid + 8 * taps
        counts = results + size * (height * pitch + 64)
        spare = counts + size * (width + 16)
        strip = spare + vector
        for tap in range(taps):
            at = first + 24 * tap
            oz, oy, ox = get_i64(at) - z0, get_i64(at + 8) - y0, get_i64(at + 16) - x0
            row = (oy % sy * sx + ox % sx) * lines + oy // sy
            put_i64(table + 8 * tap, size * (slices * oz + pitch * row + ox // sx))
        across, down = (gw + width - 1) // width, (gh + height - 1) // height
        item = take(args)
        while item < batch * groups * gd * down * across:
            left, top = width * (item % across), height * (item // across % down)
            z, unit = item // (across * down) % gd, item // (across * down * gd)
            columns, rows = min(width, gw - left), min(height, gh - top)
            to = strip
            for slice in range(zs):
                for phase in range(sy * sx):
                    ix = sx * left + x0 + phase % sx
                    low, high = inside(ix, sx, pitch, iw)
                    iz = sz * z + z0 + slice
                    for row in range(lines):
                        iy = sy * (top + row) + y0 + phase // sx
                        source = x + size * (((d * unit + iz) * h + iy) * iw + ix)
                        found = 0 <= iz < d and 0 <= iy < h
                        move(source, low if found else 0, high if found else 0, pitch, sx, to, fill)
                        to += size * pitch
            if bounded:
                for i in range(columns):
                    place = sx * (left + i)
                    count = counted(args, taps, 2, place, get_i64(limits + 48), get_i64(limits + 56))
                    put(counts + size * i, float(count))
                deep = counted(args, taps, 0, sz * z, get_i64(limits + 16), get_i64(limits + 24))
            for number in range(filters * (unit % groups), filters * (unit % groups + 1)):
                compute(strip, table, taps, w + size * taps * number, rows * pitch, results)
                output = y + size * plane * (filters * groups * (unit // groups) + number)
                padded = some(w + size * taps * number, taps) if weighted else 0
                for row in range(rows):
                    target = output + size * (gw * (gh * z + top + row) + left)
                    more = splat(get(bias + size * number) if bias else 0.0)
                    if bounded:
                        place = sy * (top + row)
                        high = deep * counted(
                            args, taps, 1, place, get_i64(limits + 32), get_i64(limits + 40)
                        )
                    for i in range(0, columns, 16):
                        value = load(results + size * (pitch * row + i))
                        if bias:
                            value = value + more
                        if bounded:
                            value = value / (splat(float(high)) * load(counts + size * i))
                        if i + 16 <= columns:
                            store(target + size * i, value)
                        else:
                            store(spare, value)
                            copy_bytes(target + size * i, spare, size * (columns - i))
                    if padded:
                        place = gw * (gh * z + top + row) + left
                        mend(
                            args, x + size * d * h * iw * unit, 1, taps, (d, h, iw), (gh, gw), (sz, sy, sx),
                            w + size * taps * number, bias + size * number if bias else 0, output,
                            (gh * gw, gw, 1), place, place + columns,
                        )  # fmt: skip
            item = take(args)

    return kernel


@device
def _multiply(total, value, weight):
    return fma(weight, value, total)


@device
def _add(total, value, weight):
    return total + value


@device
def _greater(total, value, weight):
    """A NaN stays."""
    return select((total < value) | (value != value), value, total)


depthwise = _windows(SINGLE, 0.0, _multiply, weighted=True)
total, total_f64 = (_windows(kind, 0.0, _add) for kind in (SINGLE, DOUBLE))
greatest, greatest_f64 = (_windows(kind, -np.inf, _greater) for kind in (SINGLE, DOUBLE))


def _places(kind: Kind):
    size, get = kind.size, kind.get

    def kernel(args, tid, nthreads):
        """(x, what `greatest` made of it, places, whether columns come first, then `greatest`'s words after
        the scratch): the int64 place in x of the first tap that has the greatest number, row by row or
        column by column.
        """
        (
            x, y, to, turned, batch, groups, _, _, d, h, w, gd, gh, gw, sz, sy, sx, _, _, _, _, _, _, taps,
        ) = words(args, 24)  # fmt: skip
        unit = take(args)
        while unit < batch * groups:
            for pixel in range(gd * gh * gw):
                own = gd * gh * gw * unit + pixel
                value = get(y + size * own)
                for tap in range(taps):
                    at = args + 8 * (1 + 24) + 24 * tap
                    iz = sz * (pixel // (gh * gw)) + get_i64(at)
                    iy = sy * (pixel // gw % gh) + get_i64(at + 8)
                    ix = sx * (pixel % gw) + get_i64(at + 16)
                    if 0 <= iz < d and 0 <= iy < h and 0 <= ix < w:
                        found = get(x + size * (((d * unit + iz) * h + iy) * w + ix))
                        if found == value or (found != found and value != value):
                            inner = (ix * h + iy) * d + iz if turned else (iz * h + iy) * w + ix
                            put_i64(to + 8 * own, d * h * w * unit + inner)
                            break
            unit = take(args)

    return kernel


places, places_f64 = map(_places, (SINGLE, DOUBLE))
