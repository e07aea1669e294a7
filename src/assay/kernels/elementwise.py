"""Chains of elementwise operations, and copies between layouts: a small program, interpreted once per block
of 256 elements.

A register holds the address of a block: the first REGISTERS are blocks in scratch, others lie in memory. An
instruction is five words: a block function's address (blocks.py) or one of these, the register of its result,
and its operands a, b and c:

    PLACE    the register is the block where it lies: a is the array's address, b the bytes of an element
    SPREAD   fill the register with the number in the word a, of b bytes
    REPEAT   fill the register with the element of b bytes at a + c
    GATHER   fill the register from the array at a, in the order of the view b, elements of c bytes
    SCATTER  the register's block goes into the array at a, in the order of the view b, elements of c bytes

A view is words at so many bytes from the arguments' own address: bytes to the first element, number of
dimensions, then for each its size and its stride in bytes. The sizes' product is T · N.
"""

from __future__ import annotations

from assay.kernels.share import first_row
from assay.kernels.sizes import (
    BLOCK_PITCH,
    CHAIN_HEAD,
    PLACE,
    REGISTERS,
    REPEAT,
    SCATTER,
    SPREAD,
    STRETCH,
)  # fmt: skip
from assay.simd.device import device
from assay.simd.memory import (
    copy_bytes,
    get_f32,
    get_i32,
    get_i64,
    get_u8,
    get_u16,
    load_bytes,
    put_i32,
    put_i64,
    put_u8,
    put_u16,
    store,
    store_bytes,
    words,
)  # fmt: skip
from assay.simd.threads import invoke
from assay.simd.vector import splat

OPERANDS = 16 * REGISTERS
PLACES = OPERANDS + 32
"""Where a thread's scratch has the operands of a function, and the place in a view; registers come first."""


@device
def _strided(to, pace, source, step, count, size):
    """Copy `count` elements of `size` bytes between places that far apart."""
    if size == 4:
        for i in range(count):
            put_i32(to + pace * i, get_i32(source + step * i))
    elif size == 8:
        for i in range(count):
            put_i64(to + pace * i, get_i64(source + step * i))
    elif size == 2:
        for i in range(count):
            put_u16(to + pace * i, get_u16(source + step * i))
    else:
        for i in range(count):
            put_u8(to + pace * i, get_u8(source + step * i))


@device
def _fill(to, source, count, size):
    """`count` copies of one element: 64 bytes of them, again and again."""
    nbytes = size * count
    if size == 4 and count >= 16:
        value = splat(get_f32(source))
        for i in range(0, nbytes - 63, 64):
            store(to + i, value)
        store(to + nbytes - 64, value)
        return
    _strided(to, size, source, 0, min(count, 64 // size), size)
    if nbytes > 64:
        pattern = load_bytes(to)
        for i in range(64, nbytes - 63, 64):
            store_bytes(to + i, pattern)
        copy_bytes(to + nbytes // 64 * 64, to, nbytes % 64)


@device
def _walk(view, array, size, block, start, count, places, outwards):
    """Copy elements `start` and so on of a view into a block, or out of it."""
    at, axes = array + get_i64(view), get_i64(view + 8)
    last = view + 16 * axes
    left = start
    for axis in range(axes - 1, -1, -1):
        extent = get_i64(view + 16 + 16 * axis)
        put_i64(places + 8 * axis, left % extent)
        at += left % extent * get_i64(view + 24 + 16 * axis)
        left = left // extent
    extent, stride = get_i64(last), get_i64(last + 8)
    column = get_i64(places + 8 * axes - 8)
    while True:
        run = min(extent - column, count)
        to, source = (at, block) if outwards else (block, at)
        if stride == size:
            copy_bytes(to, source, size * run)
        elif stride == 0 and not outwards:
            _fill(to, source, run, size)
        else:
            _strided(to, stride if outwards else size, source, size if outwards else stride, run, size)
        block += size * run
        count -= run
        if count == 0:
            return
        at -= stride * column
        column = 0
        axis = axes - 2
        while True:
            place, pace = get_i64(places + 8 * axis) + 1, get_i64(view + 24 + 16 * axis)
            at += pace
            if place < get_i64(view + 16 + 16 * axis):
                put_i64(places + 8 * axis, place)
                break
            at -= pace * place
            put_i64(places + 8 * axis, 0)
            axis -= 1


@device
def _instruction(args, word, scratch, start, size):
    """Run the instruction at `word` for `size` elements from element `start`."""
    function, target = get_i64(word), scratch + 8 * get_i64(word + 8)
    a, b, c = get_i64(word + 16), get_i64(word + 24), get_i64(word + 32)
    if function > SCATTER:
        operands = scratch + OPERANDS
        put_i64(operands, get_i64(target))
        put_i64(operands + 8, get_i64(scratch + 8 * a))
        put_i64(operands + 16, get_i64(scratch + 8 * b))
        put_i64(operands + 24, get_i64(scratch + 8 * c))
        invoke(function, operands, size, 0)
    elif function == PLACE:
        put_i64(target, a + b * start)
    elif function == SPREAD:
        _fill(get_i64(target), word + 16, size, b)
    elif function == REPEAT:
        _fill(get_i64(target), a + c, size, b)
    else:
        block, places = get_i64(target), scratch + PLACES
        _walk(args + b, a, c, block, start, size, places, function == SCATTER)


def chain(args, tid, nthreads):
    """(T, N, scratch, its stride, instructions that run once, all instructions, five words for each, then
    views) for results [T, N].
    """
    rows, n, scratch, pace, once, count = words(args, 6)
    first, last = args + 56, args + 56 + 40 * count
    scratch += pace * tid
    for register in range(REGISTERS):
        put_i64(scratch + 8 * register, scratch + CHAIN_HEAD + BLOCK_PITCH * register)
    for word in range(first, first + 40 * once, 40):
        _instruction(args, word, scratch, 0, STRETCH)
    end = n * first_row(rows, tid + 1, nthreads)
    for start in range(n * first_row(rows, tid, nthreads), end, STRETCH):
        for word in range(first + 40 * once, last, 40):
            _instruction(args, word, scratch, start, min(STRETCH, end - start))
