"""Convolutions of 1 to 3 dimensions as matrix products: y[filter, pixel] = w[filter, K] · columns[K,
pixel].

K goes over blocks of 16 channels, then taps, then the channels of the block, and every output element is
one chain of fma in that order from zero, to which the bias is added at the end (numerics.md, rule 10). A
tap in the padding is a tap of zero, and where that isn't nothing, of filters that aren't finite, the chains
are made once more without such taps. Integers wrap.

A tap is an offset: output pixel (z, y, x) of a grid reads x at (z, y, x) · steps + offset. So a transposed
convolution is a few of these, one for each remainder of the output's place by the strides: conv_sizes.py.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from assay.kernels import ftile
from assay.kernels.conv_sizes import CHANNELS, RUN
from assay.kernels.matmul import movers
from assay.kernels.panels import DEPTH, PANEL
from assay.kernels.share import take
from assay.simd.device import device
from assay.simd.emit import F32, F64, I32
from assay.simd.memory import get_f32, get_f64, get_i64, load, put_f32, put_f64, store, words
from assay.simd.vector import fma, skipping

TABLE = 8 * (1 + 26)
"""Where the taps' offsets begin among the words."""


def line(size: int):
    """The function `(source, low, high, count, step, to, fill)`: `count` numbers of a row, `step` apart
    there, side by side, and the bits `fill` where they aren't low ≤ i < high.
    """
    get, put = movers(size)

    @device
    def move(source, low, high, count, step, to, fill):
        for i in range(low):
            put(to + size * i, fill)
        for i in range(high, count):
            put(to + size * i, fill)
        if size > 4 or step > 2 or high - low < 16:
            for i in range(low, high):
                put(to + size * i, get(source + size * step * i))
            return
        for i in range(low, high, 16):
            # The last vector may begin before the one before it ends.
            place = min(i, high - 16)
            at = source + 4 * step * place
            store(to + 4 * place, load(at) if step == 1 else skipping(load(at), load(at + 60)))

    return move


