"""One step in time of recurrent layers: what happens to the gates, behind the matrix products.

A step works on [B, H]; gates lie side by side in rows [gates · H]. The words behind the sizes are a step's
number, the sequences' lengths (int32, 0 where all have every step), the bound of what activations are given
(0: none), then three words for each activation: its code, alpha, beta. A sequence that has ended keeps its
state, and gives zeros.
"""

from __future__ import annotations

from assay.kernels.share import first_row
from assay.kernels.sizes import (
    AFFINE,
    ELU,
    HARD_SIGMOID,
    LEAKY,
    RELU,
    SCALED_TANH,
    SIGMOID,
    SOFTPLUS,
    SOFTSIGN,
    TANH,
    THRESHOLDED,
)  # fmt: skip
from assay.simd import math64
from assay.simd.device import device
from assay.simd.mathf import exp, magnitude, single, tanh
from assay.simd.memory import as_f32, get_i32, get_i64, load_row, store_row, words
from assay.simd.vector import select, splat

_expm1, _softplus = single(math64.expm1), single(math64.softplus)


@device
def activated(word, x, bound):
    """What an activation, at an address, makes of a vector."""
    alpha, beta = splat(as_f32(get_i64(word + 8))), splat(as_f32(get_i64(word + 16)))
    zero, one, code = splat(0.0), splat(1.0), get_i64(word)
    if bound > 0.0:
        x = select(x > splat(bound), splat(bound), select(x < splat(-bound), splat(-bound), x))
    y = x
    if code == SIGMOID:
        y = one / (one + exp(-x))
    elif code == TANH:
        y = tanh(x)
    elif code == RELU:
        y = select(x < zero, zero, x)
    elif code == AFFINE:
        y = alpha * x + beta
    elif code == LEAKY:
        y = select(x < zero, alpha * x, x)
    elif code == THRESHOLDED:
        y = select(x > alpha, x, zero)
    elif code == SCALED_TANH:
        y = alpha * tanh(beta * x)
    elif code == HARD_SIGMOID:
        z = alpha * x + beta
        y = select(z < zero, zero, select(z > one, one, z))
    elif code == ELU:
        y = select(x < zero, alpha * _expm1(x), x)
    elif code == SOFTSIGN:
        y = x / (one + magnitude(x))
    elif code == SOFTPLUS:
        y = _softplus(x)
    return y


@device
def ended(lens, row, step):
    return lens != 0 and step >= get_i32(lens + 4 * row)


def rnn(args, tid, nthreads):
    """(gates of x, gates of h, h before, h after, output, B, H, step, lengths, bound, activation f):
    h = f(x's + h's).
    """
    x, r, h, after, y, rows, n, step, lens, bound = words(args, 10)
    blocks = (n + 15) // 16
    for item in range(first_row(rows * blocks, tid, nthreads), first_row(rows * blocks, tid + 1, nthreads)):
        row, j = item // blocks, 16 * (item % blocks)
        at = 4 * n * row
        value = activated(args + 88, load_row(x + at, j, n) + load_row(r + at, j, n), as_f32(bound))
        _keep(h, after, y, at, j, n, value, ended(lens, row, step))


@device
def _keep(h, after, y, at, j, n, value, over):
    """Store a new state, or the old one where the sequence has ended."""
    store_row(after + at, j, n, load_row(h + at, j, n) if over else value)
    store_row(y + at, j, n, splat(0.0) if over else value)


