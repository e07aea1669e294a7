"""Passes on graphs. Each returns a new graph that keeps every contract."""

from __future__ import annotations

from collections.abc import Mapping

from assay.graph.graph import Graph, Node, ValueType
from assay.ops.resolution import resolve


def quantize_activations(graph: Graph) -> Graph:
    """Run linear maps with quantised weights on activations of 8 bits: `quantize` once for each input, then
    `linear_quantized`. Other maps stay as they are."""
    types: dict[str, ValueType] = dict(graph.types)
    nodes: list[Node] = []
    quantised: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        if node.op != "linear" or not graph.types[node.inputs[1]].dtype.quantised:
            nodes.append(node)
            continue
        x, w = node.inputs
        if x not in quantised:
            names = tuple(_free(f"{x}.{port}", types) for port in ("q", "scale", "sum"))
            made = Node("quantize", (x,), names, name=f"{x}.quantize")
            types.update(zip(names, resolve(made, types).outputs, strict=True))
            nodes.append(made)
            quantised[x] = names
        nodes.append(Node("linear_quantized", (*quantised[x], w), node.outputs, name=node.name))
    return Graph(graph.name, graph.inputs, graph.weights, graph.states, tuple(nodes), graph.outputs, types)


def _free(name: str, taken: Mapping[str, ValueType]) -> str:
    """The name, with as many primes as set it apart from those of the graph's own values."""
    while name in taken:
        name += "'"
    return name
