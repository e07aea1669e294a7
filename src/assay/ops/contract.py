"""A graph held against its operators' contracts: every violation, with line and origin, before a run."""

from __future__ import annotations

from assay.errors import ContractError
from assay.graph.graph import Graph
from assay.graph.listing import first_node_line
from assay.graph.text import quote
from assay.ops.scope import Origin, Scope


def require(graph: Graph) -> None:
    """Raises one ContractError with all violations of a graph, if there are any."""
    errors = check(graph)
    if errors:
        raise ContractError.together(errors)


def check(graph: Graph) -> list[ContractError]:
    """All violations of a graph, in the order of its listing.

    Each place reads like `smollm2 › line 42 › node "blk.0.attn_q" (linear)`.
    """
    first = first_node_line(graph)
    nodes = list(enumerate(graph.nodes, start=first))
    scope = Scope({name: Origin(node, line) for line, node in reversed(nodes) for name in node.outputs})
    found = [
        (line, scope.declare(kind, name, graph.types.get(name), line))
        for line, (kind, name) in enumerate(graph.sources(), start=2)
    ]
    found += [(line, scope.apply(node, line, graph.types)) for line, node in nodes]
    outputs = enumerate(graph.outputs, start=first + len(nodes))
    found += [(line, scope.read(name, f"output {quote(name)}")) for line, name in outputs]
    return [error.at(f"line {line}").at(quote(graph.name)) for line, errors in found for error in errors]
