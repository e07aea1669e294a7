"""Block functions against NumPy (ml_dtypes for the types that it lacks), on special values and odd counts."""

from __future__ import annotations

import random
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from assay.kernels.cache import addresses
from assay.kernels.call import ENTRY
from assay.simd.threads import DEFAULT_STATE

Array = NDArray[np.generic]
COUNTS = (1, 7, 16, 37, 256)
SEED = 7
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
SMALL = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "int4", "uint4")


def numpy_of(name: str) -> np.dtype[np.generic]:
    """The dtype whose values the bytes stand for."""
    own = {"float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2"}
    own |= {"float8e5m2fnuz": "float8_e5m2fnuz", "float4e2m1": "float4_e2m1fn"}
    own = own.get(name, name)
    return np.dtype(getattr(ml_dtypes, own, own))


def values(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Random values of a dtype, its special ones among them."""
    kind = numpy_of(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        limits = np.iinfo(kind)
        found = rng.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
        found[::2] = rng.integers(0, 7, len(found[::2]))
        found[: count // 4] = rng.choice(np.array([limits.min, limits.max, 0, 1], kind), count // 4)
        return found
    if dtype in SMALL:
        return rng.integers(0, 16 if dtype[-1] == "4" or "4e2" in dtype else 256, count, np.uint8).view(kind)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, 65504.0])
    found = rng.normal(0, 4, count)
    found[::3] = rng.choice(special, len(found[::3]))
    with np.errstate(all="ignore"):
        return found.astype(kind)


def run(name: str, result: np.dtype[np.generic], *operands: Array) -> Array:
    """The block function on arrays; it must leave what lies before and behind its result alone."""
    count = len(operands[0])
    memory = np.full(count + 32, 0x55, np.uint8).repeat(result.itemsize).view(result)
    before = memory.copy()
    places = np.array([memory[16:].ctypes.data, *(each.ctypes.data for each in operands)], np.int64)
    ENTRY(addresses([name])[name])(places.ctypes.data, count, 0)
    for part in (np.s_[:16], np.s_[16 + count :]):
        assert memory[part].tobytes() == before[part].tobytes(), f"{name} of {count} wrote elsewhere"
    return memory[16 : 16 + count]


def same(name: str, found: Array, expected: Array, *operands: Array) -> None:
    """The same values; any NaN is as good as another."""
    assert found.dtype == expected.dtype
    bits = f"u{found.dtype.itemsize}"
    nan = found != found
    assert np.array_equal(nan, expected != expected), name
    wrong = (found.view(bits) != expected.view(bits)) & ~nan
    assert not wrong.any(), (name, [each[wrong][:4] for each in (*operands, found, expected)])


def wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function in float32 for floats of 16 bits, rounded once."""

    def rounded(*operands: Array) -> Array:
        kind = operands[0].dtype
        if kind.itemsize == 2 and kind.kind in "fV":
            found = function(*(each.astype(np.float32) for each in operands))
            return found.astype(kind) if found.dtype == np.float32 else found
        return function(*operands)

    return rounded


def truncated(a: Array, b: Array) -> tuple[Array, Array]:
    """C's quotient and remainder, 0 for b = 0, by Python's integers."""
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = [0 if not y else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    rests = [0 if not y else x - q * y for (x, y), q in zip(pairs, quotients, strict=True)]
    mask = (1 << 8 * a.dtype.itemsize) - 1
    unsigned = f"u{a.dtype.itemsize}"
    made = [np.array([each & mask for each in every], unsigned) for every in (quotients, rests)]
    return made[0].view(a.dtype), made[1].view(a.dtype)


def shifted(a: Array, b: Array, left: bool) -> Array:
    bits = 8 * a.dtype.itemsize
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    made = [(0 if y >= bits else x << y) if left else x >> min(y, bits) for x, y in pairs]
    return np.array([each & ((1 << bits) - 1) for each in made], f"u{bits // 8}").view(a.dtype)


def greatest(a: Array, b: Array) -> Array:
    return np.where((a > b) | (a != a), a, b)


def least(a: Array, b: Array) -> Array:
    return np.where((a < b) | (a != a), a, b)


BOTH: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "min": least, "max": greatest,
    "abs": np.abs,
    "sign": lambda a: np.sign(a) + a.dtype.type(0), "relu": lambda a: np.where(a < 0, a.dtype.type(0), a),
    "equal": np.equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal,
}  # fmt: skip
REAL: dict[str, Callable[..., Array]] = {
    "div": np.divide, "sqrt": np.sqrt, "reciprocal": lambda a: a.dtype.type(1) / a, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "fmod": np.fmod, "isnan": np.isnan, "isinf": np.isinf,
    "isposinf": np.isposinf, "isneginf": np.isneginf,
}  # fmt: skip
WHOLE: dict[str, Callable[..., Array]] = {
    "div": lambda a, b: truncated(a, b)[0], "fmod": lambda a, b: truncated(a, b)[1],
    "mod": lambda a, b: np.where(b == 0, a.dtype.type(0), np.mod(a, np.where(b == 0, a.dtype.type(1), b))),
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
}  # fmt: skip
SHIFTS = {"shift_left": lambda a, b: shifted(a, b, True), "shift_right": lambda a, b: shifted(a, b, False)}
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}
ARITY = dict.fromkeys(("neg", "abs", "sign", "relu", "not", *list(REAL)[1:6], *list(REAL)[7:]), 1)
ALL = [
    *((op, dtype, wide(by)) for dtype in FLOATS for op, by in (BOTH | REAL).items()),
    *((op, dtype, by) for dtype in INTEGERS for op, by in (BOTH | WHOLE).items()),
    *((op, dtype, by) for dtype in INTEGERS if dtype[0] == "u" for op, by in SHIFTS.items()),
    *((op, "bool", by) for op, by in LOGIC.items()),
]
CHOSEN = random.Random(SEED).sample(ALL, 14)


