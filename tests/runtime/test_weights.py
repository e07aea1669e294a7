"""Weights on their way from a source to a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.formats.quant import dequantise
from assay.graph.graph import Graph
from assay.ops.builder import Builder
from assay.runtime import weights
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F32, WEIGHT_TYPES, DType
from every_op.case import random_weight

every_type = pytest.mark.parametrize("dtype", WEIGHT_TYPES, ids=str)
ROWS, COLUMNS = 40, 256
NORM = np.ones(COLUMNS, np.float32).view(np.uint8)


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(2, capacity=1 << 26)
    yield made
    made.close()


class Bytes:
    """Weights as bytes: so many zeros where a number stands."""

    def __init__(self, weights: dict[str, int | NDArray[np.uint8]]) -> None:
        self.weights = weights

    def raw(self, name: str) -> NDArray[np.uint8]:
        found = self.weights[name]
        return np.zeros(found, np.uint8) if isinstance(found, int) else found


def normed_map(dtype: DType) -> Graph:
    """A norm, whose weight stays in rows, and a map, whose weight goes into panels."""
    b = Builder("g")
    x = b.input("x", F32, "T", COLUMNS)
    x = b.op("rms_norm", x, b.weight("n", F32, COLUMNS), epsilon=1e-5)
    b.output(b.op("linear", x, b.weight("w", dtype, ROWS, COLUMNS)))
    return b.graph()


@every_type
def test_bytes_that_do_not_fill_a_weight_reach_no_kernel(
    device: Cpu, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel reads as many as the shape says, whatever there is."""
    graph = normed_map(dtype)
    right: dict[str, int | NDArray[np.uint8]] = {name: graph.types[name].nbytes({}) for name in graph.weights}
    assert weights.load(graph, Bytes(right), device).keys() == {"n", "w"}
    monkeypatch.setattr(device, "call_all", lambda *call: pytest.fail(f"a kernel ran: {call}"))
    for name in right:
        size = graph.types[name].nbytes({})
        for wrong in (0, size - 1, size + 1, size // 2, 2 * size):
            with pytest.raises(FormatError) as caught:
                weights.load(graph, Bytes(right | {name: wrong}), device)
            assert caught.value.place == f"tensor {name}"
            assert caught.value.want == f"{size} bytes for {graph.types[name]}"
            assert caught.value.got == f"{wrong} bytes"


def numbers(dtype: DType) -> list[tuple[int, int, int]]:
    """A row's floats, scales and minimums or the weights themselves: (byte, bytes, bits of the exponent)."""
    if not dtype.quantised:
        exponent = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}[dtype.name]
        return [(dtype.size * column, dtype.size, exponent) for column in range(COLUMNS)]
    fields = dtype.layout.fields
    assert fields is not None
    places = [offset for kind, offset, *_ in fields.values() if kind == np.float16]
    blocks = range(0, COLUMNS // dtype.block * dtype.size, dtype.size)
    return [(block + place, 2, 0x7C00) for block in blocks for place in places]


def row_bytes(dtype: DType) -> int:
    return dtype.nbytes(COLUMNS)


@every_type
@pytest.mark.parametrize("sign", [0, 1])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(device: Cpu, dtype: DType, sign: int) -> None:
    """Infinities and NaNs of every kind, in each of a row's floats, in first, last and other rows."""
    graph = normed_map(dtype)
    rng = np.random.default_rng(3)
    good = random_weight(rng, dtype, ROWS, COLUMNS).reshape(-1).view(np.uint8)
    for number, (at, size, exponent) in enumerate(numbers(dtype)):
        row = (0, ROWS - 1, 31, 32, 17)[number % 5]
        mantissa = (0, 1, (exponent & -exponent) >> 1)[number % 3]  # infinity, signalling and quiet NaN
        bits = sign << (8 * size - 1) | exponent | mantissa
        raw = good.copy()
        raw[row * row_bytes(dtype) + at :][:size] = list(bits.to_bytes(size, "little"))
        with pytest.raises(FormatError) as caught:
            weights.load(graph, Bytes({"n": NORM, "w": raw}), device)
        assert (caught.value.rule, caught.value.place) == ("a weight that isn't finite", "tensor w")
        values = dequantise(raw, dtype, (ROWS, COLUMNS))
        first = np.argwhere(~np.isfinite(values))[0].tolist()
        assert first[0] == row
        assert caught.value.got == f"{values[tuple(first)]} at {first}"


@every_type
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_is_finite_is_taken(device: Cpu, dtype: DType, seed: int) -> None:
    """All bits at random but for exponents: the greatest, the least, zeros of both signs."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (ROWS, row_bytes(dtype)), dtype=np.uint8)
    for at, size, exponent in numbers(dtype):
        kind = np.dtype(f"<u{size}")
        floats = np.ascontiguousarray(raw[:, at : at + size]).view(kind)[:, 0]
        floats[floats & exponent == exponent] ^= exponent & -exponent
        floats[::3] = kind.type(exponent - (exponent & -exponent)) | (floats[::3] & ~kind.type(exponent))
        raw[:, at : at + size] = floats[:, None].view(np.uint8)
    assert np.isfinite(dequantise(raw.reshape(-1), dtype, (ROWS, COLUMNS))).all()
    weights.load(normed_map(dtype), Bytes({"n": NORM, "w": raw.reshape(-1)}), device)


def test_a_norm_that_is_not_finite(device: Cpu) -> None:
    for value in (np.nan, np.inf, -np.inf):
        bad = np.ones(COLUMNS, np.float32)
        bad[7] = value
        source = Bytes({"n": bad.view(np.uint8), "w": 4 * ROWS * COLUMNS})
        with pytest.raises(FormatError) as caught:
            weights.load(normed_map(F32), source, device)
        assert (caught.value.place, caught.value.got) == ("tensor n", f"{value} at [7]")


def test_of_many_bad_rows_the_first_is_told(device: Cpu) -> None:
    bad = np.zeros((ROWS, COLUMNS), np.float32)
    bad[5:, 3:] = np.nan
    with pytest.raises(FormatError) as caught:
        weights.load(normed_map(F32), Bytes({"n": NORM, "w": bad.reshape(-1).view(np.uint8)}), device)
    assert caught.value.got == "nan at [5, 3]"
