from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.kernels.strides import KINDS
from kernels.running import run, scratch

DTYPES = tuple(KINDS)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Many of them equal, some negative, some NaN."""
    few = np.random.default_rng(sum(shape)).integers(-4, 5, shape)
    x = few.astype(dtype)
    if dtype.startswith("float"):
        x[few == 3], x[few == 0], x[few == -4] = np.nan, np.float16(-0.0), -np.inf
        x.flat[::3] += x.dtype.type(0.0)  # some −0 becomes +0
    return x


def split(x: np.ndarray, axis: int) -> tuple[int, int, int]:
    return int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("least", "last"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_arg_is_numpys(dtype: str, least: int, last: int) -> None:
    x = numbers(dtype, 5, 12, 3)
    for axis in range(3):
        find = np.argmin if least else np.argmax
        expected = x.shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
        found = np.zeros(expected.shape, np.int64)
        run("order.arg", x, found, KINDS[dtype], *split(x, axis), least, last, threads=2)
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=30)
@given(st.sampled_from(DTYPES), st.integers(0, 2), st.integers(0, 12), st.booleans())
def test_top_is_the_head_of_a_stable_sort(dtype: str, axis: int, k: int, least: bool) -> None:
    x = numbers(dtype, 4, 12, 3)
    k = min(k, x.shape[axis])
    # NumPy sorts NaN behind all: of the greatest it is the first.
    order = np.argsort(x, axis, kind="stable")
    if not least:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    order = np.take(order, range(k), axis)
    values, indices = np.zeros(order.shape, dtype), np.zeros(order.shape, np.int64)
    words = (KINDS[dtype], *split(x, axis), k, int(least))
    run("order.top", x, values, indices, *scratch(16 * max(k, 1), 2), *words, threads=2)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


def test_top_of_many() -> None:
    x = np.random.default_rng(0).standard_normal(20000).astype(np.float32)
    values, indices = np.zeros(3000, np.float32), np.zeros(3000, np.int64)
    run("order.top", x, values, indices, *scratch(48000, 1), KINDS["float32"], 1, 20000, 1, 3000, 0)
    np.testing.assert_array_equal(indices, np.argsort(-x, kind="stable")[:3000])
    np.testing.assert_array_equal(values, x[indices])
