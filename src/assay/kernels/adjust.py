"""Logits of the rows that ask for it: tokens barred, penalties for repeating, biases."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.device import device
from assay.simd.memory import get_f32, get_i32, get_u16, load_row, put_f32, store_row, words
from assay.simd.vector import lane_numbers, select, splat, splat_i32


def adjust(args, tid, nthreads):
    """logits[R, V], asking[A], allowed[A, W], spans[A + 1], ids[E], counts[E], biases[E], penalties[A, 3] →
    adjusted[A, V].

    Words: these nine addresses in order, A, V, W.
    """
    logits, asking, allowed, spans, ids, counts, biases, penalties, adjusted, rows, n, w = words(args, 12)
    lanes = splat_i32(1) << lane_numbers()
    for a in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        x, y = logits + 4 * n * get_i32(asking + 4 * a), adjusted + 4 * n * a
        for i in range(0, n, 16):
            v, bits = load_row(x, i, n), splat_i32(get_u16(allowed + 4 * w * a + i // 8))
            kept = ((bits & lanes) != splat_i32(0)) | (v != v)
            store_row(y, i, n, select(kept, v, splat(-np.inf)))
        of = penalties + 12 * a
        for entry in range(get_i32(spans + 4 * a), get_i32(spans + 4 * a + 4)):
            place, count = y + 4 * get_i32(ids + 4 * entry), get_i32(counts + 4 * entry)
            v = penalised(get_f32(place), count, get_f32(of), get_f32(of + 4), get_f32(of + 8))
            bias = get_f32(biases + 4 * entry)
            put_f32(place, bias if bias == -np.inf and v == v else v + bias)


@device
def penalised(x, count, repetition, presence, frequency):
    """The logit of a token that is `count` times in the output; 0: in the prompt alone; −1: nowhere."""
    if count >= 0:
        x = x / repetition if x > 0 else x * repetition
    if count > 0:
        x = x - frequency * np.float32(count) - presence
    return x
