"""Arrays held against each other: bit for bit, or as an operator's exactness says."""

from __future__ import annotations

import numpy as np

from assay.ops.operator import Array, Exactness


def bits_differ(found: Array, expected: Array) -> str:
    """Where the bytes of two arrays differ, in words; empty when they are equal."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    left, right = (np.ascontiguousarray(array).view(np.uint8).reshape(-1) for array in (found, expected))
    if np.array_equal(left, right):
        return ""
    different = (left != right).reshape(found.size, -1).any(axis=1)
    return _first(found, expected, different, "the bits differ")


def differ(exactness: Exactness, found: Array, expected: Array, magnitude: Array | None = None) -> str:
    """How a kernel's output breaks the exactness that its operator declares; empty when it doesn't.

    `magnitude` has what an ulp of each element is taken of, by default |expected|.
    """
    if exactness.kind == "bitwise" or found.dtype.kind != "f":
        return bits_differ(found, expected)
    if found.shape != expected.shape:
        return f"shape {list(found.shape)} instead of {list(expected.shape)}"
    limits, ulp = np.finfo(found.dtype), exactness.limit({})
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = expected.astype(found.dtype)
        exact = found.astype(np.float64), np.asarray(expected, np.float64)
        size = np.abs(exact[1] if magnitude is None else np.asarray(magnitude, np.float64))
        size = np.clip(size, limits.smallest_normal, limits.max).astype(found.dtype)
        allowed = ulp * np.spacing(size).astype(np.float64)
        allowed = np.where(
            np.abs(exact[1]) < limits.smallest_normal, np.maximum(allowed, limits.smallest_normal), allowed
        )
        same = (np.isnan(found) & np.isnan(wanted)) | (np.isinf(wanted) & (found == wanted))
        near = np.isfinite(found) & np.isfinite(exact[1]) & (np.abs(exact[0] - exact[1]) <= allowed)
    bad = ~(same | near)
    if not bad.any():
        return ""
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.where(bad, np.abs(exact[0] - exact[1]) / allowed, 0), initial=0) * ulp
    return _first(found, expected, bad.reshape(-1), f"{worst:.3g} ulp instead of {ulp:g}")


def worst_ulp(found: Array, expected: Array, magnitude: Array | None = None) -> float:
    """The greatest error of finite elements in ulps, as `differ` counts them."""
    size = np.abs(np.asarray(expected if magnitude is None else magnitude, np.float64))
    normal = np.finfo(found.dtype).smallest_normal
    spacing = np.spacing(np.maximum(size, normal).astype(found.dtype)).astype(np.float64)
    finite = np.isfinite(found) & np.isfinite(expected) & (np.abs(expected) >= normal)
    error = np.abs(found.astype(np.float64) - expected)
    return float(np.max(np.where(finite, error / spacing, 0), initial=0))


def _first(found: Array, expected: Array, bad: np.ndarray, what: str) -> str:
    at = int(np.flatnonzero(bad)[0])
    index = tuple(map(int, np.unravel_index(at, found.shape)))
    return (
        f"{what}: {int(bad.sum())} of {found.size} elements, first at {index}: "
        f"{found.reshape(-1)[at]!r} instead of {expected.reshape(-1)[at]!r}"
    )
