"""Chains of elementwise nodes: neighbours whose values nobody else reads become one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

from assay.graph.graph import Graph
from assay.kernels.sizes import REGISTERS
from assay.ops.chain import Link, link, sources
from assay.ops.operator import Site

MOST = 6
"""Nodes of a chain."""


def chains(graph: Graph, sites: Sequence[Site]) -> list[list[int]]:
    """The nodes' numbers in order, neighbours that form a chain together."""
    groups: list[list[int]] = []
    for index in range(len(graph.nodes)):
        if groups and len(groups[-1]) < MOST and _continues(graph, sites, groups[-1], index):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _continues(graph: Graph, sites: Sequence[Site], chain: Sequence[int], index: int) -> bool:
    last = graph.nodes[chain[-1]]
    if not all(sites[member].operator.pointwise for member in (chain[-1], index)):
        return False
    (result,) = last.outputs
    same = sites[index].outputs[0].shape == sites[chain[-1]].outputs[0].shape
    alone = graph.uses.get(result) == (graph.nodes[index],) and result not in graph.outputs
    return same and alone and len(sources(links(graph, sites, [*chain, index]))) < REGISTERS // 2


def links(graph: Graph, sites: Sequence[Site], members: Sequence[int]) -> list[Link]:
    """The nodes of a chain as its links."""
    nodes = ((graph.nodes[member], sites[member]) for member in members)
    return [link(site, node.inputs, node.outputs[0]) for node, site in nodes]
