"""How many nodes a graph has with its functions in line: few may stand for billions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.graph.graph import Graph, Node

DEEPEST = 32
"""Functions and graphs inside each other."""


def most_nodes(written: int) -> int:
    """Nodes that so many written ones may stand for; and how often their bodies may be gone through."""
    return 1024 + 64 * written


def grown(nodes: Sequence[Node], sizes: Mapping[str, int] = {}) -> int:
    """Nodes, and those of their bodies, where an operator of a name in `sizes` stands for so many more."""
    inner = (body.nodes for node in nodes for _, body in node.bodies)
    return sum(1 + sizes.get(node.op, 0) for node in nodes) + sum(grown(each, sizes) for each in inner)


def growth(graph: Graph) -> tuple[int, int, Node]:
    """Nodes with all functions in line, the most that may be, and the node that stands for the most."""
    sizes: dict[str, int] = {}
    for _ in range(DEEPEST):
        sizes = {each.name: grown(each.nodes, sizes) for each in graph.functions}
    written = sum(grown(each.nodes) for each in (graph, *graph.functions))
    largest = max(graph.nodes, key=lambda node: grown([node], sizes), default=Node("", (), ()))
    return grown(graph.nodes, sizes), most_nodes(written), largest
