"""Dequantisation and quantisation against the `gguf` package, bit for bit."""

from __future__ import annotations

import itertools

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.rounding import error, numbers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from assay.errors import PrecisionOverflow
from assay.formats.quant import dequantise, quantise
from assay.formats.rounding import QUANTISERS
from assay.tensor import dtype as dtypes
from assay.tensor.dtype import (
    BF16,
    F16,
    F32,
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_0,
    Q5_1,
    Q5_K,
    Q6_K,
    Q8_0,
    QUANTISED,
    DType,
)

KINDS = {
    F32: gguf.GGMLQuantizationType.F32,
    F16: gguf.GGMLQuantizationType.F16,
    BF16: gguf.GGMLQuantizationType.BF16,
    **{dtype: gguf.GGMLQuantizationType[dtype.name.upper()] for dtype in QUANTISED},
}
ROUNDED = (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0)
"""Types that the `gguf` package rounds to."""
SEARCHED = tuple(dtype for dtype in QUANTISERS if dtype not in ROUNDED)
HALVES = {
    "zero": 0x0000,
    "negative zero": 0x8000,
    "least denormal": 0x0001,
    "greatest denormal": 0x03FF,
    "least normal": 0x0400,
    "greatest": 0x7BFF,
    "infinity": 0x7C00,
    "minus infinity": 0xFC00,
    "quiet NaN": 0x7E01,
    "signalling NaN": 0x7D01,
    "one": 0x3C00,
}


