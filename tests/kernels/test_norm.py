"""Against the formulas in float64. A bound's ulps: N / 16 + 8 roundings of a mean or of squares, halved by a
root, and some for what follows, of the greatest difference from the mean.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels.running import run

EPS = 1e-3
ULP = np.finfo(np.float32).eps


def numbers(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3 + 1).astype(np.float32)


def standardised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rows: the result, the means and the reciprocals of the deviations."""
    wide = x.astype(np.float64)
    mean, scale = wide.mean(-1), 1 / np.sqrt(wide.var(-1) + np.float64(np.float32(EPS)))
    return (wide - mean[:, None]) * scale[:, None], mean, scale


@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_gives_means_and_reciprocals_of_deviations(bias: bool) -> None:
    for n in (1, 16, 75):
        x, w, b = numbers(5, n), numbers(n), numbers(n + 1)[1:]
        y, means, scales = np.zeros_like(x), np.zeros(7, np.float32), np.zeros(7, np.float32)
        words = (x, w, b if bias else 0, y, means[1:], scales[1:], 5, n, 1, 1, EPS)
        run("norm.standardise", *words, threads=3)
        expected, mean, scale = standardised(x)
        bound = 40 * ULP * np.abs(expected).max()
        np.testing.assert_allclose(y, expected * w + (b if bias else 0), atol=4 * bound + 1e-6)
        np.testing.assert_allclose(means, [0, *mean, 0], atol=40 * ULP)
        np.testing.assert_allclose(scales, [0, *scale, 0], rtol=40 * ULP)
        if bias:
            same = np.zeros_like(x)
            run("norm.layer_norm", x, w, b, same, 5, n, EPS)
            np.testing.assert_array_equal(same, y)


@pytest.mark.parametrize(("channels", "groups", "inner"), [(6, 6, 33), (6, 2, 5), (4, 1, 1), (6, 3, 16)])
def test_instance_and_group_norm(channels: int, groups: int, inner: int) -> None:
    x, w, b = numbers(3, channels, inner), numbers(channels), numbers(channels + 1)[1:]
    n = channels // groups * inner
    expected = standardised(x.reshape(-1, n))[0].reshape(x.shape)
    plain, y = np.zeros_like(x), np.zeros_like(x)
    run("norm.standardise", x, 0, 0, plain, 0, 0, 3 * groups, n, groups, n, EPS, threads=2)
    np.testing.assert_allclose(plain, expected, atol=100 * ULP)
    run("norm.standardise", x, w, b, y, 0, 0, 3 * groups, n, groups, inner, EPS, threads=2)
    np.testing.assert_allclose(y, expected * w[:, None] + b[:, None], atol=1000 * ULP)
