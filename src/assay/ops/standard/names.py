"""Names of values where one graph stands inside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.graph.graph import AttributeValue, Graph, Node, Reference


def own_names(graph: Graph) -> list[str]:
    """Those of a graph's own values, each once."""
    made = (name for node in graph.nodes for name in node.outputs)
    return list(dict.fromkeys([*(name for _, name in graph.sources()), *filter(None, made)]))


def inner_names(body: Graph, outputs: Sequence[str]) -> dict[str, str]:
    """Names for a body's values among others: those of the outputs for what it makes of them."""
    names = {name: f"{next(filter(None, outputs), '')}/{name}" for name in own_names(body)}
    made = {name for node in body.nodes for name in node.outputs}
    for inner, outer in zip(body.outputs, outputs, strict=False):
        if outer and inner in made:
            names[inner] = outer
            made.remove(inner)
    return names


def bound(nodes: Sequence[Node], given: Mapping[str, AttributeValue]) -> tuple[Node, ...]:
    """A function's nodes with its attributes' values in place of their names."""

    def value(each: AttributeValue) -> AttributeValue | None:
        if isinstance(each, Reference):
            return given.get(each.name)
        if isinstance(each, Graph):
            return replace(each, nodes=bound(each.nodes, given))
        return each

    return tuple(
        replace(
            node,
            attributes={
                key: found for key, each in node.attributes.items() if (found := value(each)) is not None
            },
        )
        for node in nodes
    )
