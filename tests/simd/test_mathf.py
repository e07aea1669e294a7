"""simd.mathf against mpmath. Bounds are in units of the exact result's last place (ulp)."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from assay.kernels.cache import addresses
from assay.kernels.call import call
from simd.ulp import ulps

RNG = np.random.default_rng(20)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """All kernels at once: each builder has to import Numba."""
    names = ("exps", "tanhs", "tails", "erfs", "sigmoids", "products")
    addresses(f"simd.mathf_kernels:{name}" for name in names)


def apply(function: str, x: NDArray[np.generic]) -> NDArray[np.generic]:
    y = np.empty_like(x)
    call(f"simd.mathf_kernels:{function}", x, y, x.size)
    return y


def test_ulps_sees_what_is_wrong() -> None:
    one = np.array([0.0])
    assert ulps(one, np.array([1.0]), mpmath.exp, 24, -126) == 0
    assert ulps(one, np.array([1 + 2.0**-22]), mpmath.exp, 24, -126) == 2
    assert ulps(one, np.array([np.nan]), mpmath.exp, 24, -126) == np.inf
    assert ulps(np.array([-104.0]), np.array([2.0**-149]), mpmath.exp, 24, -126) > 0.5


def test_exp_is_within_one_ulp() -> None:
    """All 2^31 floats were gone through once: 0.91 ulp at most, at 5.1997986. Here that one, and a sample."""
    # n · ln 2 and the midpoints between, where the reduced argument changes sign and is greatest.
    borders = np.arange(-300, 257) * (np.log(2) / 2)
    near = (borders[:, None] + RNG.uniform(-1e-4, 1e-4, (len(borders), 8))).ravel()
    tiny = 2.0 ** RNG.uniform(-149, -1, 2000) * RNG.choice([-1, 1], 2000)
    x = np.concatenate([[5.1997986], borders, near, tiny, RNG.uniform(-87.3, 88.72, 10000)])
    x = x[(x > -103.9) & (x < 88.72)].astype(np.float32)
    x = np.resize(x, -(-x.size // 16) * 16)
    assert ulps(x.astype(float), apply("exps", x).astype(float), mpmath.exp, 24, -126) <= 1


def test_tanh_is_within_two_ulp() -> None:
    near = RNG.uniform(0.6, 0.65, 2000)
    tiny = 2.0 ** RNG.uniform(-149, 0, 4000)
    x = np.concatenate([near, tiny, RNG.uniform(0, 9.5, 8000), [0.0, 30.0, np.inf]])
    x = np.resize(x * RNG.choice([-1, 1], x.size), -(-x.size // 16) * 16).astype(np.float32)
    assert ulps(x.astype(float), apply("tanhs", x).astype(float), mpmath.tanh, 24, -126) <= 2
    edges = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 20, -20, 1e38], np.float32), 16)
    found = apply("tanhs", edges)[:8]
    assert np.array_equal(found, [0, -0.0, 1, -1, np.nan, 1, -1, 1], equal_nan=True)
    assert np.signbit(found[1])


def test_the_normal_tail_is_within_its_bound() -> None:
    x = np.concatenate([RNG.uniform(-5.2, 5.2, 12000), RNG.uniform(1.40, 1.43, 2000), [0.0]])
    x = np.resize(x, -(-x.size // 16) * 16).astype(np.float32)
    with mpmath.workprec(100):
        exact = [mpmath.erfc(abs(mpmath.mpf(float(each))) / mpmath.sqrt(2)) for each in x]
        errors = [
            abs(float(found) - true) / true for found, true in zip(apply("tails", x), exact, strict=True)
        ]
    assert max(errors) <= 2e-6
    edges = np.resize(np.array([np.nan, np.inf, -np.inf, 1e30], np.float32), 16)
    found = apply("tails", edges)[:4]
    assert np.isnan(found[0]) and (found[1:] < 1e-8).all() and (found[1:] >= 0).all()


def test_exp_keeps_subnormals() -> None:
    x = np.linspace(-103.9, -87.4, 4096, dtype=np.float32)
    y = apply("exps", x)
    assert (y > 0).all() and (y[:3000] < np.finfo(np.float32).tiny).all()
    assert ulps(x.astype(float), y.astype(float), mpmath.exp, 24, -126) <= 1


def test_exp_at_the_edges() -> None:
    infinite = [np.inf, 88.7229, 89, 1e30]
    x = np.array([0, -0.0, -104, -150, -1e30, -np.inf, *infinite, np.nan], np.float32)
    y = apply("exps", np.resize(x, 16))[: x.size]
    np.testing.assert_array_equal(y, [1, 1, 0, 0, 0, 0, *[np.inf] * 4, np.nan])


def test_erf_and_sigmoid_are_within_two_ulp() -> None:
    sizes = np.concatenate(
        [2.0 ** RNG.uniform(-149, 2, 3000), RNG.uniform(0.9, 1.1, 1000), RNG.uniform(0, 4.3, 4000)]
    )
    x = np.resize(sizes * RNG.choice([-1, 1], sizes.size), 8000).astype(np.float32)
    assert ulps(x.astype(float), apply("erfs", x).astype(float), mpmath.erf, 24, -126) <= 2
    # At −88.73 e**−|x| is subnormal: its last place counts.
    x = np.concatenate([x, RNG.uniform(-103, 18, 4000), RNG.uniform(-9, 1, 8000)]).astype(np.float32)
    logistic = apply("sigmoids", x).astype(float)
    assert ulps(x.astype(float), logistic, lambda a: 1 / (1 + mpmath.exp(-a)), 24, -126) <= 2
    edges = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38], np.float32), 16)
    found = apply("erfs", edges)[:7]
    np.testing.assert_array_equal(found, [0, 0, 1, -1, np.nan, 1, -1])
    assert np.signbit(found[1])
    np.testing.assert_array_equal(apply("sigmoids", edges)[:7], [0.5, 0.5, 1, 0, np.nan, 1, 0])


@pytest.mark.parametrize("bits", [1, 32, 63, 64])
def test_multiply_is_exact(bits: int) -> None:
    a, b = RNG.integers(0, 2**bits - 1, (2, 500), dtype=np.uint64, endpoint=True)
    product = np.empty((500, 2), np.uint64)
    call("simd.mathf_kernels:products", a, b, product, 500)
    expected = [divmod(int(p) * int(q), 2**64)[::-1] for p, q in zip(a, b, strict=True)]
    assert product.tolist() == [list(parts) for parts in expected]
