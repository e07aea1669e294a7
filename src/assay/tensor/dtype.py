"""Element types: plain numbers, and blocks of quantised weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DType:
    """How elements are stored: `block` elements take `size` bytes. Plain numbers have a block of 1."""

    name: str
    block: int
    size: int
    kind: str
    """"float", "int", "bool" or "quantised"."""

    @property
    def quantised(self) -> bool:
        return self.kind == "quantised"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same bytes. bfloat16 is uint16 there, and a quantised type is bytes."""
        return np.dtype(_NUMPY[self.name]) if self.name in _NUMPY else np.dtype(np.uint8)

    def nbytes(self, count: int) -> int:
        """Bytes of `count` elements, which must fill whole blocks."""
        if count % self.block:
            raise ValueError(f"{count} elements of {self.name} are not whole blocks of {self.block}")
        return count // self.block * self.size

    def __str__(self) -> str:
        return self.name


_NUMPY = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.uint16,
    "int64": np.int64, "int32": np.int32, "int16": np.int16, "int8": np.int8,
    "uint8": np.uint8, "bool": np.bool_,
}  # fmt: skip

F64 = DType("float64", 1, 8, "float")
F32 = DType("float32", 1, 4, "float")
F16 = DType("float16", 1, 2, "float")
BF16 = DType("bfloat16", 1, 2, "float")
I64 = DType("int64", 1, 8, "int")
I32 = DType("int32", 1, 4, "int")
I16 = DType("int16", 1, 2, "int")
I8 = DType("int8", 1, 1, "int")
U8 = DType("uint8", 1, 1, "int")
BOOL = DType("bool", 1, 1, "bool")
Q4_0 = DType("q4_0", 32, 18, "quantised")
Q4_1 = DType("q4_1", 32, 20, "quantised")
Q8_0 = DType("q8_0", 32, 34, "quantised")

ALL = (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL, Q4_0, Q4_1, Q8_0)
BY_NAME = {dtype.name: dtype for dtype in ALL}