def by_gguf(raw: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    rows = raw.reshape(-1, dtype.nbytes(shape[-1]))
    with np.errstate(all="ignore"):
        values: npt.NDArray[np.float32] = gguf.quants.dequantize(rows, KINDS[dtype]).reshape(shape)
    return values


def assert_same_bits(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> None:
    assert ours.dtype == theirs.dtype == np.float32 and ours.shape == theirs.shape
    assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


def test_the_comparer_sees_a_nan() -> None:
    one, nan = np.ones(1, np.float32), np.full(1, np.nan, np.float32)
    assert_same_bits(nan, nan)
    for pair in ((one, nan), (nan, one), (nan, -nan), (0 * one, -0.0 * one)):
        with pytest.raises(AssertionError):
            assert_same_bits(*pair)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_any_bytes_dequantise_as_by_gguf(dtype: DType, data: st.DataObject) -> None:
    rows, blocks = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    shape = (rows, blocks * dtype.block)
    raw = data.draw(hnp.arrays(np.uint8, rows * blocks * dtype.size))
    assert_same_bits(dequantise(raw, dtype, shape), by_gguf(raw, dtype, shape))


@pytest.mark.parametrize("scale", HALVES)
@pytest.mark.parametrize("dtype", QUANTISED, ids=str)
def test_special_scales(dtype: DType, scale: str) -> None:
    """Every value of a byte of integers under each special scale, and each minimum where the type has one."""
    first, *others = (name for name, kind in dtype.fields if kind == "<f2")
    for rest in itertools.product(HALVES.values(), repeat=len(others)):
        blocks = np.empty(256, dtype.layout)
        blocks.view(np.uint8).reshape(256, -1)[:] = np.add.outer(np.arange(256), np.arange(dtype.size)) % 256
        for name, half in zip((first, *others), (HALVES[scale], *rest), strict=True):
            blocks[name] = np.uint16(half).view(np.float16)
        raw, shape = blocks.view(np.uint8), (256, dtype.block)
        assert_same_bits(dequantise(raw, dtype, shape), by_gguf(raw, dtype, shape))


def test_every_half() -> None:
    raw = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    for dtype in (F16, BF16):
        assert_same_bits(dequantise(raw, dtype, (1 << 16,)), by_gguf(raw, dtype, (1 << 16,)))


def test_by_hand() -> None:
    """Element i is in the low half of byte i, element i + 16 in its high half."""
    steps = np.arange(16, dtype=np.uint8) | 15 << 4
    head = np.array([0.5, -2], np.float16).view(np.uint8)
    values = dequantise(np.concatenate([head, steps]), Q4_1, (32,))
    assert values.tolist() == [i / 2 - 2 for i in range(16)] + [5.5] * 16
    values = dequantise(np.concatenate([head[:2], steps]), Q4_0, (32,))
    assert values.tolist() == [(i - 8) / 2 for i in range(16)] + [3.5] * 16
    values = dequantise(
        np.concatenate([head[:2], np.arange(-16, 16).astype(np.int8).view(np.uint8)]), Q8_0, (32,)
    )
    assert values.tolist() == [i / 2 for i in range(-16, 16)]


def test_by_hand_of_five_bits() -> None:
    """Bit i of `high` is the fifth bit of element i."""
    head = np.array([0.5, -2], np.float16).view(np.uint8)
    high = np.array([1 << 3 | 1 << 31], "<u4").view(np.uint8)
    steps = np.arange(16, dtype=np.uint8) | 15 << 4
    q = [i + 16 * (i == 3) for i in range(16)] + [15] * 15 + [31]
    values = dequantise(np.concatenate([head, high, steps]), Q5_1, (32,))
    assert values.tolist() == [i / 2 - 2 for i in q]
    values = dequantise(np.concatenate([head[:2], high, steps]), Q5_0, (32,))
    assert values.tolist() == [(i - 16) / 2 for i in q]


@pytest.mark.parametrize("dtype", [Q4_K, Q5_K], ids=str)
def test_by_hand_of_six_bit_scales(dtype: DType) -> None:
    """Scale and minimum of each group are its own, all six bits of them."""
    (block,) = np.zeros(1, dtype.layout)
    block["d"], block["dmin"] = 0.5, 0.25
    block["q"] = 0x21  # element i < 32 of each 64 is 1, the others are 2
    for group in range(8):
        for bit in range(6):
            scales, value = np.zeros(12, np.uint8), 1 << bit
            for first in (0, 4):  # scales, minimums
                scales[:] = 0
                if group < 4:
                    scales[first + group] = value
                else:
                    scales[8 + group - 4] = (value & 15) << first
                    scales[first + group - 4] = value >> 4 << 6
                block["scales"] = scales
                found = dequantise(block.reshape(1).view(np.uint8), dtype, (256,)).reshape(8, 32)
                wanted = 0.5 * value * (1 + group % 2) if first == 0 else -0.25 * value
                assert (found[group] == wanted).all()
                assert not np.delete(found, group, axis=0).any()


def test_by_hand_of_six_bits() -> None:
    """Each element's bits, of one element after another."""
    for i in range(256):
        (block,) = np.zeros(1, Q6_K.layout)
        block["d"], block["scales"] = 0.5, np.arange(-8, 8)
        part, inside = divmod(i, 128)
        block["q"][64 * part + inside % 64] = 9 << 4 * (inside // 64)
        block["high"][32 * part + inside % 32] = 2 << 2 * (inside // 32)
        wanted = 0.5 * np.repeat(np.arange(-8, 8), 16) * np.where(np.arange(256) == i, 9 + 32 - 32, -32)
        assert np.array_equal(dequantise(block.reshape(1).view(np.uint8), Q6_K, (256,)), wanted)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_large_and_odd_shapes(dtype: DType) -> None:
    """More blocks than one chunk of the loop, in rank 1 to 4, from bytes that aren't contiguous."""
    rng = np.random.default_rng(0)
    unit = max(dtype.block, 32)
    for shape in ((4097 * unit,), (129, unit * 33), (3, 5, 2 * unit), (2, 1, 3, unit)):
        raw = rng.integers(0, 256, dtype.nbytes(int(np.prod(shape))), np.uint8)
        apart = np.repeat(raw, 2)[::2]
        assert_same_bits(dequantise(apart, dtype, shape), by_gguf(raw, dtype, shape))


FLOATS = st.floats(-1e4, 1e4, width=32, allow_subnormal=False)


@pytest.mark.parametrize("dtype", ROUNDED, ids=str)
@settings(max_examples=60)
@given(x=hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.sampled_from([32, 96])), elements=FLOATS))
@example(x=np.zeros((1, 32), np.float32))
@example(x=-np.zeros((1, 32), np.float32))
@example(x=np.full((1, 32), -3, np.float32))
@example(x=np.tile(np.array([127, -127, 0.5, -0.5, 1.5, -1.5, 63.5, -63.5], np.float32), (2, 4)))
@example(x=np.linspace(-8, 7, 32, dtype=np.float32)[None])
@example(x=np.full((1, 32), 3e38, np.float32))
def test_quantise_as_gguf(dtype: DType, x: npt.NDArray[np.float32]) -> None:
    with np.errstate(all="ignore"):
        theirs = gguf.quants.quantize(x, KINDS[dtype]).view(np.uint8).reshape(-1)
    assert np.array_equal(quantise(x, dtype), theirs)


@pytest.mark.parametrize("dtype", ROUNDED, ids=str)
def test_quantise_normal_values(dtype: DType) -> None:
    """More blocks than one chunk of the loop; and the way back errs by no more than the type's step.

    Half a step of the block, plus what rounding the float16 scale and minimum adds; q4_0 has 15 steps for 16
    values, so the end away from its peak may be a whole step off, and q5_0 31 for 32.
    """
    x = np.random.default_rng(1).normal(size=(300, 32 * 16)).astype(np.float32)
    raw = quantise(x, dtype)
    assert np.array_equal(raw, gguf.quants.quantize(x, KINDS[dtype]).view(np.uint8).reshape(-1))
    blocks = np.abs(x.reshape(-1, 32))
    peak = blocks.max(axis=1, keepdims=True)
    bound = {
        F32: 0 * peak,
        F16: blocks * 2**-11 + 2**-25,
        BF16: blocks * 2**-8,
        Q8_0: peak * (0.5 / 127 + 2**-10),
        Q4_0: peak * (1 / 8 + 2**-10),
        Q4_1: peak * (1 / 15 + 2**-9),
        Q5_0: peak * (1 / 16 + 2**-10),
        Q5_1: peak * (1 / 31 + 2**-9),
    }[dtype]
    error = np.abs(dequantise(raw, dtype, x.shape).reshape(-1, 32) - x.reshape(-1, 32))
    assert (error <= bound).all()


BY_GGML = {
    ("iq4_nl", "normal"): 5.8443e-03, ("iq4_nl", "heavy"): 1.7297e-02,
    ("q2_k", "normal"): 8.7580e-02, ("q2_k", "heavy"): 2.3681e-01,
    ("q3_k", "normal"): 2.2922e-02, ("q3_k", "heavy"): 6.7307e-02,
    ("q4_k", "normal"): 5.1017e-03, ("q4_k", "heavy"): 1.5079e-02,
    ("q5_k", "normal"): 1.3153e-03, ("q5_k", "heavy"): 3.8596e-03,
    ("q6_k", "normal"): 3.1565e-04, ("q6_k", "heavy"): 1.0469e-03,
    ("iq4_xs", "normal"): 5.9262e-03, ("iq4_xs", "heavy"): 1.7652e-02,
}  # fmt: skip
"""Mean square errors of ggml's rounding of the same numbers: what `python -m benchmarks.rounding` printed
with llama-cpp-python 0.3.36.
"""


@pytest.mark.parametrize(("name", "kind"), BY_GGML)
def test_searched_scales_err_no_more_than_ggmls(name: str, kind: str) -> None:
    """By more than 0.5 %: it searches by other weights, which may suit some numbers better."""
    x, dtype = numbers(kind), dtypes.BY_NAME[name]
    assert error(quantise(x, dtype), dtype, x) <= 1.005 * BY_GGML[name, kind]


def test_all_searched_types_have_a_figure() -> None:
    assert {name for name, _ in BY_GGML} == {dtype.name for dtype in SEARCHED}


@pytest.mark.parametrize("dtype", SEARCHED, ids=str)
@settings(max_examples=20)
@given(x=hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.just(256)), elements=FLOATS))
@example(x=np.zeros((1, 256), np.float32))
@example(x=-np.zeros((1, 256), np.float32))
@example(x=np.full((1, 256), -3, np.float32))
@example(x=np.full((1, 256), 2.5, np.float32))
@example(x=np.linspace(1, 7, 256, dtype=np.float32)[None])
def test_searched_scales(dtype: DType, x: npt.NDArray[np.float32]) -> None:
    """Nothing errs by more than its group's range, a block's bytes don't depend on its neighbours, and zeros
    stay zeros.
    """
    raw = quantise(x, dtype)
    blocks = raw.reshape(len(x), -1)
    assert all(np.array_equal(quantise(x[i : i + 1], dtype), blocks[i]) for i in range(len(x)))
    values = dequantise(raw, dtype, x.shape)
    span = np.ptp(np.concatenate([x, np.zeros((len(x), 1), np.float32)], axis=1), axis=1, keepdims=True)
    assert (np.abs(values - x) <= span + 2**-20).all()
    assert not values[(x == 0).all(axis=1)].any()


