"""The comparer that all operators are held with, tested itself."""

from __future__ import annotations

import numpy as np
import pytest

from assay.ops.operator import BITWISE, Exactness
from every_op.compare import bits_differ, differ

ULP4 = Exactness("ulp", 4.0, "a reason")
NAN = np.array([np.nan], np.float32)
ONE = np.array([1.0], np.float32)
STEP = np.spacing(np.float32(1))


def test_bitwise_means_bitwise() -> None:
    assert not bits_differ(ONE, ONE.copy())
    assert "first at (0,)" in bits_differ(ONE, np.nextafter(ONE, np.float32(2)))
    assert bits_differ(np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert not bits_differ(NAN, NAN.copy())
    other = NAN.copy()
    other.view(np.uint32)[0] ^= 1
    assert bits_differ(NAN, other)
    assert "instead of" in bits_differ(ONE, ONE.astype(np.float64))
    assert "instead of" in bits_differ(ONE, ONE.reshape(1, 1))
    assert not bits_differ(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    assert bits_differ(
        np.array([[1, 2], [3, 4]], np.float32), np.array([[1, 2], [5, 4]], np.float32)
    ).startswith("the bits differ: 1 of 4 elements, first at (1, 0)")
    assert differ(BITWISE, ONE, ONE.astype(np.float64)), "a reference of another dtype is not bitwise"


@pytest.mark.parametrize("kind", ["ulp", "seeded"])
def test_nan_on_one_side_is_a_failure(kind: str) -> None:
    exactness = Exactness(kind, 1e30, "anything goes")
    assert differ(exactness, NAN, ONE.astype(np.float64))
    assert differ(exactness, ONE, NAN.astype(np.float64))
    assert not differ(exactness, NAN, NAN.astype(np.float64))


def test_infinities_must_be_equal() -> None:
    infinity = np.array([np.inf], np.float32)
    for found, expected in ((infinity, -infinity), (infinity, ONE), (ONE, infinity), (infinity, NAN)):
        assert differ(Exactness("ulp", 1e30), found, expected.astype(np.float64))
    assert not differ(ULP4, infinity, np.array([np.inf], np.float64))
    assert not differ(ULP4, infinity, np.array([1e300], np.float64)), (
        "what overflows the dtype is infinite in it"
    )


def test_the_bound_is_exact() -> None:
    expected = np.array([1.0])
    assert not differ(ULP4, ONE + 4 * STEP, expected)
    assert "5 ulp instead of 4" in differ(ULP4, ONE + 5 * STEP, expected)
    assert not differ(ULP4, ONE - 4 * STEP, expected), "ulps below 1 are halves of those above"
    assert differ(ULP4, ONE - np.float32(4.5) * STEP, expected)
    # Half a unit may hide in the reference, which is float64.
    assert differ(ULP4, ONE + 4 * STEP, np.array([1.0 - STEP / 2]))


def test_the_magnitude_replaces_the_result() -> None:
    zero = np.array([0.0])
    assert differ(ULP4, 4 * STEP * ONE, zero)
    assert not differ(ULP4, 4 * STEP * ONE, zero, np.array([1.0]))
    assert differ(ULP4, 5 * STEP * ONE, zero, np.array([1.0]))


def test_a_subnormal_result_may_be_lost_and_a_normal_one_may_not() -> None:
    normal = float(np.finfo(np.float32).smallest_normal)
    assert not differ(ULP4, np.array([0.0], np.float32), np.array([normal * 0.99]))
    assert differ(ULP4, np.array([0.0], np.float32), np.array([normal]))
    assert differ(ULP4, np.array([-1.1 * normal], np.float32), np.array([-1e-45]))


def test_shapes_and_integers() -> None:
    assert differ(ULP4, np.ones((2, 1), np.float32), np.ones(2)).startswith("shape")
    assert differ(Exactness("seeded", 4), np.array([3], np.int32), np.array([4], np.int32))
    assert differ(Exactness("seeded", 4), np.array([3], np.int32), np.array([3], np.int64)), (
        "integers are bitwise, dtype included"
    )
