"""Kernels that read and set the calling thread's floating-point state, and one that multiplies under it."""

from __future__ import annotations

from assay.simd.memory import get_f32, get_i64, put_f32, put_i64
from assay.simd.threads import FLAGS, float_state, set_float_state


def get_state(args, tid, nthreads):
    """(where)"""
    put_i64(get_i64(args + 8), float_state())


def get_flags(args, tid, nthreads):
    """(where)"""
    put_i64(get_i64(args + 8), float_state() & FLAGS)


def set_state(args, tid, nthreads):
    """(state)"""
    set_float_state(get_i64(args + 8))


def multiply(args, tid, nthreads):
    """(a, b, y, n)"""
    a, b, y = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(get_i64(args + 32)):
        put_f32(y + 4 * i, get_f32(a + 4 * i) * get_f32(b + 4 * i))