@pytest.mark.parametrize("dtype", SEARCHED, ids=str)
def test_a_scale_beyond_float16_becomes_infinity(dtype: DType) -> None:
    blocks = quantise(np.full((1, 256), 3e38, np.float32), dtype).view(dtype.layout)
    assert np.isinf(blocks["d"]).all()


def test_bfloat16_of_every_kind() -> None:
    """Ties go to even, NaNs stay NaN, the largest floats round to infinity."""
    special = np.array([0, 1 << 31, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0x7FFFFFFF, 0x7F7FFFFF,
                        0x3F808000, 0x3F818000, 0x3F808001], np.uint32)  # fmt: skip
    bits = np.concatenate([special, np.random.default_rng(2).integers(0, 1 << 32, 4084, np.uint32)])
    ours = quantise(bits.view(np.float32), BF16).view(np.uint16)
    theirs = (
        gguf.quants.quantize(bits.view(np.float32).reshape(-1, 32), KINDS[BF16]).view(np.uint16).reshape(-1)
    )
    assert np.array_equal(ours, theirs)
    assert ours[9] == 0x3F80 and ours[10] == 0x3F82 and ours[11] == 0x3F81 and ours[8] == 0x7F80


@pytest.mark.parametrize("dtype", QUANTISERS, ids=str)
def test_blocks_hold_finite_values_only(dtype: DType) -> None:
    for bad in (np.inf, -np.inf, np.nan):
        x = np.ones((3, 2 * dtype.block), np.float32)
        x[1, dtype.block + 8] = bad
        with pytest.raises(PrecisionOverflow) as caught:
            quantise(x, dtype)
        assert (caught.value.place, caught.value.want) == ("block 3", "finite values")


def test_misuse() -> None:
    for raw, dtype, shape in (
        (np.zeros(17, np.uint8), Q4_0, (32,)),
        (np.zeros(18, np.uint8), Q4_0, (2, 16)),
        (np.zeros(18, np.uint8), Q4_0, (33,)),
        (np.zeros(144, np.uint8), Q4_K, (2, 128)),
        (np.zeros(8, np.uint8), dtypes.I64, (1,)),
    ):
        with pytest.raises(ValueError):
            dequantise(raw, dtype, shape)
    with pytest.raises(ValueError):
        quantise(np.zeros((2, 16), np.float32), Q8_0)
    for dtype in dtypes.RARE:
        with pytest.raises(ValueError) as caught:
            quantise(np.zeros((2, dtype.block), np.float32), dtype)
        assert str(caught.value) == f"numbers can't be rounded to {dtype}"
    with pytest.raises(ValueError):
        quantise(np.zeros(32, np.float64), Q8_0)
    with pytest.raises(ValueError):
        quantise(np.zeros(32, np.float32), dtypes.I8)
