"""Bounds that grow with a dimension hold far beyond models' sizes, where roundings all go the same way."""

from __future__ import annotations

import numpy as np
import pytest

from assay.formats.quant import quantise
from assay.graph.graph import ValueType
from assay.ops import registry
from assay.ops.operator import Operator
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F32, I8, I32, Q4_1, Q8_0, DType
from every_op.case import Case
from every_op.compare import differ, worst_ulp
from every_op.harness import exactness, magnitudes, reference, run

THIRD = np.float32(1 / 3)


def norm_of_equal_numbers(n: int, value: float) -> Case:
    x = np.full((1, n), value, np.float32)
    return Case(
        (x, np.ones(n, np.float32)), (ValueType.of(F32, 1, n), ValueType.of(F32, n)), {"epsilon": 0.0}
    )


def sum_of_equal_products(k: int, value: float) -> Case:
    x, w = np.full((1, k), value, np.float32), np.full((3, k), THIRD, np.float32)
    return Case((x, w), (ValueType.of(F32, 1, k), ValueType.of(F32, 3, k)))


def sum_of_equal_blocks(k: int, value: float) -> Case:
    q, scale = np.full((1, k), 77, np.int8), np.full((1, k // 32), value, np.float32)
    return quantized(q, scale, quantise(np.full((3, k), 0.4567, np.float32), Q8_0), Q8_0)


def quantized(q: np.ndarray, scale: np.ndarray, w: np.ndarray, dtype: DType) -> Case:
    total = q.reshape(1, -1, 32).sum(-1).astype(np.int32)
    kinds = (I8, F32, I32)
    types = tuple(
        ValueType.of(kind, *array.shape) for kind, array in zip(kinds, (q, scale, total), strict=True)
    )
    return Case((q, scale, total, w.reshape(3, -1)), (*types, ValueType.of(dtype, 3, q.shape[1])))


def off(operator: Operator, case: Case, device: Cpu) -> float:
    """The greatest error in ulps; fails if it is over the operator's bound."""
    (found,), (expected,) = run(operator, case, device), reference(operator, case)
    (magnitude,) = magnitudes(operator, case)
    assert not (problem := differ(exactness(operator, case), found, expected, magnitude)), problem
    return worst_ulp(found, expected, magnitude)


@pytest.mark.parametrize(
    ("name", "size", "before"),
    [("rms_norm", 1 << 20, 32), ("linear", 1 << 22, 288), ("linear_quantized", 1 << 18, 100)],
)
def test_long_sums_keep_the_bound(name: str, size: int, before: float, devices: dict[int, Cpu]) -> None:
    """They leave the bounds of short ones behind, so the growth isn't idle."""
    make = {
        "rms_norm": norm_of_equal_numbers,
        "linear": sum_of_equal_products,
        "linear_quantized": sum_of_equal_blocks,
    }[name]
    errors = [off(registry.get(name), make(size, value), devices[2]) for value in (0.3, 1.1)]
    assert max(errors) > before


def test_a_weight_whose_parts_cancel_keeps_the_bound(devices: dict[int, Cpu]) -> None:
    """15 · scale + minimum is 0 exactly, but the kernel sums the two apart, each rounded."""
    operator, k = registry.get("linear_quantized"), 256
    blocks = np.full((3, k // 32, Q4_1.size), 0xFF, np.uint8)
    for place, value in ((0, 17 / 512), (2, -15 * 17 / 512)):
        blocks[:, :, place : place + 2] = np.array([value], np.float16).view(np.uint8)
    q, scale = np.full((1, k), 113, np.int8), np.full((1, k // 32), 0.777, np.float32)
    case = quantized(q, scale, blocks, Q4_1)
    (expected,) = reference(operator, case)
    (found,) = run(operator, case, devices[1])
    assert not expected.any() and found.any()
    off(operator, case, devices[1])
