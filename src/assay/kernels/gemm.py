"""Float32 matrix products: y[T, N] = x[T, K] · weights[N, K]ᵀ, for plain weights and for quantised ones
dequantised on the way.

K goes in blocks of 256, each summed from zero in ascending order, and the blocks are added in order
(numerics.md, rule 8).
"""

from __future__ import annotations

import numpy as np

from assay.kernels import ftile
from assay.kernels.lanes import lanes
from assay.kernels.panels import BLOCK, DEPTH, EDGE, FORMATS, PANEL, Format
from assay.kernels.product import product
from assay.kernels.unpack import unpacked
from assay.simd.device import device
from assay.simd.memory import bf16_at, f16_at, f32_at


def _kernel(load: ftile.Loader, size: int, find):
    """`find(w, scratch, K, panel, depth, steps)` says where so many steps of a panel from `depth` on are, as
    elements of `size` bytes.
    """
    tall, columns = ftile.tall(), 2 * lanes().columns
    one = ftile.tile(1, PANEL, load, size)
    many = ftile.tile(tall, columns, load, size)
    pitch = size * PANEL

    @device
    def multiply(word, panel, start, end, target, stride, scratch):
        x, w, _, rows, k = word[:5]
        for depth in range(0, k, DEPTH):
            steps = min(DEPTH, k - depth)
            at = find(w, scratch + EDGE, k, panel, depth, steps)
            first = np.int64(depth == 0)
            if rows == 1:
                one(x + 4 * depth, 4 * k, at, pitch, steps, target, 4 * stride, 1, first)
                continue
            for column in range(0, PANEL, columns):
                b = at + size * column
                for row in range(start, end, tall):
                    a = x + 4 * (k * row + depth)
                    to = target + 4 * (stride * (row - start) + column)
                    many(a, 4 * k, b, pitch, steps, to, 4 * stride, end - row, first)

    return product(8, multiply, multiply)


def _plain(load: ftile.Loader, size: int):
    @device
    def find(w, scratch, k, panel, depth, steps):
        return w + size * PANEL * (k * panel + depth)

    return _kernel(load, size, find)


def _quantised(form: Format):
    dequantise = unpacked(form, wide=True)
    pace = form.pace

    @device
    def find(w, scratch, k, panel, depth, steps):
        at = w + pace * (k // BLOCK) * panel
        for block in range(steps // BLOCK):
            for half in range(0, PANEL, 16):
                to = scratch + 4 * (PANEL * BLOCK * block + half)
                dequantise(at, depth // BLOCK + block, half, to)
        return scratch

    return _kernel(f32_at, 4, find)


float32 = _plain(f32_at, 4)
float16 = _plain(f16_at, 2)
bfloat16 = _plain(bf16_at, 2)
globals().update({name: _quantised(form) for name, form in FORMATS.items()})
