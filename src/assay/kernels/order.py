"""Greatest and least elements along one axis of [outer, axis, inner]."""

from __future__ import annotations

from assay.kernels.element import MOST, copy_block, order, width
from assay.kernels.share import first_row
from assay.kernels.sizes import FLOAT32
from assay.simd.device import device
from assay.simd.memory import get_i64, put_i64, words


def arg(args, tid, nthreads):
    """(x, y, type, outer, axis, inner, least, last): the index, an int64, of the greatest or the least
    element, the first or the last of equal ones. NaN is found before all.
    """
    x, y, kind, outer, axis, inner, least, last = words(args, 8)
    size = width(kind)
    for item in range(first_row(outer * inner, tid, nthreads), first_row(outer * inner, tid + 1, nthreads)):
        at, best, found = x + size * (axis * inner * (item // inner) + item % inner), 0, -1
        for a in range(axis):
            key = order(kind, at + size * inner * a)
            if least and not (kind >= FLOAT32 and key == MOST):
                key = ~key
            if found < 0 or key > best or (last and key == best):
                best, found = key, a
        put_i64(y + 8 * item, found)


def top(args, tid, nthreads):
    """(x, values, indices, scratch, its stride, type, outer, axis, inner, k, least): the k greatest elements,
    the greatest first, or the k least, the least first; of equal ones the lower index is before the other.
    NaN is greater than all. Scratch is 16 · k bytes.
    """
    x, values, indices, space, pace, kind, outer, axis, inner, k, least = words(args, 11)
    space, size = space + pace * tid, width(kind)
    for item in range(first_row(outer * inner, tid, nthreads), first_row(outer * inner, tid + 1, nthreads)):
        row, column = item // inner, item % inner
        at, target = x + size * (axis * inner * row + column), k * inner * row + column
        for a in range(axis if k else 0):
            key = order(kind, at + size * inner * a)
            key = ~key if least else key
            if a < k:
                put_i64(space + 16 * a, key)
                put_i64(space + 16 * a + 8, a)
                if a == k - 1:
                    for hole in range(k // 2, -1, -1):
                        sink(space, hole, k, get_i64(space + 16 * hole), get_i64(space + 16 * hole + 8))
            elif key > get_i64(space):
                sink(space, 0, k, key, a)
        for place in range(k - 1, -1, -1):
            index, last = get_i64(space + 8), space + 16 * place
            put_i64(indices + 8 * (target + inner * place), index)
            copy_block(values + size * (target + inner * place), at + size * inner * index, size)
            sink(space, 0, place, get_i64(last), get_i64(last + 8))


@device
def sink(space, hole, count, key, index):
    """Put an entry (key, index) into a heap, from a hole down; above is who comes last."""
    while True:
        child = 2 * hole + 1
        if child + 1 < count and behind(
            space, child + 1, get_i64(space + 16 * child), get_i64(space + 16 * child + 8)
        ):
            child += 1
        if child >= count or not behind(space, child, key, index):
            break
        put_i64(space + 16 * hole, get_i64(space + 16 * child))
        put_i64(space + 16 * hole + 8, get_i64(space + 16 * child + 8))
        hole = child
    put_i64(space + 16 * hole, key)
    put_i64(space + 16 * hole + 8, index)


@device
def behind(space, entry, key, index):
    """Whether an entry of the heap comes behind (key, index)."""
    other = get_i64(space + 16 * entry)
    return other < key or (other == key and get_i64(space + 16 * entry + 8) > index)
