"""Tables against the standard's evaluator, kernels against tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from assay.kernels.filters import Resize
from kernels.running import run

onnx = pytest.importorskip("onnx.reference.ops.op_resize")
PLACES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
SIZES = ((7, 2.0), (7, 0.6), (4, 1.7), (1, 3.0), (20, 0.11), (6, 0.5))


def weigh(x: np.ndarray, indices: np.ndarray, weights: np.ndarray, outside: float) -> np.ndarray:
    return np.where(indices[:, 0] < 0, outside, (weights * x[indices]).sum(-1))


def evaluated(
    x: np.ndarray, count: int, scale: float, roi: tuple[float, float], attributes: Resize
) -> np.ndarray:
    smooth = {"linear": onnx._linear_coeffs, "cubic": onnx._cubic_coeffs}
    if attributes.antialias:
        smooth = {"linear": onnx._linear_coeffs_antialias, "cubic": onnx._cubic_coeffs_antialias}
    nearest = {"nearest": lambda ratio, _: onnx._nearest_coeffs(ratio, attributes.nearest_mode)}
    return onnx._interpolate_1d_along_axis(
        x, 0, scale, count, (nearest | smooth)[attributes.mode], roi=list(roi), extrapolation_value=9.0,
        coordinate_transformation_mode=attributes.coordinate_transformation_mode,
        exclude_outside=attributes.exclude_outside,
    )  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_tables_are_the_standards(place: str) -> None:
    """To 1e-12: some roundings of float64, in another order."""
    smooth = [
        (mode, "floor", *flags) for mode, *flags in product(("linear", "cubic"), (False, True), (False, True))
    ]
    near = [
        ("nearest", rule, False, False)
        for rule in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ]
    for mode, rule, antialias, exclude in smooth + near:
        attributes = Resize(mode, place, rule, -0.75, antialias, exclude)
        for extent, scale in SIZES:
            for roi in (
                ((0.0, 1.0), (0.2, 0.7), (-0.3, 1.4)) if place == "tf_crop_and_resize" else ((0.0, 1.0),)
            ):
                x, count = np.random.default_rng(extent).standard_normal(extent), int(extent * scale)
                indices, weights = attributes.table(extent, count, scale, scale * extent, roi)
                expected = evaluated(x, count, scale, roi, attributes)
                np.testing.assert_allclose(weigh(x, indices, weights, 9.0), expected, atol=1e-12)


def test_one_output_lies_where_the_text_says() -> None:
    """The evaluator asks for the length before it was rounded down; the text for the one after."""
    for place, index in (("pytorch_half_pixel", 0), ("tf_crop_and_resize", 2)):
        indices, weights = Resize("linear", place).table(5, 1, 0.3, 1.5)
        assert indices.tolist() == [[index, index + 1]] and weights.tolist() == [[1, 0]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_weigh_one_axis(dtype: str) -> None:
    """Four products, each with half an ulp of the sum of their sizes, and of float32 that of the weights."""
    for attributes, width in ((Resize("cubic"), 9.0), (Resize("linear", "tf_crop_and_resize"), 9.0)):
        x = np.random.default_rng(2).standard_normal((3, 5, 18)).astype(dtype)
        indices, weights = attributes.table(5, 9, 1.8, width, (-0.2, 1.1))
        for axis in (1, 2):
            data = np.ascontiguousarray(np.swapaxes(x, 1, axis))
            inner = data.shape[2] if axis == 1 else 1
            outer = data.size // 5 // inner
            y = np.zeros((outer, 9, inner), dtype)
            table = weights.astype(dtype)
            words = (outer, 5, 9, weights.shape[1], inner, 9.0)
            run(f"resize.{dtype}", data, indices, table, y, *words, threads=2)
            rows = data.reshape(outer, 5, inner).astype(np.float64)
            expected = np.einsum("ct,octi->oci", weights, rows[:, indices])
            expected[:, indices[:, 0] < 0] = 9.0
            size = np.einsum("ct,octi->oci", np.abs(weights), np.abs(rows[:, indices]))
            assert (np.abs(y - expected) <= 4 * np.finfo(dtype).eps * size).all()
