"""How hostile ONNX models are named and made: see hostile_onnx.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.helper import make_graph, make_tensor, make_tensor_value_info

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Inputs = Mapping[str, Any]
Made = tuple[Callable[[Path], None], Inputs]
CASES: dict[str, Made] = {}
X = {"x": np.ones(4, np.float32)}
BIG = 1 << 40


def value(name: str, shape: Sequence[int | str] | None = (4,), kind: int = FLOAT) -> onnx.ValueInfoProto:
    return make_tensor_value_info(name, kind, shape)


def ints(name: str, values: Sequence[int]) -> TensorProto:
    return make_tensor(name, INT64, [len(values)], values)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (value("x"),),
    opset: int = 21,
    kind: int = FLOAT,
) -> onnx.ModelProto:
    """A model from `x` to `y`."""
    graph = make_graph(nodes, "g", inputs, [value("y", None, kind)], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)


def case(name: str, model: onnx.ModelProto | bytes, inputs: Inputs = X) -> None:
    data = model if isinstance(model, bytes) else model.SerializeToString()

    def write(path: Path) -> None:
        path.write_bytes(data)

    CASES[name] = write, inputs
