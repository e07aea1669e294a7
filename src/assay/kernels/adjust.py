"""Logits of the rows that ask for it: tokens barred, penalties for repeating, biases."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.device import device
from assay.simd.memory import get_f32, get_i32, get_i64, load_part, put_f32, store_part
from assay.simd.vector import lane_numbers, select, splat, splat_i32


def adjust(args, tid, nthreads):
    """logits[R, V], asking[A], spans[A, 2], tokens[E], counts[E], biases[E], penalties[A, 3], allowed[A, W] →
    adjusted[A, V]. Words: these nine addresses in order, A, V, W.
    """
    logits, asking, spans = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    tokens, counts, biases = get_i64(args + 32), get_i64(args + 40), get_i64(args + 48)
    penalties, allowed, adjusted = get_i64(args + 56), get_i64(args + 64), get_i64(args + 72)
    rows, n, words = get_i64(args + 80), get_i64(args + 88), get_i64(args + 96)
    for a in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        y = adjusted + 4 * n * a
        admit(logits + 4 * n * get_i32(asking + 4 * a), allowed + 4 * words * a, n, y)
        of = penalties + 12 * a
        for e in range(get_i32(spans + 8 * a), get_i32(spans + 8 * a + 4)):
            at, count = y + 4 * get_i32(tokens + 4 * e), get_i32(counts + 4 * e)
            logit = penalised(get_f32(at), count, get_f32(of), get_f32(of + 4), get_f32(of + 8))
            put_f32(at, logit + get_f32(biases + 4 * e))


@device
def admit(x, allowed, n, y):
    """Copy n logits; −∞ where the bit in `allowed` is 0, unless the logit is NaN."""
    for i in range(0, n, 16):
        count = min(16, n - i)
        v = load_part(x + 4 * i, count)
        bits = splat_i32(get_i32(allowed + 4 * (i // 32)) >> (i % 32)) >> lane_numbers()
        barred = ((bits & splat_i32(1)) == splat_i32(0)) & (v == v)
        store_part(y + 4 * i, select(barred, splat(-np.inf), v), count)


@device
def penalised(logit, count, repetition, presence, frequency):
    """The logit of a token that stands `count` times in the output; 0: in the prompt alone; −1: nowhere."""
    if count >= 0:
        logit = logit / repetition if logit > np.float32(0) else logit * repetition
    if count > 0:
        logit = logit - frequency * np.float32(count) - presence
    return logit
