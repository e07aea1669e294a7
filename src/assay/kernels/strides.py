"""How axes become the words of kernels: what lies side by side is one axis. Needs no compiler.

Kernels on single elements know int64, uint64, float32 and float64. Others are converted before (float16 and
bfloat16 to float32, integers and bool to int64, all exactly) and after, which rounds once or wraps around.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from math import prod

import numpy as np

from assay.kernels.sizes import (
    FLOAT32,
    FLOAT64,
    GREATEST,
    INT64,
    LEAST,
    PRODUCT,
    SUM,
    SUM_SIZES,
    SUM_SQUARES,
    UINT64,
)

KINDS = {"int64": INT64, "uint64": UINT64, "float32": FLOAT32, "float64": FLOAT64}
"""The types of kernels on single elements, as their words say them."""
REDUCTIONS = {
    "sum": SUM,
    "mean": SUM,
    "sum_square": SUM_SQUARES,
    "l1": SUM_SIZES,
    "prod": PRODUCT,
    "max": GREATEST,
    "min": LEAST,
}
"""Of logarithms and roots of sums, what is summed is one of these."""


def reduction(
    name: str, dtype: str, shape: Sequence[int], axes: Collection[int], neutral: float | int
) -> tuple[int, ...]:
    """The words of kernels/reduce.py behind its scratch, for contiguous elements; `axes` are not negative,
    `neutral` is what no elements give. The kernel is `reduce.float32`, `.float64`, or of integers `.integer`.
    """
    how, size = REDUCTIONS[name], np.dtype(dtype).itemsize
    runs: list[tuple[bool, int, int]] = []
    for axis, stride in reversed(list(enumerate(_contiguous(shape, size)))):
        # An axis of 1 is neither; one that goes on where the axis behind it ends is one with it.
        inside = axis in axes
        if shape[axis] != 1 and runs and runs[-1][0] == inside:
            runs[-1] = (inside, runs[-1][1] * shape[axis], runs[-1][2])
        elif shape[axis] != 1:
            runs.append((inside, shape[axis], stride))
    kept, reduced = ([run[1:] for run in reversed(runs) if run[0] == inside] for inside in (False, True))
    columns = kept.pop()[0] if runs and not runs[0][0] else 1
    length, apart = reduced.pop() if reduced else (1, size)
    total = length * prod(count for count, _ in reduced)
    if how == SUM_SIZES and dtype == "uint64":
        how = SUM
    start = int(np.array([neutral], dtype).view(f"i{size}")[0])
    head = KINDS[dtype], how, start, total if name == "mean" else 1, prod(count for count, _ in kept), columns
    return *head, length, apart, total, len(kept), len(reduced), *chain(*kept, *reduced)


def _contiguous(shape: Sequence[int], size: int) -> list[int]:
    """Strides of elements of so many bytes."""
    return [size * prod(shape[axis + 1 :]) for axis in range(len(shape))]


def along(size: int, shape: Sequence[int], axis: int, count: int) -> tuple[int, ...]:
    """The words of kernels/index.py from `block` on: `count` indices along an axis (Gather)."""
    outer, extent, block = prod(shape[:axis]), shape[axis], size * prod(shape[axis + 1 :])
    return block, outer * count, 2, 1, outer, extent * block, 0, count, 0, 1, extent, block


def of_elements(size: int, shape: Sequence[int], axis: int, indices: Sequence[int]) -> tuple[int, ...]:
    """The same where each element has an index along an axis (GatherElements, ScatterElements)."""
    paces = _contiguous(shape, size)
    steps = [0 if each == axis else pace for each, pace in enumerate(paces)]
    axes = chain(*zip(indices, steps, _contiguous(indices, 1), strict=True))
    return size, prod(indices), len(indices), 1, *axes, shape[axis], paces[axis]


def of_tuples(size: int, shape: Sequence[int], batch: int, indices: Sequence[int]) -> tuple[int, ...]:
    """The same where the indices' last axis says a place in the axes behind `batch` (GatherND, ScatterND)."""
    parts, paces = indices[-1], _contiguous(shape, size)
    block = size * prod(shape[batch + parts :])
    outer, count = prod(shape[:batch]), prod(indices[batch:-1])
    axes = outer, size * prod(shape[batch:]), count * parts, count, 0, parts
    pairs = list(zip(shape, paces, strict=True))[batch : batch + parts]
    return block, outer * count, 2, parts, *axes, *chain(*pairs)
