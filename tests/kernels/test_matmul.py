from __future__ import annotations

import numpy as np
import pytest

from assay.kernels import conv_sizes
from assay.kernels.call import call
from assay.kernels.panels import EDGE, PANEL
from kernels.chains import Array, chain, perform, scratch, whole

SHAPES = [
    ((3, 1, 5, 7), (2, 7, 33)),
    ((2, 64, 64), (2, 64, 64)),
    ((1, 300), (300, 70)),
    ((200, 513), (513, 40)),
    ((4, 9, 3), (3, 1)),
    ((2, 3, 0), (2, 0, 5)),
    ((0, 3, 4), (4, 5)),
]


def matmul(a: Array, b: Array, threads: int = 1) -> Array:
    """By the kernel; b of any strides."""
    size = a.itemsize
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(each, batch + each.shape[-2:]) for each in (a, b))
    y = np.full((*batch, a.shape[-2], b.shape[-1]), 77, a.dtype)
    strides = [each.strides[axis] // size for each, axis in ((a, -2), (b, -2), (b, -1))]
    dims = [
        number
        for axis, count in enumerate(batch)
        for number in (count, a.strides[axis] // size, b.strides[axis] // size)
    ]
    sizes = *a.shape[-2:], b.shape[-1], *strides, len(batch), *dims
    space = scratch(conv_sizes.matmul_scratch(size), threads)
    perform(threads, (f"matmul.{a.dtype}", a, b, y, *space, *sizes))
    return y


def in_blocks(a: Array, b: Array) -> Array:
    """Rule 8: blocks of 256 of K from zero, added in order."""
    total = np.zeros(np.matmul(a[..., :0], b[..., :0, :]).shape, np.float32)
    for start in range(0, a.shape[-1], 256):
        stop = min(start + 256, a.shape[-1])
        terms = ((a[..., k, None], b[..., k, None, :]) for k in range(start, stop))
        block = chain(terms, np.zeros_like(total))
        total = block if start == 0 else total + block
    return total


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_floats_are_blocks_of_k_in_order(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    generator = np.random.default_rng(0)
    a, b = (whole(generator, "float32", shape) for shape in shapes)
    want = in_blocks(a, b)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(matmul(a, b, threads), want)
    turned = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    np.testing.assert_array_equal(matmul(a, turned), want)
    exact, terms = (np.matmul(*(f(each.astype(float)) for each in (a, b))) for f in (np.copy, np.abs))
    # At most K + K / 256 roundings, each of at most 2⁻²⁴ of the terms' magnitudes.
    assert (abs(want - exact) <= (a.shape[-1] + 2) * 2.0**-24 * terms).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_integers_wrap_and_float64_has_its_precision(dtype: str) -> None:
    generator = np.random.default_rng(1)
    for shapes in SHAPES:
        a, b = (whole(generator, dtype, shape) for shape in shapes)
        for each in (b, np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)):
            got, want = matmul(a, each, 2), np.matmul(a, b)
            bound = 0 if dtype != "float64" else (a.shape[-1] + 2) * 2.0**-52 * np.matmul(abs(a), abs(b))
            assert (abs(got - want) <= bound).all()


@pytest.mark.parametrize("turned", [False, True])
def test_a_constant_matrix_in_panels_gives_the_same_bits(turned: bool) -> None:
    generator = np.random.default_rng(2)
    a, b = whole(generator, "float32", (13, 290)), whole(generator, "float32", (290, 45))
    if turned:
        b = np.ascontiguousarray(b.T).T
    k, n = b.shape
    panels = np.full(-(-n // PANEL) * PANEL * k, 77, np.float32)
    perform(2, ("matmul.pack", b, panels, k, n, b.strides[0] // 4, b.strides[1] // 4))
    y = np.empty((len(a), n), np.float32)
    call("gemm.float32", a, panels, y, len(a), k, n, *scratch(EDGE, 1))
    np.testing.assert_array_equal(y, matmul(a, b))
    assert not panels.reshape(-1, k, PANEL)[-1, :, n % PANEL :].any()
