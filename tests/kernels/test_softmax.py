from __future__ import annotations

import numpy as np
import pytest

from kernels.running import run
from kernels.test_reduce import in_lanes


def softmax(x: np.ndarray, threads: int = 1) -> np.ndarray:
    y = np.full_like(x, 7)
    run("softmax.float32", x, y, *x.shape, threads=threads)
    return y


@pytest.mark.parametrize("shape", [(3, 40), (5, 1), (2, 33), (4, 0), (3, 700)])
def test_softmax_is_the_formula(shape: tuple[int, int]) -> None:
    """y within an ulp of exp, one of each of N / 16 + 4 sums, one of the division, and half an ulp of the
    difference, at most 64.
    """
    x = (np.random.default_rng(3).standard_normal(shape) * 9).astype(np.float32)
    found = softmax(x, threads=2)
    if x.size:
        expected = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=(shape[1] / 16 + 7 + 32) * 2**-23, atol=1e-38)


def test_sums_are_in_lanes() -> None:
    """The greatest number's output is 1 / Σ, to some ulps of the exponentials."""
    x = (np.random.default_rng(4).standard_normal((5, 300)) * 4).astype(np.float32)
    x[:, 0] = x.max(axis=1) + 1
    pairs = np.stack([x, np.repeat(x[:, :1], 300, axis=1)], axis=-1).reshape(-1, 2)
    found = softmax(x)
    # Of a pair with the greatest number, e / (e + 1) and 1 / (e + 1) give e to some ulps.
    e = (softmax(pairs)[:, 0] / softmax(pairs)[:, 1]).reshape(x.shape)
    np.testing.assert_allclose(found[:, 0], 1 / in_lanes(e, np.add, 0), rtol=4e-7)


def test_nan_and_infinity() -> None:
    x = np.zeros((20, 20), np.float32)
    x[3, 3], x[5, 5], x[7, 7] = np.nan, np.inf, -np.inf
    found = softmax(x)
    strange = np.isnan(found).all(axis=1)
    assert np.flatnonzero(strange).tolist() == [3, 5] and np.isnan(found).sum() == 40
    assert found[7, 7] == 0
    assert np.isnan(softmax(np.full((2, 3), -np.inf, np.float32))).all()
