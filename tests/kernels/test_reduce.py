from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.kernels.sizes import REDUCE_SCRATCH
from assay.kernels.strides import REDUCTIONS, reduction
from kernels.running import run, scratch

REFERENCES = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
    "l1": lambda x, axis: np.abs(x).sum(axis=axis),
    "sum_square": lambda x, axis: np.square(x).sum(axis=axis),
}  # fmt: skip
NEUTRAL = {"prod": 1.0, "max": -np.inf, "min": np.inf}
INTEGERS = ("int64", "uint64")
SHAPES = [(7,), (3, 40), (2, 33, 70), (5, 1, 19, 6), (2, 3, 2, 3, 2), (1, 1), (1, 200, 2)]


def reduced(name: str, x: np.ndarray, axes: Collection[int], threads: int = 1) -> np.ndarray:
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
    y, integer = np.full(kept, 7, x.dtype), x.dtype.kind in "iu"
    neutral = NEUTRAL.get(name, 0.0)
    if integer:
        limits = np.iinfo(x.dtype)
        neutral = {"prod": 1, "max": limits.min, "min": limits.max}.get(name, 0)
    words = reduction(name, x.dtype.name, x.shape, axes, neutral)
    kernel = "integer" if integer else x.dtype.name
    run(f"reduce.{kernel}", x, y, *scratch(REDUCE_SCRATCH, threads), *words, threads=threads)
    return y


def in_lanes(x: np.ndarray, combine: np.ufunc, start: float) -> np.ndarray:
    """Rule 10 of the numerics, in the array's own type, over the last axis."""
    lanes = np.full((*x.shape[:-1], 16), start, x.dtype)
    for i in range(x.shape[-1]):
        lanes[..., i % 16] = combine(lanes[..., i % 16], x[..., i])
    for half in (8, 4, 2, 1):
        lanes = combine(lanes[..., :half], lanes[..., half : 2 * half])
    return lanes[..., 0]


@settings(max_examples=40)
@given(shape=st.sampled_from(SHAPES), data=st.data(), dtype=st.sampled_from(["float32", "float64"]))
def test_sums_are_in_lanes_and_one_tree_whatever_the_layout(shape, data, dtype) -> None:
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    threads = data.draw(st.integers(1, 3))
    x = np.random.default_rng(len(axes)).standard_normal(shape).astype(dtype) * 1000
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    moved = x.transpose(*kept, *sorted(axes)).reshape(*(shape[axis] for axis in kept), -1)
    for name, combine, start in (("sum", np.add, 0), ("prod", np.multiply, 1), ("max", np.maximum, -np.inf)):
        values, rows = (x, moved) if name != "prod" else (x / 999, moved / 999)
        np.testing.assert_array_equal(reduced(name, values, axes, threads), in_lanes(rows, combine, start))


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_are_near_the_reference(name: str, dtype: str) -> None:
    """An error of each step is below half an ulp of a sum of sizes: 12 in a lane of 180, 4 in the tree; of a
    product, one for each of 180.
    """
    x = np.random.default_rng(5).uniform(-1.4, -0.7, (4, 3, 60)).astype(dtype)
    for axes in ((1, 2), (0,)):
        expected = REFERENCES[name](x.astype(np.longdouble), axis=axes)
        ulps = 90 if name == "prod" else 9
        np.testing.assert_allclose(reduced(name, x, axes), expected, rtol=ulps * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 256, (3, 5, 7, 8, 8), np.uint8).view(dtype)[..., 0]
    for name in set(REFERENCES) - {"mean"}:
        for axes in ((0,), (1, 3), (0, 1, 2, 3), ()):
            expected = np.asarray(REFERENCES[name](x, axis=axes)).astype(dtype)
            np.testing.assert_array_equal(reduced(name, x, axes, 2), expected)


def test_means_of_integers_are_rounded_towards_zero() -> None:
    assert reduced("mean", np.array([[-7, 0], [7, 0], [-1, 0]]), [1]).tolist() == [-3, 3, 0]
    most = np.array([2**64 - 1, 2**64 - 2**63 - 3], np.uint64)  # the sum wraps to 2**63 − 4
    assert reduced("mean", most, [0]) == 2**62 - 2
    assert reduced("mean", np.array([2**64 - 2, 0], np.uint64), [0]) == 2**63 - 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(20, 3), (3, 20)])
def test_nan_stays(dtype: str, shape: tuple[int, int]) -> None:
    axis = shape.index(20)
    for place in (0, 5, 16, 19):
        x = np.arange(60, dtype=dtype).reshape(shape)
        x[(place, 1) if axis == 0 else (1, place)] = np.nan
        for name in ("max", "min", "sum"):
            assert np.isnan(reduced(name, x, [axis])).tolist() == [False, True, False], name


@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGERS])
def test_of_nothing_comes_the_neutral_element(dtype: str) -> None:
    for shape, axes in (((0, 3), [0]), ((3, 0), [1])):
        x = np.zeros(shape, dtype)
        floats = dtype.startswith("float")
        limits = (-np.inf, np.inf) if floats else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        for name, value in (("max", limits[0]), ("min", limits[1]), ("sum", 0), ("prod", 1)):
            assert reduced(name, x, axes).tolist() == [value] * 3
        if floats:
            assert np.isnan(reduced("mean", x, axes)).all()
    assert reduced("sum", np.zeros((0, 3), dtype), [1]).shape == (0,)