@pytest.mark.parametrize(("op", "dtype", "by"), CHOSEN, ids=[f"{op}_{dtype}" for op, dtype, _ in CHOSEN])
def test_operations_are_numpys(op: str, dtype: str, by: Callable[..., Array]) -> None:
    rng = np.random.default_rng(SEED)
    for count in COUNTS:
        operands = [values(dtype, count, rng) for _ in range(ARITY.get(op, 2))]
        with np.errstate(all="ignore"):
            expected = by(*operands)
        same(f"{op}_{dtype}", run(f"blocks.{op}_{dtype}", expected.dtype, *operands), expected, *operands)


def test_where_chooses_bytes() -> None:
    rng = np.random.default_rng(SEED)
    for count in COUNTS:
        which = values("bool", count, rng)
        a, b = values("float16", count, rng).view(np.uint16), values("int16", count, rng).view(np.uint16)
        same("where", run("blocks.where_uint16", a.dtype, which, a, b), np.where(which, a, b))


def cast(source: Array, target: str) -> Array:
    """As the ONNX standard says, where it does; out of an integer's range the nearest, NaN 0."""
    kind = numpy_of(target)
    if target == "bool":
        return source != source.dtype.type(0)
    if "float" in source.dtype.name and "int" in target:
        limits = np.iinfo(kind if target in INTEGERS else np.int64)
        whole = [0 if x != x else float(x) for x in source.astype(np.float64)]
        within = [max(limits.min, min(limits.max, x)) for x in whole]
        found = [int(x) for x in within]
        return (
            np.array(found, kind)
            if target in INTEGERS
            else (np.array(found) & 15).astype(np.uint8).view(kind)
        )
    if target in SMALL and target.startswith("float"):
        greatest = float(ml_dtypes.finfo(kind).max)
        x = source.astype(np.float64)
        x = np.where(np.isnan(x) & (target == "float4e2m1"), -0.0, x)
        return np.clip(x, -greatest, greatest).astype(kind)
    return (source.astype(np.int64) if source.dtype.name.endswith("int4") else source).astype(kind)


PAIRS = [
    (source, target)
    for source in (*FLOATS, *INTEGERS, *SMALL, "bool")
    for target in (*FLOATS, *INTEGERS, *SMALL, "bool")
    if source != target
]
SOME = random.Random(SEED).sample(PAIRS, 12)


def test_a_cast_that_does_not_saturate_overflows() -> None:
    """To infinity where there is one, else to NaN."""
    x = np.array([0.3, 1e6, -1e6, np.inf, -np.inf, np.nan, -0.0, 1e-7], np.float32)
    for target in SMALL[:4]:
        with np.errstate(all="ignore"):
            expected = x.astype(numpy_of(target))
        found = run(f"blocks.cast_float32_{target}_unsaturated", expected.dtype, x)
        same(target, found, expected, x)


@pytest.mark.parametrize(("source", "target"), SOME)
def test_casts_are_the_standards(source: str, target: str) -> None:
    rng = np.random.default_rng(SEED)
    for count in COUNTS:
        x = values(source, count, rng)
        with np.errstate(all="ignore"):
            expected = cast(x, target)
        same(f"{source} to {target}", run(f"blocks.cast_{source}_{target}", expected.dtype, x), expected, x)


FLAGGED = (
    "log",
    "acosh",
    "atanh",
    "pow",
    "fmod",
    "div",
    "exp",
    "tanh",
    "gelu",
    "sigmoid",
    "reciprocal",
    "erf",
)


def flagged(name: str, *operands: Array) -> tuple[bool, Array]:
    """Whether the processor's flags are up after the block function, and its result."""
    where, result = np.zeros(1, np.int64), np.zeros(len(operands[0]), operands[0].dtype)
    places = np.array([each.ctypes.data for each in (result, *operands)], np.int64)
    states = [f"runtime.float_kernels:{each}" for each in ("set_state", "get_flags")]
    begin, block, end = (ENTRY(addresses([each])[each]) for each in (states[0], name, states[1]))
    words = [np.array([0, word], np.int64) for word in (DEFAULT_STATE, where.ctypes.data)]
    begin(words[0].ctypes.data, 0, 1)
    block(places.ctypes.data, len(result), 0)
    end(words[1].ctypes.data, 0, 1)
    return bool(where[0]), result


@pytest.mark.parametrize("op", FLAGGED)
def test_flags_tell_of_results_that_left_the_range(op: str) -> None:
    """Always, and not where none did: what a lane computes in vain, or one that isn't there, is quiet."""
    rng = np.random.default_rng(SEED)
    special = np.array([0, -0.0, 1, -1, 0.5, 2, -2, 3e38, -3e38, 1e-40, 88, -88, 100, -104, 710, -745])
    for turn in range(120):
        drawn = rng.choice(special, (2, 5)) if turn % 3 else rng.normal(0, 10.0 ** rng.uniform(-5, 6), (2, 5))
        operands = list(drawn.astype(np.float32))[: 2 if op in ("pow", "fmod", "div") else 1]
        raised, result = flagged(f"blocks.{op}_float32", *operands)
        assert raised == (not np.isfinite(result).all()), (operands, result)
