"""Tiny kernels that apply one function of simd.mathf to an array: args are x, y (and z), and the count."""

from __future__ import annotations

from assay.simd.mathf import erf, exp, multiply, normal_tail, sigmoid, tanh
from assay.simd.memory import get_i64, load, put_i64, store


def exps(args, tid, nthreads):
    x, y, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(0, n, 16):
        store(y + 4 * i, exp(load(x + 4 * i)))


def tanhs(args, tid, nthreads):
    x, y, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(0, n, 16):
        store(y + 4 * i, tanh(load(x + 4 * i)))


def tails(args, tid, nthreads):
    x, y, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(0, n, 16):
        store(y + 4 * i, normal_tail(load(x + 4 * i)))


def erfs(args, tid, nthreads):
    x, y, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(0, n, 16):
        store(y + 4 * i, erf(load(x + 4 * i)))


def sigmoids(args, tid, nthreads):
    x, y, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
    for i in range(0, n, 16):
        store(y + 4 * i, sigmoid(load(x + 4 * i)))


def products(args, tid, nthreads):
    x, y, z, n = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24), get_i64(args + 32)
    for i in range(n):
        high, low = multiply(get_i64(x + 8 * i), get_i64(y + 8 * i))
        put_i64(z + 16 * i, low)
        put_i64(z + 16 * i + 8, high)
