"""Element types that weights may have, and random weights of each for tests."""

from __future__ import annotations

import numpy as np

from assay.ops.operator import Array
from assay.tensor.dtype import BF16, F16, F32, QUANTISED, DType

BLOCK_TYPES = QUANTISED
WEIGHT_TYPES = (F32, F16, BF16, *BLOCK_TYPES)


def random_weight(rng: np.random.Generator, dtype: DType, rows: int, columns: int) -> Array:
    """A weight of [rows, columns] as a file holds it: its elements, or bytes [rows, …] for blocks, of any
    integers and small scales.
    """
    if dtype.quantised:
        blocks = rng.integers(0, 256, (rows, columns // dtype.block, dtype.size), dtype=np.uint8)
        record = blocks.view(dtype.layout)[..., 0]
        for name, kind in dtype.fields:
            if kind == "<f2":
                record[name] = rng.normal(0, 0.05, record.shape)
        return blocks.reshape(rows, -1)
    numbers32 = rng.normal(0, 0.5, (rows, columns)).astype(np.float32)
    if dtype is BF16:
        return (numbers32.view(np.uint32) >> 16).astype(np.uint16)
    return numbers32.astype(dtype.numpy)
