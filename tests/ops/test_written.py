"""Operators in the words of others, against NumPy and ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from assay.formats.onnx_file import from_proto
from assay.ops.standard.random import philox
from assay.runtime.model import Model, analyse


def proto(op: str, inputs: list[np.ndarray], opset: int = 22, outputs: int = 1, **attributes: Any) -> Any:
    names = [f"x{index}" for index in range(len(inputs))]
    kinds = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in inputs]
    values = [
        helper.make_tensor_value_info(*each)
        for each in zip(names, kinds, (x.shape for x in inputs), strict=True)
    ]
    made = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op, names, made, **attributes)
    ends = [helper.make_empty_tensor_value_info(name) for name in made]
    graph = helper.make_graph([node], "one", values, ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def ours(model: Any, *inputs: np.ndarray) -> np.ndarray:
    found = Model(from_proto(model), 1).run({f"x{index}": x for index, x in enumerate(inputs)})
    first: Any = next(iter(found.values()))
    return np.asarray(first)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("ij,jk,kl", [(2, 3), (3, 4), (4, 2)]),
        ("iij->j", [(3, 3, 2)]),
        ("...i,i...->...", [(2, 1, 3), (3, 1, 4)]), ("a,b->ba", [(2,), (3,)]), ("ab->", [(2, 3)]),
        ("abc,cd,ae->bde", [(2, 3, 4), (4, 2), (2, 3)]),
    ],
)  # fmt: skip
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(0)
    inputs = [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]  # sums are exact
    found = ours(proto("Einsum", inputs, equation=equation), *inputs)
    np.testing.assert_array_equal(found, np.einsum(equation, *inputs))


def test_regions_have_the_greatest_elements_of_their_bins() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 9, 7)).astype(np.float32)
    rois = np.array([[0, 1, 1, 9, 12], [1, 0, 0, 13, 17], [0, 6, 3, 6, 3]], np.float32)
    model = proto("MaxRoiPool", [x, rois], 21, pooled_shape=[2, 3], spatial_scale=0.5)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x0": x, "x1": rois})
    np.testing.assert_array_equal(ours(model, x, rois), want)


def test_philox_has_its_known_answer() -> None:
    assert philox(0, 0, 1)[0] == 0xE169C58D6627E8D5  # of the paper's own implementation


def test_random_numbers_are_the_seeds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = [ours(proto("RandomNormal", [], shape=[64, 64], seed=3.0)) for _ in range(2)]
        others = [ours(proto("RandomUniform", [], shape=[8])) for _ in range(2)]
    np.testing.assert_array_equal(same[0], same[1])
    assert not np.array_equal(others[0], others[1])
    assert abs(same[0].mean()) < 0.08 and abs(same[0].std() - 1) < 0.06  # 5 deviations of 4096 draws


def test_halves_of_functions_are_rounded_once() -> None:
    x = np.linspace(-4, 4, 33, dtype=np.float16)
    wide = x.astype(np.float32)
    want = (wide / (1 + np.exp(-wide))).astype(np.float16)
    np.testing.assert_allclose(ours(proto("Swish", [x], 24), x), want, rtol=2**-10)


def test_quantised_products_are_exact_and_rounded_once() -> None:
    # ONNX Runtime is no oracle here: pairs of products saturate at 16 bits on processors without VNNI.
    random = np.random.default_rng(2)
    a = random.integers(0, 256, (5, 64)).astype(np.uint8)
    b = random.integers(-128, 128, (64, 7)).astype(np.int8)
    sums = (a.astype(np.int64) - 120) @ (b.astype(np.int64) - 3)
    zeros = np.array(120, np.uint8), np.array(3, np.int8)
    inputs = [a, b, *zeros]
    np.testing.assert_array_equal(ours(proto("MatMulInteger", inputs), *inputs), sums)
    scales = [np.array(each, np.float32) for each in (0.02, 0.01, 0.4)]
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], np.array(90, np.uint8)]
    scale = np.float64(scales[0]) * np.float64(scales[1]) / np.float64(scales[2])
    want = np.clip(np.rint(sums * scale) + 90, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(ours(proto("QLinearMatMul", inputs), *inputs), want)


Sizes = list[int | str]
ONE_OR_FITTING: list[tuple[Sizes, Sizes, Sizes]] = [
    ([2, 3], ["s"], ["z"]), ([2, 3], ["s"], []), ([2, 3], [1], ["z"]), ([2, 3], [], ["z"]),
    ([2, 3], [3], ["z"]), (["n"], ["s"], ["z"]), ([], ["s"], []), (["a", "b"], ["s"], ["s"]),
]  # fmt: skip
NEITHER: list[tuple[Sizes, Sizes, Sizes]] = [
    ([2, 3], [1], [2]), ([2, 3], [], [2, 2]), ([2, 3], [4], ["z"]), ([2], [2], [2]), ([], [5], ["z"]),
]  # fmt: skip


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_and_zero_points_of_unknown_sizes_may_be_one_number(op: str) -> None:
    """What can't fit, along axis 1, is a violation nevertheless."""
    kinds = (2 if op[0] == "D" else 1, 1, 2)
    for good, cases in ((True, ONE_OR_FITTING), (False, NEITHER)):
        for shapes in cases:
            inputs = [
                helper.make_tensor_value_info(f"x{n}", *each)
                for n, each in enumerate(zip(kinds, shapes, strict=True))
            ]
            node = helper.make_node(op, ["x0", "x1", "x2"], ["y"])
            graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")])
            errors = analyse(from_proto(helper.make_model(graph))).errors
            assert (not errors) == good, (shapes, errors)