def lstm(args, tid, nthreads):
    """(gates of x, gates of h, peepholes or 0, h and c before, h and c after, output, B, H, step, lengths,
    bound, whether input and forget gates add to 1, activations f, g, h); gates are i, o, f, c:

    i = f(xi + hi + Pi c), f = f(xf + hf + Pf c), C = f c + i g(xc + hc), o = f(xo + ho + Po C), h = o h(C).
    """
    x, r, p, h, c, h_after, c_after, y, rows, n, step, lens, bound, coupled = words(args, 14)
    blocks, limit, gate = (n + 15) // 16, as_f32(bound), 4 * n
    for item in range(first_row(rows * blocks, tid, nthreads), first_row(rows * blocks, tid + 1, nthreads)):
        row, j = item // blocks, 16 * (item % blocks)
        at, gates = 4 * n * row, 16 * n * row
        before = load_row(c + at, j, n)
        cell, inner, forget, outer = before, before, before, before
        for stage in range(5):
            # Input, forget, cell, output gates, then the new cell: one text for every activation.
            place = gate * (0 if stage == 0 else 2 if stage == 1 else 3 if stage == 2 else 1)
            if stage < 4:
                value = load_row(x + gates + place, j, n) + load_row(r + gates + place, j, n)
                if p and stage != 2:
                    hole = load_row(p + gate * (0 if stage == 0 else 2 if stage == 1 else 1), j, n)
                    value = value + hole * cell
            else:
                value = cell
            which = 24 * (1 if stage == 2 else 2 if stage == 4 else 0)
            value = activated(args + 120 + which, value, limit if stage < 4 else 0.0)
            if stage == 0:
                inner = value
            elif stage == 1:
                forget = splat(1.0) - inner if coupled else value
            elif stage == 2:
                cell = forget * before + inner * value
            elif stage == 3:
                outer = value
            else:
                over = ended(lens, row, step)
                _keep(h, h_after, y, at, j, n, outer * value, over)
                store_row(c_after + at, j, n, before if over else cell)


def gru_reset(args, tid, nthreads):
    """(gates of x, gates of h, h before, r h, B, H, bound, activation f): r · h with r = f(xr + hr), of gates
    z, r, h.
    """
    x, r, h, y, rows, n, bound = words(args, 7)
    blocks = (n + 15) // 16
    for item in range(first_row(rows * blocks, tid, nthreads), first_row(rows * blocks, tid + 1, nthreads)):
        row, j = item // blocks, 16 * (item % blocks)
        gates = 12 * n * row + 4 * n
        value = load_row(x + gates, j, n) + load_row(r + gates, j, n)
        reset = activated(args + 64, value, as_f32(bound))
        store_row(y + 4 * n * row, j, n, reset * load_row(h + 4 * n * row, j, n))


def gru(args, tid, nthreads):
    """(gates of x, gates of h, of r h or 0, biases of h's last gate or 0, h before, h after, output, B, H,
    step, lengths, bound, activations f, g), gates z, r, h: h' = (1 − z) g(xh + …) + z h with z = f(xz + hz).

    In g stands the gate of r h, or, where that is 0, r · (the gate of h + its bias) with r = f(xr + hr).
    """
    x, r, reset, bias, h, after, y, rows, n, step, lens, bound = words(args, 12)
    blocks, limit, gate = (n + 15) // 16, as_f32(bound), 4 * n
    for item in range(first_row(rows * blocks, tid, nthreads), first_row(rows * blocks, tid + 1, nthreads)):
        row, j = item // blocks, 16 * (item % blocks)
        at, gates = 4 * n * row, 12 * n * row
        before = load_row(h + at, j, n)
        update, again = before, before
        for stage in range(3):
            value = load_row(x + gates + gate * stage, j, n)
            if stage < 2:
                value = value + load_row(r + gates + gate * stage, j, n)
            elif reset:
                value = value + load_row(reset + at, j, n)
            else:
                inner = load_row(r + gates + 2 * gate, j, n)
                if bias:
                    inner = inner + load_row(bias, j, n)
                value = value + again * inner
            value = activated(args + 104 + (24 if stage == 2 else 0), value, limit)
            if stage == 0:
                update = value
            elif stage == 1:
                again = value
            else:
                new = (splat(1.0) - update) * value + update * before
                _keep(h, after, y, at, j, n, new, ended(lens, row, step))
