"""A graph held against its operators' contracts: every violation, with line and origin, before a run."""

from __future__ import annotations

from assay.errors import ContractError
from assay.graph.graph import Graph
from assay.graph.listing import first_node_line
from assay.graph.text import quote
from assay.ops.resolution import Resolution, resolve
from assay.ops.scope import Origin, Scope

__all__ = ["Resolution", "check", "resolve"]


def check(graph: Graph) -> list[ContractError]:
    """All violations of a graph, in the order of its listing.

    Each place reads like `smollm2 › line 42 › node "blk.0.attn_q" (linear)`.
    """
    errors: list[ContractError] = []

    def report(line: int, found: list[ContractError]) -> None:
        errors.extend(error.at(f"line {line}").at(quote(graph.name)) for error in found)

    first = first_node_line(graph)
    later: dict[str, Origin] = {}
    for line, node in enumerate(graph.nodes, start=first):
        for name in node.outputs:
            later.setdefault(name, Origin(node, line))
    scope = Scope(later)
    for line, (kind, name) in enumerate(graph.sources(), start=2):
        report(line, scope.declare(kind, name, graph.types.get(name), line))
    for line, node in enumerate(graph.nodes, start=first):
        report(line, scope.apply(node, line, graph.types)[1])
    for line, name in enumerate(graph.outputs, start=first + len(graph.nodes)):
        report(line, list(scope.read(name, f"output {quote(name)}")))
    return errors
