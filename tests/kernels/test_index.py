"""Against NumPy's own indexing, in loops that spell the standard's formulas."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from assay.kernels.cache import addresses
from assay.kernels.call import ENTRY, word
from assay.kernels.sizes import GREATEST, LEAST, PRODUCT, ROWS, SUM
from assay.kernels.strides import KINDS, along, of_elements, of_tuples
from kernels.running import run
from kernels.test_order import split

DTYPES = ("int8", "float16", "float32", "float64", "complex128")
HOW = {
    "add": (SUM, np.add),
    "mul": (PRODUCT, np.multiply),
    "max": (GREATEST, np.maximum),
    "min": (LEAST, np.minimum),
}


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 50).astype(dtype)


def indices(dtype: str, extent: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(extent).integers(-extent, extent, shape).astype(dtype)


def gathered(x: np.ndarray, places: np.ndarray, y: np.ndarray, words: tuple[int, ...]) -> np.ndarray:
    run("index.gather", x, places, y, int(places.dtype == np.int64), *words, threads=2)
    return y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", ["int32", "int64"])
def test_gather_takes_blocks_and_elements(dtype: str, wide: str) -> None:
    x = numbers(dtype, 4, 5, 6)
    for axis in range(3):
        places = indices(wide, x.shape[axis], 3, 2)
        expected = np.take(x, places, axis)
        words = along(x.itemsize, x.shape, axis, places.size)
        np.testing.assert_array_equal(gathered(x, places, np.zeros_like(expected), words), expected)
        places = indices(wide, x.shape[axis], 3, 4, 2)
        expected = np.zeros(places.shape, dtype)
        for at in np.ndindex(places.shape):
            expected[at] = x[(*at[:axis], places[at], *at[axis + 1 :])]
        words = of_elements(x.itemsize, x.shape, axis, places.shape)
        np.testing.assert_array_equal(gathered(x, places, np.zeros_like(expected), words), expected)


@pytest.mark.parametrize(("batch", "parts"), [(0, 1), (0, 3), (1, 2), (2, 1), (1, 3)])
def test_gather_takes_what_tuples_say(batch: int, parts: int) -> None:
    x = numbers("float32", 3, 2, 5, 4)
    extents = x.shape[batch : batch + parts]
    places = np.stack([indices("int64", extent, *x.shape[:batch], 7) for extent in extents], axis=-1)
    expected = np.zeros((*places.shape[:-1], *x.shape[batch + parts :]), np.float32)
    for at in np.ndindex(places.shape[:-1]):
        expected[at] = x[(*at[:batch], *places[at])]
    found = gathered(x, places, np.zeros_like(expected), of_tuples(4, x.shape, batch, places.shape))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("how", ["none", *HOW])
def test_scatter_goes_in_the_order_of_the_indices(dtype: str, how: str) -> None:
    x = np.abs(numbers(dtype, 4, 5, 6)) if dtype == "uint64" else numbers(dtype, 4, 5, 6)
    code, combine = HOW.get(how, (SUM, None))
    by_elements, by_tuples = (
        indices("int64", 5, 3, 9, 5),
        np.stack([indices("int64", n, 9) for n in (4, 5)], -1),
    )
    cases = (
        (by_elements, by_elements.shape, of_elements(x.itemsize, x.shape, 1, by_elements.shape)),
        (by_tuples, (9, 6), of_tuples(x.itemsize, x.shape, 0, by_tuples.shape)),
    )
    for places, shape, words in cases:
        updates = x.ravel()[np.random.default_rng(2).integers(0, x.size, shape)]
        expected, y = x.copy(), x.copy()
        for at in np.ndindex(places.shape[: len(places.shape) - (places is by_tuples)]):
            target = tuple(places[at]) if places is by_tuples else (at[0], places[at], at[2])
            with np.errstate(all="ignore"):
                expected[target] = combine(expected[target], updates[at]) if combine else updates[at]
        middle = (y.nbytes // words[0], int(how != "none"), code, KINDS[dtype])
        run("index.scatter", updates, places, y, 1, *words[:4], *middle, *words[4:], threads=3)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kernel", ["gather", "scatter"])
@pytest.mark.parametrize("bad", [5, -6, 2**40])
def test_an_index_out_of_range_is_a_fault_in_its_position(kernel: str, bad: int) -> None:
    x, places = numbers("float32", 5, 6), np.array([0, -5, bad, 4, bad])
    words = along(4, x.shape, 0, len(places))
    middle = (5, 0, SUM, KINDS["float32"]) if kernel == "scatter" else ()
    data, y = (
        (np.ones((5, 6), np.float32), x.copy()) if kernel == "scatter" else (x, np.ones((5, 6), np.float32))
    )
    counter = np.zeros(8, np.int64)
    arguments = [*map(word, (data, places, y)), 1, *words[:4], *middle, *words[4:]]
    table = np.array([counter.ctypes.data, *arguments], np.int64)
    name = f"index.{kernel}"
    ENTRY(addresses([name])[name])(ctypes.c_int64(table.ctypes.data), 0, 1)
    assert ROWS - counter[1] == 2


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("product", [False, True])
def test_cumulate_goes_in_order(dtype: str, product: bool) -> None:
    x = (np.random.default_rng(7).uniform(1, 3, (3, 9, 4)) * (1 if product else 7)).astype(dtype)
    accumulate, how, one = (np.multiply, PRODUCT, 1) if product else (np.add, SUM, 0)
    for axis in range(3):
        for exclusive in (False, True):
            for backwards in (False, True):
                ordered = np.flip(x, axis) if backwards else x
                expected = accumulate.accumulate(ordered, axis, dtype=x.dtype)
                if exclusive:
                    start = np.full_like(np.take(x, [0], axis), one)
                    expected = np.concatenate(
                        [start, np.take(expected, range(x.shape[axis] - 1), axis)], axis
                    )
                expected = np.flip(expected, axis) if backwards else expected
                y = np.zeros_like(x)
                words = (
                    np.array([one], dtype),
                    KINDS[dtype],
                    how,
                    *split(x, axis),
                    int(exclusive),
                    int(backwards),
                )
                run("index.cumulate", x, y, *words, threads=2)
                np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("time_first", [True, False])
def test_reverse_turns_the_head_of_each_sequence(time_first: bool) -> None:
    x = np.arange(4 * 5 * 3, dtype=np.int16).reshape(4, 5, 3)
    lengths = np.array([0, 4, 1, 3, 2] if time_first else [5, 0, 3, 1])
    expected = x.copy()
    for sequence, length in enumerate(lengths):
        rows = expected[:, sequence] if time_first else expected[sequence]
        rows[:length] = rows[:length][::-1].copy()
    y = np.zeros_like(x)
    run("index.reverse", x, lengths, y, 4, 5, 6, int(time_first), threads=3)
    np.testing.assert_array_equal(y, expected)
