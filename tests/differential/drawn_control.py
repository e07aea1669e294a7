"""Nodes that run graphs: branches, loops and scans. Bodies are drawn too, and read values around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from differential.draw import Array, Bound, Call, Draw, Known
from differential.families import family

NEAR = Bound(4096, 1, True)
"""Bodies end floats with Tanh, which keeps differences of what leads to it small."""


class Body:
    """A graph in the making, whose numbers have one shape; `flag` is a condition for branches in it."""

    def __init__(self, d: Draw, name: str, outer: Sequence[str], flag: str, floats: bool) -> None:
        self.d, self.name, self.flag, self.floats = d, name, flag, floats
        self.values, self.nodes = list(outer), list[onnx.NodeProto]()
        self.inputs, self.outputs = list[onnx.ValueInfoProto](), list[str]()

    def node(self, op: str, *names: str, **attributes: object) -> str:
        made = f"{self.name}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [made], **attributes))
        return made

    def input(self, dtype: np.dtype[np.generic], shape: Sequence[int] | None) -> str:
        name = f"{self.name}_in{len(self.inputs)}"
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def number(self, value: int) -> str:
        return self.node("Constant", value=onnx.numpy_helper.from_array(np.array(value)))

    def work(self, deep: bool = True) -> Body:
        """Some nodes; among them may be a branch in the body."""
        d = self.d
        for _ in range(d.integer(1, 3)):
            if deep and d.chance(0.25):
                ways = {f"{way}_branch": self.branch(way) for way in ("then", "else")}
                self.values.append(self.node("If", self.flag, **ways))
                continue
            op = d.pick("Add", "Sub", "Mul", "Neg", "Abs", *(["Sigmoid"] if self.floats else []))
            count = 2 if op in ("Add", "Sub", "Mul") else 1
            self.values.append(self.node(op, *(d.pick(*self.values) for _ in range(count))))
        return self

    def branch(self, way: str) -> onnx.GraphProto:
        name = f"{self.name}_{way}{len(self.nodes)}"
        return Body(self.d, name, self.values, "", self.floats).work(False).end().graph()

    def end(self) -> Body:
        """One more output."""
        self.outputs.append(self.node("Tanh" if self.floats else "Identity", self.d.pick(*self.values)))
        return self

    def graph(self) -> onnx.GraphProto:
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        return helper.make_graph(self.nodes, self.name, self.inputs, outputs)


def around(d: Draw) -> tuple[tuple[int, ...], np.dtype[np.generic], dict[str, Array]]:
    """A shape, an element type, and values for bodies to read: numbers of that shape, and a flag."""
    shape = d.shape(0, 3)
    names = {"double": np.float64, "int64": np.int64, "int32": np.int32}
    dtype = np.dtype(names.get(d.wish, np.float32))
    d.special = False
    outer = {f"outer{n}": d.data(shape, dtype) for n in range(d.integer(1, 2))}
    return shape, dtype, {**outer, "flag": np.array(d.chance(0.5))}


def body(d: Draw, name: str, outer: Mapping[str, Array], dtype: np.dtype[np.generic]) -> Body:
    values = [each for each in outer if each != "flag"]
    return Body(d, name, values, "flag", dtype.kind == "f")


@family("If")
def branched(d: Draw) -> Call:
    _, dtype, outer = around(d)
    outputs, bodies = d.integer(1, 2), {}
    for key in ("then_branch", "else_branch"):
        made = body(d, key, outer, dtype).work()
        bodies[key] = [made.end() for _ in range(outputs)][-1].graph()
    condition = np.full(d.pick((), (1,)), d.chance(0.5))
    return Call([condition], bodies, outputs, NEAR, outer, max(d.version, 9))


@family("Loop")
def looped(d: Draw) -> Call:
    shape, dtype, outer = around(d)
    carried, stacked = d.integer(0, 2), d.integer(0, 2)
    carried = max(carried, 1 - stacked)
    most, limit = np.array(d.integer(0, 4)), d.integer(-1, 5)
    condition = np.array(d.chance(0.85)) if d.chance(0.7) else None
    count = None if condition is not None and d.chance(0.3) else most
    made = body(d, "body", outer, dtype)
    turn, going = made.input(np.dtype(np.int64), ()), made.input(np.dtype(np.bool_), ())
    made.values += [made.input(dtype, shape) for _ in range(carried)]
    open_end = count is not None and d.chance(0.5)
    more = made.node("Identity", going) if open_end else made.node("Less", turn, made.number(limit))
    made.outputs.append(more)
    made.work()
    for _ in range(carried + stacked):
        made.end()
    starts = [d.data(shape, dtype) for _ in range(carried)]
    inputs = [None if count is None else Known(count), condition, *starts]
    return Call(inputs, {"body": made.graph()}, carried + stacked, NEAR, outer, max(d.version, 9))


@family("Scan")
def scanned(d: Draw) -> Call:
    shape, dtype, outer = around(d)
    states, elements, stacked = d.integer(0, 2), d.integer(1, 2), d.integer(0, 2)
    stacked = max(stacked, 1 - states)
    made = body(d, "body", outer, dtype)
    made.values += [made.input(dtype, shape) for _ in range(states + elements)]
    made.work()
    for _ in range(states + stacked):
        made.end()
    length, rank = d.integer(1, 4), len(shape) + 1
    attributes: dict[str, object] = {"body": made.graph(), "num_scan_inputs": elements}
    ways = [d.pick(0, 1) for _ in range(elements)]
    if d.version < 9:
        rows = d.integer(1, 3)
        inputs: list[Array | Known | None] = [
            d.random.integers(1, length + 1, rows) if d.chance(0.5) else None
        ]
        inputs += [d.data((rows, *shape), dtype) for _ in range(states)]
        inputs += [d.data((rows, length, *shape), dtype) for _ in range(elements)]
        attributes |= {"directions": ways} if d.chance(0.6) else {}
        return Call(inputs, attributes, states + stacked, NEAR, outer, 8)
    axes = [d.integer(0 if d.version < 11 else -rank, rank - 1) for _ in range(elements + stacked)]
    for key, value in (
        ("scan_input_directions", ways), ("scan_output_directions", [d.pick(0, 1) for _ in range(stacked)]),
        ("scan_output_axes", axes[elements:]),
    ):  # fmt: skip
        attributes |= {key: value} if value and d.chance(0.6) else {}
    if d.chance(0.7):
        attributes["scan_input_axes"] = axes[:elements]
    else:
        axes[:elements] = [0] * elements
    inputs = [d.data(shape, dtype) for _ in range(states)]
    for axis in axes[:elements]:
        at = axis % rank
        inputs.append(d.data((*shape[:at], length, *shape[at:]), dtype))
    return Call(inputs, attributes, states + stacked, NEAR, outer, max(d.version, 9))
