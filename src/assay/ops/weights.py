"""Element types that weights may have, and random weights of each for tests."""

from __future__ import annotations

import numpy as np

from assay.ops.operator import Array
from assay.tensor.dtype import BF16, F16, F32, Q4_0, Q4_1, Q8_0, DType

BLOCK_TYPES = (Q4_0, Q4_1, Q8_0)
WEIGHT_TYPES = (F32, F16, BF16, *BLOCK_TYPES)


def random_weight(rng: np.random.Generator, dtype: DType, rows: int, columns: int) -> Array:
    """A weight of [rows, columns] as a file holds it: its elements, or bytes [rows, …] for blocks."""
    if dtype.quantised:
        blocks = rng.integers(0, 256, (rows, columns // dtype.block, dtype.size), dtype=np.uint8)
        for half in range(2 if dtype is Q4_1 else 1):
            numbers = rng.normal(0, 0.05, blocks.shape[:2]).astype(np.float16)
            blocks[:, :, 2 * half : 2 * half + 2] = numbers[:, :, None].view(np.uint8)
        return blocks.reshape(rows, -1)
    numbers32 = rng.normal(0, 0.5, (rows, columns)).astype(np.float32)
    if dtype is BF16:
        return (numbers32.view(np.uint32) >> 16).astype(np.uint16)
    return numbers32.astype(dtype.numpy)
