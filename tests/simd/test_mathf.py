"""simd.mathf against mpmath. Bounds are absolute, or in units of the exact result's last place (ulp)."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from assay.kernels.call import call

Floats = NDArray[np.float64]
RNG = np.random.default_rng(20)


def apply(function: str, x: NDArray[np.generic]) -> NDArray[np.generic]:
    y = np.empty_like(x)
    call(f"simd.mathf_kernels:{function}", x, y, x.size)
    return y


def ulps(x: Floats, y: Floats, exact: Callable[[mpmath.mpf], mpmath.mpf], digits: int, least: int) -> float:
    """The greatest distance of y from exact(x), in ulp of a format of `digits` bits and least exponent."""
    worst = mpmath.mpf(0)
    with mpmath.workprec(200):
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            value = exact(mpmath.mpf(a))
            exponent = max(mpmath.frexp(value)[1] - 1, least) if value else least
            distance = abs(mpmath.mpf(b) - value) / mpmath.ldexp(1, exponent - digits + 1)
            worst = max(worst, distance) if distance == distance else mpmath.inf
    return float(worst)


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


def test_exp64_is_within_one_ulp() -> None:
    parts = RNG.uniform(-708, 709.7, 3000), RNG.uniform(-1, 1, 3000), RNG.uniform(-745, -708, 1000)
    x = np.concatenate(parts)
    assert ulps(x, apply("exps64", x), mpmath.exp, 53, -1022) <= 1
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 710.0, -746.0])
    np.testing.assert_array_equal(apply("exps64", edges), [1, 1, np.inf, 0, np.nan, np.inf, 0])


def test_log64_is_within_one_ulp() -> None:
    near_one = 1 + RNG.uniform(-1e-3, 1e-3, 1000)
    x = np.concatenate([np.exp(RNG.uniform(-708, 709, 3000)), RNG.uniform(0.4, 2.5, 3000), near_one])
    assert ulps(x, apply("logs64", x), mpmath.log, 53, -1022) <= 1
    assert apply("logs64", np.ones(1))[0] == 0


def test_sincos_is_within_its_bound() -> None:
    """5e-16 is 2^-54 from the reduction and an ulp or two of values up to 1; rotary tables ask for 1e-15."""
    quarter_turns = np.arange(-2000, 2000) * (np.pi / 4)
    whole = RNG.integers(-(2**20), 2**20, 2000).astype(float)
    # Multiples of π/2 up to the end of the range, where almost everything cancels.
    far = np.round(RNG.uniform(-667_000, 667_000, 2000)) * (np.pi / 2)
    x = np.concatenate([quarter_turns, whole, far, RNG.uniform(-(2**20), 2**20, 4000), [2.0**20, -(2.0**20)]])
    sine, cosine = np.empty_like(x), np.empty_like(x)
    call("simd.mathf_kernels:sincoses", x, sine, cosine, x.size)
    with mpmath.workprec(200):
        for y, exact in ((sine, mpmath.sin), (cosine, mpmath.cos)):
            errors = [abs(float(exact(a) - b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
            assert max(errors) <= 5e-16


def test_sincos_at_the_edges() -> None:
    x = np.array([0.0, -0.0, 1e-310, np.nan, np.inf, -np.inf, 2.0**20 + 1])
    sine, cosine = np.empty_like(x), np.empty_like(x)
    call("simd.mathf_kernels:sincoses", x, sine, cosine, x.size)
    np.testing.assert_array_equal(sine[:3], [0, 0, 1e-310])
    np.testing.assert_array_equal(cosine[:3], 1)
    assert np.isnan(sine[3:]).all() and np.isnan(cosine[3:]).all()


@pytest.mark.parametrize("bits", [1, 32, 63, 64])
def test_multiply_is_exact(bits: int) -> None:
    a, b = RNG.integers(0, 2**bits - 1, (2, 500), dtype=np.uint64, endpoint=True)
    product = np.empty((500, 2), np.uint64)
    call("simd.mathf_kernels:products", a, b, product, 500)
    expected = [divmod(int(p) * int(q), 2**64)[::-1] for p, q in zip(a, b, strict=True)]
    assert product.tolist() == [list(parts) for parts in expected]
