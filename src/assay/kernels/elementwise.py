"""Chains of elementwise operators: a small program, interpreted once per block of 256 elements.

A register is a block of 256 floats in scratch. An instruction is four words: operation, destination register,
left, right. LOAD and LOAD_ROW (of a row [N] that is repeated) take an address as left, STORE as right; SCALE
has a float as right, operations of one operand ignore it. Each operation rounds as its own node would.
"""

from __future__ import annotations

from assay.kernels.share import first_row
from assay.kernels.sizes import ADD, GELU, GELU_TANH, LOAD, LOAD_ROW, MUL, SCALE, SILU, STORE, STRETCH, TANH
from assay.simd.mathf import exp, normal_tail, tanh
from assay.simd.memory import as_f32, get_f32, get_i64, load, load_part, put_f32, store, store_part, words
from assay.simd.vector import fma, select, splat

CUBIC = 0.044715
SLOPE = 1.5957691216057308  # 2 √(2 / π)


def chain(args, tid, nthreads):
    """(T, N, scratch, its stride, instructions, then four words for each), all operands [T, N]."""
    rows, n, scratch, pace, count = words(args, 5)
    scratch += pace * tid
    end = n * first_row(rows, tid + 1, nthreads)
    one = splat(1.0)
    for start in range(n * first_row(rows, tid, nthreads), end, STRETCH):
        size = min(STRETCH, end - start)
        whole = size // 16 * 16
        for index in range(count):
            word = args + 48 + 32 * index
            operation, left, right = get_i64(word), get_i64(word + 16), get_i64(word + 24)
            target = scratch + 4 * STRETCH * get_i64(word + 8)
            a, b = scratch + 4 * STRETCH * left, scratch + 4 * STRETCH * right
            if operation == LOAD:
                for i in range(0, whole, 16):
                    store(target + 4 * i, load(left + 4 * (start + i)))
                if whole < size:
                    store(target + 4 * whole, load_part(left + 4 * (start + whole), size - whole))
            elif operation == LOAD_ROW:
                done = 0
                while done < size:
                    column = (start + done) % n
                    run = min(size - done, n - column)
                    for i in range(0, run // 16 * 16, 16):
                        store(target + 4 * (done + i), load(left + 4 * (column + i)))
                    for i in range(run // 16 * 16, run):
                        put_f32(target + 4 * (done + i), get_f32(left + 4 * (column + i)))
                    done += run
            elif operation == STORE:
                for i in range(0, whole, 16):
                    store(right + 4 * (start + i), load(a + 4 * i))
                if whole < size:
                    store_part(right + 4 * (start + whole), load(a + 4 * whole), size - whole)
            elif operation == ADD:
                for i in range(0, size, 16):
                    store(target + 4 * i, load(a + 4 * i) + load(b + 4 * i))
            elif operation == MUL:
                for i in range(0, size, 16):
                    store(target + 4 * i, load(a + 4 * i) * load(b + 4 * i))
            elif operation == SCALE:
                for i in range(0, size, 16):
                    store(target + 4 * i, load(a + 4 * i) * splat(as_f32(right)))
            elif operation == SILU:
                for i in range(0, size, 16):
                    x = load(a + 4 * i)
                    store(target + 4 * i, x / (one + exp(-x)))
            elif operation == GELU:
                for i in range(0, size, 16):
                    x = load(a + 4 * i)
                    tail = normal_tail(x)
                    below = select(x < splat(0.0), tail, splat(2.0) - tail)
                    store(target + 4 * i, splat(0.5) * x * below)
            elif operation == GELU_TANH:
                for i in range(0, size, 16):
                    x = load(a + 4 * i)
                    inner = fma(x * x * splat(CUBIC), x, x) * splat(SLOPE)
                    store(target + 4 * i, x / (one + exp(-inner)))
            elif operation == TANH:
                for i in range(0, size, 16):
                    store(target + 4 * i, tanh(load(a + 4 * i)))
