"""Element types that NumPy itself lacks, as arrays of the package ml_dtypes: what callers give and get.

Inside, the same bytes are unsigned integers (`DType.numpy`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.tensor.dtype import BF16, BY_NAME, NARROW, DType

Array = NDArray[np.generic]
_NAMES = {
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu", "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn", "float4e2m1": "float4_e2m1fn",
}  # fmt: skip


@cache
def numpy_of(dtype: DType) -> np.dtype[np.generic]:
    """The dtype of arrays outside."""
    if dtype is not BF16 and dtype.kind != "narrow":
        return dtype.numpy
    import ml_dtypes

    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _NAMES.get(dtype.name, dtype.name)))
    return found


@cache
def dtype_of(numpy: np.dtype[np.generic]) -> DType | None:
    """The element type of an array's dtype, or None where tensors can't hold it."""
    if numpy.kind in "OUS":
        return BY_NAME["string"]
    if not numpy.isnative:
        return None
    if numpy.name in BY_NAME:
        return BY_NAME[numpy.name]
    return next((dtype for dtype in (BF16, *NARROW) if numpy_of(dtype) == numpy), None)


def outside(array: Array, dtype: DType) -> Array:
    """The same memory as callers know it."""
    return array if array.dtype == object else array.view(numpy_of(dtype))


def inside(array: Array, dtype: DType) -> Array:
    """The same memory as kernels know it."""
    return array if array.dtype == object else array.view(dtype.numpy)


def canonical(array: Array) -> Array:
    """The same with all NaN the quiet one without sign and payload: processors make different ones."""
    if array.dtype.kind in "biuOUSM":
        return array
    with np.errstate(invalid="ignore"):
        found = np.isnan(array)
    return np.where(found, np.array(np.nan, array.dtype), array) if found.any() else array
