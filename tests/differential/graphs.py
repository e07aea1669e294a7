"""Small graphs drawn at random: values that feed each other, sizes from other values' shapes among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper

from differential.draw import Bound, Call, Draw, Known
from differential.models import Builder, Drawn

Shape = tuple[int, ...]
Step = Callable[["Graph", str, Shape], tuple[str, Shape]]
STEPS: list[Step] = []


class Graph(Builder):
    """A graph in the making whose values' shapes are known here. All values are float32 and at most 16."""

    def op(self, op: str, *names: str, **attributes: object) -> str:
        return self.node(op, Call((), attributes), names)[0]

    def fresh(self, shape: Shape) -> str:
        return self.value(self.draw.data(shape, np.float32, low=-4, high=4))

    def vector(self, *values: int) -> str:
        return self.value(Known(np.array(values, np.int64)))

    def body(
        self, inputs: Sequence[onnx.ValueInfoProto], write: Callable[[], Sequence[str]]
    ) -> onnx.GraphProto:
        """A graph for a node's attribute, whose nodes `write` adds; it may read all values that there are."""
        outer, self.nodes = self.nodes, []
        outputs = [onnx.ValueInfoProto(name=name) for name in write()]
        nodes, self.nodes = self.nodes, outer
        self.made += 1
        return helper.make_graph(nodes, f"body{self.made}", inputs, outputs)


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


