"""Blocks taken from, and put to, places that a tensor of indices says; running sums; sequences in reverse.

The first two kernels go over positions, row-major over `axes`: triples (size, stride in the data in bytes,
stride in the indices in elements). The indices at a position are `parts` numbers side by side; pairs (size,
stride in bytes) say of what. A negative one counts from the end; one that is out of range is a fault in that
position.
"""

from __future__ import annotations

from assay.kernels.element import combine_at, copy_block, width
from assay.kernels.share import fault, first_row
from assay.simd.device import device
from assay.simd.memory import get_i32, get_i64, put_i32, words


@device
def place_of(args, position, axes, count):
    """Where a position is: bytes in the data, elements in the indices."""
    place, index = 0, 0
    for each in range(axes + 24 * count - 24, axes - 24, -24):
        size = get_i64(each)
        place += position % size * get_i64(each + 8)
        index += position % size * get_i64(each + 16)
        position //= size
    return place, index


@device
def offset_of(args, position, index, wide, sizes, parts):
    """The offset that the indices at an address say; −1 and a fault where they are out of range."""
    offset = 0
    for part in range(parts):
        size = get_i64(sizes + 16 * part)
        number = get_i64(index + 8 * part) if wide else get_i32(index + 4 * part)
        number += size if number < 0 else 0
        if number < 0 or number >= size:
            fault(args, position)
            return -1
        offset += number * get_i64(sizes + 16 * part + 8)
    return offset


@device
def words_along(args, position, stop, x, step, index, pace, y, sizes):
    """`gather` of 4 bytes for each int64 index: what most are, and nothing is looked up twice."""
    size, stride = get_i64(sizes), get_i64(sizes + 8)
    for p in range(position, stop):
        number = get_i64(index)
        number += size if number < 0 else 0
        if 0 <= number < size:
            put_i32(y + 4 * p, get_i32(x + number * stride))
        else:
            fault(args, p)
        x, index = x + step, index + pace


def gather(args, tid, nthreads):
    """(x, indices, y, wide, block, positions, axes, parts), then the axes' triples and the parts' pairs:
    y[p] = x[place of p + its indices], blocks of so many bytes. `wide`: indices are int64, else int32.
    """
    x, indices, y, wide, block, positions, count, parts = words(args, 8)
    axes = args + 72
    sizes, last = axes + 24 * count, axes + 24 * count - 24
    inner, step, pace = get_i64(last), get_i64(last + 8), get_i64(last + 16) * (8 if wide else 4)
    position, end = first_row(positions, tid, nthreads), first_row(positions, tid + 1, nthreads)
    single = parts == 1 and wide and block == 4
    while position < end:
        place, index = place_of(args, position, axes, count)
        index = indices + (8 if wide else 4) * index
        stop = min(end, position + inner - position % inner)
        if single:
            words_along(args, position, stop, x + place, step, index, pace, y, sizes)
            position = stop
            continue
        for p in range(position, stop):
            offset = offset_of(args, p, index, wide, sizes, parts)
            if offset >= 0:
                copy_block(y + block * p, x + place + offset, block)
            place, index = place + step, index + pace
        position = stop


def scatter(args, tid, nthreads):
    """(updates, indices, y, wide, block, positions, axes, parts, blocks of y, reduced, how, type), then as
    `gather`: y[place of p + its indices] = updates[p], or what `how` makes of the two, in the order of p.

    A thread has a share of y, and goes over all positions. What y has elsewhere stays.
    """
    x, indices, y, wide, block, positions, count, parts, blocks, reduced, how, kind = words(args, 12)
    axes, size = args + 104, width(kind)
    low, high = block * first_row(blocks, tid, nthreads), block * first_row(blocks, tid + 1, nthreads)
    for position in range(positions):
        place, index = place_of(args, position, axes, count)
        index = indices + (8 if wide else 4) * index
        offset = offset_of(args, position, index, wide, axes + 24 * count, parts)
        target = place + offset
        if offset >= 0 and low <= target < high:
            source, target = x + block * position, y + target
            if reduced:
                for i in range(block // size):
                    at = target + size * i
                    combine_at(kind, how, at, at, source + size * i)
            else:
                copy_block(target, source, block)


def cumulate(args, tid, nthreads):
    """(x, y, start, type, how, outer, axis, inner, exclusive, backwards): running sums or products along the
    axis of [outer, axis, inner], in order. `exclusive`: of the elements before; the first is at `start`.
    """
    x, y, start, kind, how, outer, axis, inner, exclusive, backwards = words(args, 10)
    size = width(kind)
    for item in range(first_row(outer * inner, tid, nthreads), first_row(outer * inner, tid + 1, nthreads)):
        first, step = size * (axis * inner * (item // inner) + item % inner), size * inner
        if backwards:
            first, step = first + step * (axis - 1), -step
        if axis:
            copy_block(y + first, start if exclusive else x + first, size)
        for place in range(1, axis):
            target = y + first + step * place
            source = x + first + step * (place - 1 if exclusive else place)
            combine_at(kind, how, target, target - step, source)


def reverse(args, tid, nthreads):
    """(x, lengths, y, A, B, block, time_first): x[A, B] of blocks of so many bytes, the times in A and the
    sequences in B, or the other way. Of each sequence the first `lengths` (int64) blocks in reverse, then the
    rest; a length that isn't one of its sequence is a fault in that.
    """
    x, lengths, y, rows, columns, block, time_first = words(args, 7)
    for item in range(first_row(rows * columns, tid, nthreads), first_row(rows * columns, tid + 1, nthreads)):
        row, column = item // columns, item % columns
        time, sequence, times = (row, column, rows) if time_first else (column, row, columns)
        length, pace = get_i64(lengths + 8 * sequence), columns if time_first else 1
        if 0 <= length <= times:
            source = item + pace * (length - 1 - 2 * time) if time < length else item
            copy_block(y + block * item, x + block * source, block)
        else:
            fault(args, sequence)