@device
def inside(start, step, count, length):
    """From which to which i < count `start` + `step` · i is one of the places of a row of that length."""
    low, high = 0, count
    if start < 0:
        low = min(count, -(start // step))
    if start + step * (count - 1) >= length:
        high = max(low, (length - start + step - 1) // step)
    return low, high


def _packed(size: int):
    """The function that puts x's numbers for one panel of pixels and some steps of K into to[steps, 32]."""
    row, move = size * PANEL, line(size)

    @device
    def pack(args, x, channels, taps, extent, grid, steps, pixel, left, begin, end, panel):
        (d, h, w), (gh, gw), (sz, sy, sx) = extent, grid, steps
        k = begin
        while k < end:
            block = k // (CHANNELS * taps)
            width = min(CHANNELS, channels - CHANNELS * block)
            tap, channel = divmod(k - CHANNELS * taps * block, width)
            run = min(width - channel, end - k)
            offset = args + TABLE + 24 * tap
            oz, oy, ox = get_i64(offset), get_i64(offset + 8), get_i64(offset + 16)
            plane = x + size * d * h * w * (CHANNELS * block + channel)
            z, y, column = pixel // (gh * gw), pixel // gw % gh, pixel % gw
            done = 0
            while done < left:
                count = min(gw - column, left - done)
                iz, iy, ix = sz * z + oz, sy * y + oy, sx * column + ox
                low, high = 0, 0
                if 0 <= iz < d and 0 <= iy < h:
                    low, high = inside(ix, sx, count, w)
                source = plane + size * ((iz * h + iy) * w + ix)
                target = panel + row * (k - begin) + size * done
                for i in range(run):
                    at, to = source + size * d * h * w * i, target + row * i
                    move(at, low, high, count, sx, to, 0)
                done += count
                column, y = 0, y + 1
                if y == gh:
                    y, z = 0, z + 1
            k += run

    return pack


def special(size: int):
    """The function that says whether there is a NaN or an infinity among `count` numbers."""
    get, _ = movers(size)
    top = 0x7F800000 if size == 4 else 0x7FF << 52

    @device
    def some(numbers, count):
        found = np.int64(0)
        for i in range(count):
            found |= (get(numbers + size * i) & top) == top
        return found

    return some


def mender(size: int):
    """The function that makes pixels `begin` to `end` of one filter's y without the taps in the padding."""
    get, put, zero = (get_f64, put_f64, 0.0) if size == 8 else (get_f32, put_f32, np.float32(0))

    @device
    def mend(args, x, channels, taps, extent, grid, steps, w, bias, y, apart, begin, end):
        (d, h, width), (gh, gw), (sz, sy, sx), (yz, yy, yx) = extent, grid, steps, apart
        for pixel in range(begin, end):
            z, line, column = pixel // (gh * gw), pixel // gw % gh, pixel % gw
            total, at = zero, w
            for block in range(0, channels, CHANNELS):
                many = min(CHANNELS, channels - block)
                for offset in range(args + TABLE, args + TABLE + 24 * taps, 24):
                    iz, iy = sz * z + get_i64(offset), sy * line + get_i64(offset + 8)
                    ix = sx * column + get_i64(offset + 16)
                    for i in range(many if 0 <= iz < d and 0 <= iy < h and 0 <= ix < width else 0):
                        value = get(x + size * ((((block + i) * d + iz) * h + iy) * width + ix))
                        total = fma(get(at + size * i), value, total)
                    at += size * many
            place = y + size * (yz * z + yy * line + yx * column)
            put(place, total + get(bias) if bias else total)

    return mend


def _convolution(kind: ir.Type):
    size, tall, columns = ftile.size_of(kind), ftile.tall(), 2 * ftile.register(kind)
    narrow = columns // 2
    one, many, thin = (
        ftile.chained(rows, width, kind) for rows, width in ((1, PANEL), (tall, columns), (tall, narrow))
    )
    get, put = movers(size)
    pack, row = _packed(size), size * PANEL
    mend, floats = mender(size), kind is not I32

    @device
    def multiply(w, apart, panel, steps, left, rows, y, stride, first, bias):
        """Some steps of K for a panel, of which y holds all columns; w's rows are so far apart."""
        if rows == 1:
            one(w, 0, panel, row, steps, y, 0, 1, first, bias)
            return
        for column in range(0, left, columns):
            for start in range(0, rows, tall):
                number = bias + size * start if bias else 0
                a, b, to = w + apart * start, panel + size * column, y + stride * start + size * column
                if left - column <= narrow:
                    thin(a, apart, b, row, steps, to, stride, rows - start, first, number)
                else:
                    many(a, apart, b, row, steps, to, stride, rows - start, first, number)

    @device
    def scatter(edge, y, plane, grid, apart, pixel, left, rows):
        """A panel's results to their places in y."""
        (gh, gw), (yz, yy, yx) = grid, apart
        z, line, column = pixel // (gh * gw), pixel // gw % gh, pixel % gw
        done = 0
        while done < left:
            count = min(gw - column, left - done)
            place = y + size * (yz * z + yy * line + yx * column)
            for i in range(rows):
                for j in range(count):
                    put(place + size * (plane * i + yx * j), get(edge + row * i + size * (done + j)))
            done += count
            column, line = 0, line + 1
            if line == gh:
                line, z = 0, z + 1

    def kernel(args, tid, nthreads):
        """(x, w, bias or 0, y, scratch, its stride, batch, groups, channels and filters of a group, D, H, W
        of x, of the grid, steps, where w and y begin, y's strides from filter to filter and along the grid,
        taps, then each tap's offset): w as `arrange` makes it; x is dense; strides are in elements.
        """
        (
            x, w, bias, y, scratch, own, batch, groups, channels, filters, d, h, iw, gd, gh, gw, sz, sy, sx,
            w_start, y_start, plane, yz, yy, yx, taps,
        ) = words(args, 26)  # fmt: skip
        scratch += own * tid
        edge = scratch + row * DEPTH * RUN
        pixels, k, units = gd * gh * gw, channels * taps, batch * groups
        apart = size * (k + 1)
        panels = (pixels + PANEL - 1) // PANEL
        dense = k > 0 and yx == 1 and yy == gw and yz == gh * gw
        most = max(1, min(RUN, units * panels // (4 * nthreads)))
        runs = (panels + most - 1) // most
        # Where there are few pixels, the filters are shared too.
        tiles = (filters + tall - 1) // tall
        share = (tiles + nthreads - 1) // nthreads if units * runs < 2 * nthreads else tiles
        parts = (tiles + share - 1) // share
        item = take(args)
        while item < units * runs * parts:
            unit, start = item // (runs * parts), tall * share * (item % parts)
            group, rows = unit % groups, min(tall * share, filters - start)
            begin = most * (item // parts % runs)
            end = min(begin + most, panels)
            source = x + size * channels * d * h * iw * unit
            weights = w + size * w_start + apart * (filters * group + start)
            numbers = bias + size * (filters * group + start) if bias else 0
            output = y + size * (y_start + plane * (filters * unit + start))
            for depth in range(0, k, DEPTH):
                steps, first = min(DEPTH, k - depth), np.int64(depth == 0)
                number = numbers if depth + steps == k else 0
                for panel in range(begin, end):
                    to = scratch + row * DEPTH * (panel - begin)
                    left = min(PANEL, pixels - PANEL * panel)
                    pack(
                        args, source, channels, taps, (d, h, iw), (gh, gw), (sz, sy, sx), PANEL * panel, left,
                        depth, depth + steps, to,
                    )  # fmt: skip
                for panel in range(begin, end):
                    at = scratch + row * DEPTH * (panel - begin)
                    left = min(PANEL, pixels - PANEL * panel)
                    target, stride = output + row * panel, size * plane
                    if left < PANEL or not dense:
                        target, stride = edge + row * rows * (panel - begin), row
                    multiply(
                        weights + size * depth, apart, at, steps, left, rows, target, stride, first, number
                    )
            for panel in range(begin, end):
                left = min(PANEL, pixels - PANEL * panel)
                if dense and left == PANEL:
                    continue
                to = edge + row * rows * (panel - begin)
                for i in range(rows if k == 0 else 0):
                    for j in range(left):
                        put(to + row * i + size * j, get(numbers + size * i) if bias else 0)
                scatter(to, output, plane, (gh, gw), (yz, yy, yx), PANEL * panel, left, rows)
            for i in range(rows if floats else 0):
                own = weights + apart * i
                if get(own + size * k):
                    mend(
                        args, source, channels, taps, (d, h, iw), (gh, gw), (sz, sy, sx), own,
                        numbers + size * i if bias else 0, output + size * plane * i, (yz, yy, yx),
                        PANEL * begin, min(PANEL * end, pixels),
                    )  # fmt: skip
            item = take(args)

    return kernel


float32, float64, int32 = map(_convolution, (F32, F64, I32))


def _arranged(size: int):
    (get, put), some = movers(size), special(size)

    def kernel(args, tid, nthreads):
        """(w, arranged, where it begins there, groups, filters and channels of a group, w's strides from
        group to group, filter to filter and channel to channel, taps, then each tap's place in w): w in
        rows of K, and behind each whether it holds a NaN or an infinity.
        """
        w, to, begin, groups, filters, channels, apart, filter_stride, stride, taps = words(args, 10)
        line = take(args)
        while line < groups * filters:
            source = w + size * (apart * (line // filters) + filter_stride * (line % filters))
            target = to + size * (begin + (channels * taps + 1) * line)
            for channel in range(channels):
                block = CHANNELS * (channel // CHANNELS)
                width = min(CHANNELS, channels - block)
                for tap in range(taps):
                    value = get(source + size * (stride * channel + get_i64(args + 88 + 8 * tap)))
                    put(target + size * (block * taps + width * tap + channel - block), value)
            put(target + size * channels * taps, some(target, channels * taps))
            line = take(args)

    return kernel


arrange32, arrange64 = _arranged(4), _arranged(8)