@step
def smooth(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    return g.op(
        g.draw.pick("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Sin", "Softsign", "HardSwish", "Identity"), x
    ), shape


@step
def combined(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    other = g.fresh(g.draw.stretch(shape))
    return g.op("Tanh", g.op(g.draw.pick("Add", "Sub", "Mul"), *g.draw.pick((x, other), (other, x)))), shape


@step
def chosen(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    condition = g.op(g.draw.pick("Less", "Greater"), g.fresh(shape), g.fresh(g.draw.stretch(shape)))
    return g.op("Where", condition, x, g.fresh(())), shape


@step
def turned(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape:
        return g.op("Neg", x), shape
    order = g.draw.random.permutation(len(shape)).tolist()
    return g.op("Transpose", x, perm=order), tuple(shape[axis] for axis in order)


@step
def flat(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    rank, sizes = len(shape), g.op("Shape", x)
    if rank < 2:
        return g.op("Unsqueeze", x, g.vector(0)), (1, *shape)
    first = g.op("Slice", sizes, g.vector(0), g.vector(1))
    rest = g.op("ReduceProd", g.op("Slice", sizes, g.vector(1), g.vector(rank)), keepdims=1)
    return g.op("Reshape", x, g.op("Concat", first, rest, axis=0), allowzero=1), (shape[0], prod(shape[1:]))


@step
def soft(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape or 0 in shape:
        return g.op("Cast", x, to=1), shape
    return g.op("Softmax", x, axis=g.draw.axis(len(shape))), shape


@step
def reduced(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape or 0 in shape:
        return g.op("Abs", x), shape
    axis, keep = g.draw.axis(len(shape)), g.draw.pick(0, 1)
    made = [1 if at == axis % len(shape) else size for at, size in enumerate(shape)]
    if not keep:
        del made[axis]
    op = g.draw.pick("ReduceMean", "ReduceMax", "ReduceMin")
    return g.op(op, x, axes=[axis], keepdims=keep), tuple(made)


@step
def part(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape:
        return g.op("Reshape", x, g.vector(1, 1)), (1, 1)
    axis = g.draw.axis(len(shape))
    start, stop, stride = g.draw.integer(-3, 3), g.draw.integer(-3, 9), g.draw.pick(1, 2, -1)
    made = list(shape)
    made[axis] = len(range(shape[axis])[start:stop:stride])
    return g.op("Slice", x, *(g.vector(each) for each in (start, stop, axis, stride))), tuple(made)


@step
def joined(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape:
        return g.op("Neg", x), shape
    axis = g.draw.axis(len(shape))
    made = list(shape)
    made[axis] = 2 * made[axis] + 1
    more = list(shape)
    more[axis] = 1
    return g.op("Concat", x, g.fresh(tuple(more)), x, axis=axis), tuple(made)


@step
def taken(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape or 0 in shape:
        return g.op("Expand", x, g.op("Shape", x)), shape
    axis = g.draw.integer(0, len(shape) - 1)
    places = g.draw.places(g.draw.shape(0, 2), shape[axis])
    return g.op("Gather", x, g.value(places), axis=axis), (*shape[:axis], *places.shape, *shape[axis + 1 :])


@step
def product(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if len(shape) < 2:
        return g.op("Sigmoid", x), shape
    width = g.draw.size()
    weights = g.value(Known(g.draw.data((shape[-1], width), np.float32, low=-1, high=1)))
    return g.op("Tanh", g.op("MatMul", x, weights)), (*shape[:-1], width)


@step
def padded(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape:
        return g.op("Abs", x), shape
    pads = [g.draw.integer(0, 2) for _ in (*shape, *shape)]
    sums = zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True)
    return g.op("Pad", x, g.vector(*pads)), tuple(map(sum, sums))


def gently(g: Graph, x: str, shape: Shape) -> str:
    """A step that keeps the shape."""
    return g.draw.pick(smooth, combined, chosen, soft)(g, x, shape)[0]


def named(g: Graph, kind: int = onnx.TensorProto.FLOAT, shape: Shape | None = None) -> onnx.ValueInfoProto:
    """A body's input."""
    g.made += 1
    return helper.make_tensor_value_info(f"z{g.made}", kind, shape)


@step
def branched(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    bodies = {key: g.body((), lambda: [gently(g, x, shape)]) for key in ("then_branch", "else_branch")}
    return g.op("If", g.op("Less", g.fresh(()), g.fresh(())), **bodies), shape


@step
def repeated(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    """A loop that ends by its number or by what is carried: the last value, or all of them."""
    trips, limit = g.draw.integer(0, 4), g.fresh(())
    turn, going, carried = named(g, onnx.TensorProto.INT64, ()), named(g, onnx.TensorProto.BOOL, ()), named(g)

    def write() -> Sequence[str]:
        made = gently(g, carried.name, shape)
        mean = g.op("ReduceMean", g.op("Flatten", made), keepdims=0) if shape and 0 not in shape else limit
        more = g.op("Identity", going.name) if g.draw.chance(0.5) else g.op("LessOrEqual", mean, limit)
        return more, made, g.op("Neg", made)

    body = g.body((turn, going, carried), write)
    count, true = g.value(Known(np.array(trips))), g.value(Known(np.array(True)))
    last, _ = g.node("Loop", Call((), {"body": body}, 2), (count, true, x))
    return last, shape


@step
def scanned(g: Graph, x: str, shape: Shape) -> tuple[str, Shape]:
    if not shape or 0 in shape:
        return g.op("Neg", x), shape
    state, element = named(g, shape=shape[1:]), named(g, shape=shape[1:])

    def write() -> Sequence[str]:
        total = g.op("Tanh", g.op("Add", state.name, element.name))
        return total, gently(g, total, shape[1:])

    ways = {f"scan_{side}_directions": [g.draw.pick(0, 1)] for side in ("input", "output")}
    call = Call((), {"body": g.body((state, element), write), "num_scan_inputs": 1, **ways}, 2)
    return g.node("Scan", call, (g.fresh(shape[1:]), x))[1], shape


def graph(seed: int) -> Drawn:
    """A graph of several values that lead to each other."""
    draw = Draw("graph", 13, seed)
    draw.special = False
    built = Graph(draw, none_is_open=False)
    shape = draw.shape(0, 3)
    values: list[tuple[str, Shape]] = [(built.op("Identity", built.fresh(shape)), shape)]
    for _ in range(draw.integer(3, 8)):
        x, shape = values[draw.pick(-1, -1, draw.integer(0, len(values) - 1))]
        if prod(shape) < 4096 and len(shape) < 5:
            values.append(draw.pick(*STEPS)(built, x, shape))
    made = [name for name, _ in values]
    outputs = list(dict.fromkeys([made[-1], draw.pick(*made)]))
    return Drawn(built.model(outputs, draw.pick(13, 15, 17)), built.feeds, Bound(1024, 16))
