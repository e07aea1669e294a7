"""NaN that a graph makes are one NaN, whatever processor, kernel or pass made them."""

from __future__ import annotations

from collections.abc import Set

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from assay.compiler.stage import PASSES
from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model

Array = NDArray[np.generic]
CANONICAL = {
    TensorProto.FLOAT: (np.dtype(np.float32), 0x7FC00000, (0xFFC00001, 0x7F800001)),
    TensorProto.DOUBLE: (np.dtype(np.float64), 0x7FF8 << 48, (0xFFF8 << 48 | 5, 0x7FF0 << 48 | 1)),
    TensorProto.FLOAT16: (np.dtype(np.float16), 0x7E00, (0xFE01, 0x7C01)),
    TensorProto.BFLOAT16: (np.dtype(ml_dtypes.bfloat16), 0x7FC0, (0xFFC1, 0x7F81)),
}
"""By type: NumPy's, its NaN, and others."""
NODES = {
    "chain": [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Add", ["n", "x"], ["y"])],
    "moved": [helper.make_node("Transpose", ["x"], ["y"])],
    "summed": [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
    "viewed": [
        helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Flatten", ["a"], ["y"], axis=0),
    ],
    "product": [helper.make_node("MatMul", ["x", "x"], ["y"])],
    "host": [helper.make_node("Where", ["c", "x", "x"], ["w"]), helper.make_node("NonZero", ["w"], ["i"]),
             helper.make_node("GatherND", ["w", "t"], ["y"]), helper.make_node("Transpose", ["i"], ["t"])],
}  # fmt: skip
NODES["host"] = [NODES["host"][at] for at in (0, 1, 3, 2)]


def model(name: str, dtype: int, off: Set[str], constant: Array | None) -> Model:
    value = helper.make_tensor_value_info
    inputs = [value("c", TensorProto.BOOL, [1])] if name == "host" else []
    weights = (
        [] if constant is None else [onnx.helper.make_tensor("x", dtype, [2, 2], constant.tobytes(), True)]
    )
    inputs += [value("x", dtype, [2, 2])] if constant is None else []
    graph = helper.make_graph(NODES[name], "g", inputs, [value("y", dtype, None)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return Model(from_proto(made), threads=1, off=off)


@pytest.mark.parametrize("dtype", CANONICAL, ids=[str(dtype) for dtype, _, _ in CANONICAL.values()])
@pytest.mark.parametrize("name", NODES)
def test_every_output_has_the_same_nan(name: str, dtype: int) -> None:
    """With and without passes, and where the value is known ahead."""
    kind, canonical, (first, second) = CANONICAL[dtype]
    bits = np.dtype(f"u{kind.itemsize}")
    one = int(np.ones((), kind).view(bits))
    x = np.array([[first, one], [second, first]], bits).view(kind)
    more = {"c": np.array([True])} if name == "host" else {}
    for off in (frozenset[str](), frozenset(PASSES)):
        for constant in (None, x):
            found = model(name, dtype, off, constant).run(
                {**more} | ({} if constant is not None else {"x": x})
            )
            y = np.asarray(found["y"])
            nan = y.view(bits)[np.isnan(y)]
            assert nan.size and (nan == canonical).all(), (off, constant is None, [hex(each) for each in nan])


@pytest.mark.parametrize("name", ["product", "summed", "moved"])
def test_a_result_is_whole_before_its_nan_are_made_one(name: str) -> None:
    """The pass over it reads what a kernel wrote: without a barrier, threads lose each other's writes."""
    made = model(name, TensorProto.FLOAT, frozenset(), None)
    made.run({"x": np.zeros((2, 2), np.float32)})
    (ready,) = made.stages()
    *_, kernel, last = ready.plan.launches
    assert kernel.touched.writes == last.touched.reads == last.touched.writes
    assert last.barrier
