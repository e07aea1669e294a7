"""What an operator is tried on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from assay.graph.graph import AttributeValue, ValueType
from assay.ops.operator import Array, Attributes
from assay.tensor.dtype import BF16, BY_NAME, DType


def plain(*arrays: Array) -> tuple[ValueType, ...]:
    """The arrays' own types."""
    return tuple(ValueType.of(BY_NAME[array.dtype.name], *array.shape) for array in arrays)


@dataclass(frozen=True)
class Case:
    """One test case: input arrays in the ports' order (raw bytes for quantised weights) and attributes."""

    inputs: tuple[Array, ...]
    types: tuple[ValueType, ...]
    attributes: Attributes = field(default_factory=dict)
    name: str = ""

    @staticmethod
    def of(*inputs: Array, name: str, **attributes: AttributeValue) -> Case:
        """A case of inputs that are plain numbers."""
        return Case(inputs, plain(*inputs), attributes, name)


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
