"""The numbers of the GGUF format: versions, value types, tensor types, and the limits a header is held to.

Source: the GGUF specification and the type table of ggml (public headers). Versions 2 and 3 have one layout.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from assay.tensor.dtype import BF16, F16, F32, QUANTISED, RARE

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
LEAST_ALIGNMENT = 8
MAX_RANK = 4

HEADER_LIMIT = 24 << 20
"""Bytes of metadata and tensor table. The largest vocabularies (200,000 tokens, 450,000 merges) take 12 M."""
ENTRY_LIMIT = 1 << 14
"""Keys, tensors and nested arrays, each: what bounds the objects that short entries make."""
STRING_LIMIT = 1_000_000
"""Strings inside arrays, all arrays together. A string takes up to nine times its bytes in memory."""
NAME_LIMIT = (1 << 16) - 1
DEPTH_LIMIT = 4

MetadataValue: TypeAlias = "str | int | float | bool | tuple[MetadataValue, ...] | npt.NDArray[np.generic]"
"""Arrays of numbers are read-only NumPy arrays; arrays of strings and of arrays are tuples."""

FILE_TYPES = {
    "float32": 0, "float16": 1, "bfloat16": 32,
    "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 11, "q4_k": 14, "q5_k": 16,
    "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30,
}  # fmt: skip
"""The numbers of `general.file_type`: what most matrices of a file are."""

BOOL = 7
STRING = 8
ARRAY = 9
SCALARS: dict[int, np.dtype[np.generic]] = {
    code: np.dtype(name)
    for code, name in {
        0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", BOOL: "?",
        10: "<u8", 11: "<i8", 12: "<f8",
    }.items()
}  # fmt: skip
SCALAR_CODES = {dtype: code for code, dtype in SCALARS.items()}

GGML_NAMES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 4: "Q4_2", 5: "Q4_3", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0",
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16",
    31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 34: "TQ1_0", 35: "TQ2_0",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}  # fmt: skip
_DTYPES = {
    "F32": F32,
    "F16": F16,
    "BF16": BF16,
    **{dtype.name.upper(): dtype for dtype in (*QUANTISED, *RARE)},
}
SUPPORTED = {code: _DTYPES[name] for code, name in GGML_NAMES.items() if name in _DTYPES}
TENSOR_CODES = {dtype: code for code, dtype in SUPPORTED.items()}
SUPPORTED_NAMES = ", ".join(GGML_NAMES[code] for code in SUPPORTED)
