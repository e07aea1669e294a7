"""Random graphs over registered operators, and what each of their nodes makes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from assay.graph.graph import Graph, ValueType
from assay.kernels.sizes import PAGE
from assay.ops import registry
from assay.ops.builder import Builder
from assay.ops.operator import Array
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F16, F32, I32, Q4_1
from every_op import harness
from every_op.case import Case, random_weight

WIDTHS = (32, 64)
HEAD_DIM = 16


@dataclass
class Sample:
    """A graph with sizes for its symbols, and arrays for everything that it starts from."""

    graph: Graph
    binding: Mapping[str, int]
    inputs: dict[str, Array]
    weights: dict[str, Array] = field(default_factory=dict)
    states: dict[str, Array] = field(default_factory=dict)


class _Maker:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.builder = Builder("random")
        self.binding = {"T": draw(st.integers(1, 20)), "S": 1, "R": draw(st.integers(1, 5))}
        self.values: dict[int, list[str]] = {width: [] for width in WIDTHS}
        self.inputs: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.states: dict[str, Array] = {}
        self.batch: tuple[str, ...] = ()
        self.caches = 0

    def numbers(self, *shape: int) -> Array:
        return self.rng.normal(0, 1, shape).astype(np.float32)

    def input(self, width: int) -> None:
        name = f"in{len(self.inputs)}"
        self.inputs[name] = self.numbers(self.binding["T"], width)
        self.values[width].append(self.builder.input(name, F32, "T", width))

    def pick(self, width: int) -> str:
        return self.draw(st.sampled_from(self.values[width]))

    def weight(self, quantised: bool, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        kind = Q4_1 if quantised else F32
        self.weights[name] = (
            random_weight(self.rng, kind, *shape) if len(shape) == 2 else self.numbers(*shape)
        )
        return self.builder.weight(name, kind, *shape)

    def node(self) -> None:
        kind = self.draw(
            st.sampled_from((*2 * ("add", "mul", "silu"), "norm", "linear", "quantised", "attend"))
        )
        width = self.draw(st.sampled_from(WIDTHS))
        b, x = self.builder, self.pick(width)
        if kind in ("add", "mul"):
            made = b.op(kind, x, self.pick(width))
        elif kind == "silu":
            made = b.op(kind, x)
        elif kind == "norm":
            made = b.op("rms_norm", x, self.weight(False, width), epsilon=1e-5)
        elif kind == "attend":
            made = self.attend(width)
        else:
            after = self.draw(st.sampled_from(WIDTHS))
            w = self.weight(kind == "quantised", after, width)
            if kind == "quantised":
                made = b.op("linear_quantized", *b.ops("quantize", x), w)
            else:
                made = b.op("linear", x, w)
            width = after
        self.values[width].append(made)

    def attend(self, width: int) -> str:
        """Keys and values of this step into a cache of their own, and attention over it."""
        b, heads, tokens = self.builder, width // HEAD_DIM, self.binding["T"]
        if not self.batch:
            arrays = {
                "slots": (np.arange(tokens), ("T",)), "spans": (np.array([0, tokens]), ("S + 1",)),
                "pasts": (np.array([0]), ("S",)), "table": (np.array([[0]]), ("S", 1)),
            }  # fmt: skip
            for name, (array, dims) in arrays.items():
                self.inputs[name] = array.astype(np.int32)
                b.input(name, I32, *dims)
            self.batch = tuple(arrays)
        slots, spans, pasts, table = self.batch
        shapes = (1, heads, HEAD_DIM, PAGE), (1, heads, PAGE, HEAD_DIM)
        names = [f"cache{self.caches}.{part}" for part in ("keys", "values")]
        self.caches += 1
        for name, shape in zip(names, shapes, strict=True):
            self.states[name] = np.full(shape, np.nan, np.float16)
            b.state(name, F16, *shape)
        keys, values = b.ops("cache_write", self.pick(width), self.pick(width), slots, *names)
        return b.op("attention", self.pick(width), keys, values, spans, pasts, table, heads=heads, scale=0.25)


@st.composite
def samples(draw: st.DrawFn, most: int = 14) -> Sample:
    """Graphs of up to `most` nodes or so, some values of which are outputs."""
    maker = _Maker(draw)
    for width in WIDTHS:
        for _ in range(draw(st.integers(1, 2))):
            maker.input(width)
    for _ in range(draw(st.integers(1, most))):
        maker.node()
    made = [name for names in maker.values.values() for name in names if name not in maker.inputs]
    for name in draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True)):
        maker.builder.output(name)
    graph = maker.builder.graph()
    binding = {name: maker.binding[name] for name in graph.symbols}
    return Sample(graph, binding, maker.inputs, maker.weights, maker.states)


def node_by_node(sample: Sample, device: Cpu) -> dict[str, Array]:
    """Every value of the graph, each node run alone by its own kernel: nothing fused, nothing shared."""
    graph = sample.graph
    values: dict[str, Array] = {**sample.inputs, **sample.weights, **sample.states}
    for node in graph.nodes:
        operator = registry.get(node.op)
        kinds = [graph.types[name] for name in node.inputs]
        types = tuple(
            ValueType.of(kind.dtype, *(dim.at(sample.binding) for dim in kind.shape)) for kind in kinds
        )
        case = Case(tuple(values[name] for name in node.inputs), types, node.attributes)
        values |= dict(zip(node.outputs, harness.run(operator, case, device), strict=True))
    return values
