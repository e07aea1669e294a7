"""Rotary positions: the table of cosines and sines for a step's positions, and the rotation by it."""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.simd.memory import get_f32, get_i32, load, load_row, put_f32, store, store_row, words
from assay.simd.trig import cos, sin
from assay.simd.vector import evens, fma, interleave_high, interleave_low, odds


def table(args, tid, nthreads):
    """(positions, frequencies, table, T, P): table[t] = cos of P angles, then sin; angle = float32(position ·
    frequency).
    """
    positions, frequencies, out, rows, pairs = words(args, 5)
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        position = np.float32(get_i32(positions + 4 * row))
        for pair in range(pairs):
            angle = np.float64(position * get_f32(frequencies + 4 * pair))
            put_f32(out + 8 * pairs * row + 4 * pair, np.float32(cos(angle)))
            put_f32(out + 8 * pairs * row + 4 * (pairs + pair), np.float32(sin(angle)))


def halves(args, tid, nthreads):
    """(x, table, y, T, heads, D, P): pairs are elements i and i + P of each head's first 2P; the rest is
    copied.
    """
    x, turns, y, rows, heads, d, pairs = words(args, 7)
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        turn = turns + 8 * pairs * row
        for head in range(heads):
            source, target = x + 4 * d * (heads * row + head), y + 4 * d * (heads * row + head)
            for i in range(0, pairs, 16):
                a, b = load_row(source, i, pairs), load_row(source + 4 * pairs, i, pairs)
                c, s = load_row(turn, i, pairs), load_row(turn + 4 * pairs, i, pairs)
                store_row(target, i, pairs, fma(a, c, -(b * s)))
                store_row(target + 4 * pairs, i, pairs, fma(a, s, b * c))
            for i in range(2 * pairs, d):
                put_f32(target + 4 * i, get_f32(source + 4 * i))


def neighbours(args, tid, nthreads):
    """(x, table, y, T, heads, D, P): pairs are elements 2i and 2i + 1 of each head's first 2P; the rest is
    copied.
    """
    x, turns, y, rows, heads, d, pairs = words(args, 7)
    whole = pairs // 16 * 16
    for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        turn = turns + 8 * pairs * row
        for head in range(heads):
            source, target = x + 4 * d * (heads * row + head), y + 4 * d * (heads * row + head)
            for i in range(0, whole, 16):
                low, high = load(source + 8 * i), load(source + 8 * i + 64)
                c, s = load(turn + 4 * i), load(turn + 4 * (pairs + i))
                a, b = evens(low, high), odds(low, high)
                left, right = fma(a, c, -(b * s)), fma(a, s, b * c)
                store(target + 8 * i, interleave_low(left, right))
                store(target + 8 * i + 64, interleave_high(left, right))
            for i in range(whole, pairs):
                a, b = get_f32(source + 8 * i), get_f32(source + 8 * i + 4)
                c, s = get_f32(turn + 4 * i), get_f32(turn + 4 * (pairs + i))
                put_f32(target + 8 * i, fma(a, c, -(b * s)))
                put_f32(target + 8 * i + 4, fma(a, s, b * c))
            for i in range(2 * pairs, d):
                put_f32(target + 4 * i, get_f32(source + 4 * i))
