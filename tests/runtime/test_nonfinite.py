"""`nonfinite="error"`: the first node that made infinity or NaN of finite values is named, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from assay.errors import PrecisionOverflow, RequestError
from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model

Array = NDArray[np.generic]


def model(nodes: Sequence[onnx.NodeProto], dtype: int = TensorProto.FLOAT, **weights: Array) -> Model:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", dtype, ["N"])],
        [value("y", dtype, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return Model(from_proto(made), threads=2)


def node(op: str, inputs: str, output: str, name: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=name, **attributes)


def blamed(found: Model, *values: float) -> str:
    with pytest.raises(PrecisionOverflow) as caught:
        found.run({"x": np.array(values, found_dtype(found))}, nonfinite="error")
    return str(caught.value.place)


def found_dtype(found: Model) -> str:
    return found.inputs[0].dtype


def fine(found: Model, *values: float) -> Array:
    inputs = {"x": np.array(values, found_dtype(found))}
    y = found.run(inputs, nonfinite="error")["y"]
    assert np.array_equal(y, found.run(inputs)["y"], equal_nan=True)
    return np.asarray(y)


def test_an_overflow_that_no_output_shows_is_found_inside_a_chain() -> None:
    """1 / (1 + e^x) is 0 for a large x: the output is finite, e^x isn't."""
    one = np.float32(1)
    found = model(
        [node("Exp", "x", "e", "grow"), node("Add", "e one", "d"), node("Div", "one d", "y")],
        one=np.array(one),
    )
    assert "grow" in blamed(found, 1, 2, 200)
    assert fine(found, 1, 2).shape == (2,)


@pytest.mark.parametrize(
    ("op", "value"), [("Log", 0.0), ("Sqrt", -1.0), ("Reciprocal", 0.0), ("Exp", 89.0), ("Log", -1.0)]
)
def test_every_way_to_leave_the_range(op: str, value: float) -> None:
    found = model([node("Neg", "x", "n"), node("Neg", "n", "m"), node(op, "m", "y", "bad")])
    assert "bad" in blamed(found, 1.0, value)
    assert fine(found, 1.0, 2.0).shape == (2,)


def test_what_comes_in_infinite_is_nobodys_fault() -> None:
    found = model([node("Mul", "x x", "s"), node("Sub", "s s", "y", "difference")])
    assert np.isnan(fine(found, np.inf)).all()
    assert '"s"' in blamed(found, 1e30)


def test_constants_do_not_count() -> None:
    """A mask of −∞, computed of weights, is meant."""
    found = model([node("Log", "zero", "mask"), node("Max", "mask x", "y")], zero=np.zeros((), np.float32))
    assert fine(found, 1, 2).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_other_floats(dtype: int) -> None:
    found = model([node("Mul", "x x", "s", "square"), node("Tanh", "s", "y")], dtype)
    if dtype == TensorProto.BFLOAT16:
        import ml_dtypes

        x = np.array([1e30], ml_dtypes.bfloat16)
        with pytest.raises(PrecisionOverflow, match="square"):
            found.run({"x": x}, nonfinite="error")
        return
    large = {TensorProto.FLOAT16: 1e3, TensorProto.DOUBLE: 1e200}[dtype]
    assert "square" in blamed(found, large)
    assert fine(found, 1.0).shape == (1,)


def test_a_branch_is_looked_into() -> None:
    value = helper.make_tensor_value_info
    grow = helper.make_graph(
        [node("Exp", "x", "e", "grow"), node("Neg", "e", "b")], "b", [], [value("b", 1, None)]
    )
    keep = helper.make_graph([node("Identity", "x", "b2")], "k", [], [value("b2", 1, None)])
    found = model(
        [
            node("ReduceMax", "x", "top", keepdims=0),
            node("Greater", "top zero", "c"),
            node("If", "c", "y", "choose", then_branch=grow, else_branch=keep),
        ],
        zero=np.zeros((), np.float32),
    )
    assert "grow" in blamed(found, 100.0)
    assert fine(found, -100.0).tolist() == [-100.0]


def test_a_loop_is_named_whole() -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", "c", "c2"), node("Mul", "v v", "w")],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", 1, None)],
        [value("c2", TensorProto.BOOL, []), value("w", 1, None)],
    )
    found = model(
        [node("Loop", "count go x", "y", "squares", body=body)],
        count=np.array(8), go=np.array(True),
    )  # fmt: skip
    assert "squares" in blamed(found, 10.0)
    assert fine(found, 1.0).tolist() == [1.0]


def test_another_way_is_refused() -> None:
    with pytest.raises(RequestError, match="allow or error"):
        model([node("Neg", "x", "y")]).run({"x": np.zeros(1, np.float32)}, nonfinite="warn")
