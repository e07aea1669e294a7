"""A file's graph with the types that are known of its values, as its listing shows it."""

from __future__ import annotations

from dataclasses import replace

from assay.graph.graph import Graph, Node, ValueType
from assay.ops.standard.infer import Inference, Types
from assay.ops.standard.site import UNKNOWN


def typed(graph: Graph, inference: Inference) -> Graph:
    """The graph with the inferred type of every value; in functions and in graphs of nodes, of those that
    have one type wherever they are used.
    """
    sources = {name: inference.known(name) for _, name in graph.sources()}
    functions = tuple(
        _typed(each, _of(each, inference.written.get(each.name, ())), inference) for each in graph.functions
    )
    return replace(_typed(graph, sources, inference), functions=functions)


def _of(graph: Graph, kinds: Types) -> dict[str, ValueType | None]:
    return dict(zip(graph.inputs, kinds, strict=False))


def _typed(graph: Graph, sources: dict[str, ValueType | None], inference: Inference) -> Graph:
    found, nodes = dict(sources), list[Node]()
    for node in graph.nodes:
        found |= zip(node.outputs, inference.written.get(node.line, ()), strict=False)
        bodies = {
            key: _typed(body, _of(body, inference.written.get((node.line, key), ())), inference)
            for key, body in node.bodies
        }
        nodes.append(replace(node, attributes={**node.attributes, **bodies}) if bodies else node)
    types = {
        **graph.types,
        **{name: kind for name, kind in found.items() if name and kind not in (None, UNKNOWN)},
    }
    return replace(graph, nodes=tuple(nodes), types=types)
