"""Logits of the rows that ask for it: penalties for repeating, biases, tokens barred."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.device import device
from assay.simd.memory import get_f32, get_i32, load_row, store_row, words
from assay.simd.vector import bits, convert_f32, select, splat, splat_i32


def adjust(args, tid, nthreads):
    """logits[R, V], asking[A], counts[A, V], biases[A, V], penalties[A, 3] → adjusted[A, V].

    Words: these six addresses in order, A, V.
    """
    logits, asking, counts, biases, penalties, adjusted, rows, n = words(args, 8)
    for a in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        x, row, of = logits + 4 * n * get_i32(asking + 4 * a), 4 * n * a, penalties + 12 * a
        repetition, presence = splat(get_f32(of)), splat(get_f32(of + 4))
        frequency = splat(get_f32(of + 8))
        for i in range(0, n, 16):
            v, bias = load_row(x, i, n), load_row(biases + row, i, n)
            count = bits(load_row(counts + row, i, n))
            v = penalised(v, count, repetition, presence, frequency)
            v = select((bias == splat(-np.inf)) & (v == v), bias, v + bias)
            store_row(adjusted + row, i, n, v)


@device
def penalised(x, count, repetition, presence, frequency):
    """Logits of tokens that are `count` times in the output; 0: in the prompt alone; −1: nowhere."""
    seen = select(x > splat(0.0), x / repetition, x * repetition)
    x = select(count >= splat_i32(0), seen, x)
    return select(count > splat_i32(0), x - frequency * convert_f32(count) - presence, x)
