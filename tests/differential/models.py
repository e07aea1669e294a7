"""Models of drawn nodes, and both engines on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model
from differential.draw import Array, Bound, Call, Draw, Known, eps


@dataclass
class Drawn:
    """A model with inputs for it."""

    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    bound: Bound


@dataclass
class Builder:
    """A graph in the making."""

    draw: Draw
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    made: int = 0
    """Nodes so far, those in bodies too."""
    none_is_open: bool = True
    """Whether a symbol may stand for 0: what fits for that size alone is refused."""

    def value(self, given: Array | Known | None, name: str = "") -> str:
        """The name of a new input or constant."""
        if given is None:
            return ""
        array = given.array if isinstance(given, Known) else given
        name = name or f"x{len(self.inputs) + len(self.constants)}"
        if self.draw.chance(0.75 if isinstance(given, Known) else 0.1):
            self.constants.append(
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
            return name
        open_sizes = self.draw.chance(0.3)
        sizes: list[int | str] = list(array.shape)
        for at, size in enumerate(array.shape):
            if open_sizes and self.draw.chance(0.5) and (size or self.none_is_open):
                sizes[at] = f"{name}_{at}"
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, number, sizes))
        self.feeds[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def node(self, op: str, call: Call, names: Sequence[str] | None = None) -> list[str]:
        """Adds a node; its outputs' names."""
        names = [self.value(each) for each in call.inputs] if names is None else list(names)
        outputs = [f"y{self.made}_{at}" for at in range(call.outputs)]
        self.made += 1
        self.nodes.append(helper.make_node(op, names, outputs, **call.attributes))
        return outputs

    def model(self, outputs: Sequence[str], opset: int) -> onnx.ModelProto:
        found = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "drawn", self.inputs, found, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def single(draw: Draw, call: Call) -> Drawn:
    """The model of one node, in its version of the standard."""
    builder = Builder(draw)
    for name, array in call.around.items():
        builder.value(array, name)
    outputs = builder.node(draw.op, call)
    return Drawn(builder.model(outputs, call.opset or draw.version), builder.feeds, call.bound)


def theirs(drawn: Drawn) -> list[Array] | str:
    """What ONNX Runtime makes of it, or why it doesn't."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(drawn.model.SerializeToString(), options)
        return list(session.run(None, dict(drawn.feeds)))
    except Exception as error:
        return str(error)


def ours(drawn: Drawn) -> list[Array]:
    """What Assay makes of it. Raises what it raises."""
    with Model(from_proto(drawn.model), 1) as model:
        found = model.run(drawn.feeds)
        return [found[spec.name] for spec in model.outputs]


def differ(got: Array, want: Array, bound: Bound) -> str:
    """How an output differs from the other's; empty when it doesn't."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        bad = got != want
    else:
        with np.errstate(all="ignore"):
            left, right = got.astype(np.float64), want.astype(np.float64)
            size = np.maximum(np.maximum(np.abs(left), np.abs(right)), bound.of)
            size = np.maximum(size, float(np.finfo(want.dtype).smallest_normal))
            near = (
                (bound.ulp > 0)
                & np.isfinite(left)
                & np.isfinite(right)
                & (np.abs(left - right) <= bound.ulp * eps(want.dtype) * size)
            )
            same = (left == right) | (np.isnan(left) & np.isnan(right))
            if not bound.ulp and not bound.zeros:
                same &= (np.signbit(left) == np.signbit(right)) | np.isnan(left)
            bad = ~(same | near)
    if not np.any(bad):
        return ""
    at = tuple(map(int, np.argwhere(bad)[0])) if bad.ndim else ()
    return f"{int(bad.sum())} of {bad.size}, first at {at}: {got[at]!r}, not {want[at]!r}"
