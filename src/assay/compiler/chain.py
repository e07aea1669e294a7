"""Chains of elementwise nodes: neighbours whose values nobody else reads become one kernel call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.graph.dim import Dim
from assay.graph.graph import Graph
from assay.kernels.sizes import CHAIN_SCRATCH, LOAD, REGISTERS, STORE
from assay.ops import registry
from assay.ops.resolution import Resolution

MOST = 6
"""Nodes of a chain."""


@dataclass(frozen=True)
class Program:
    """Instructions (operation, register, left, right) whose operands are registers or values' names."""

    instructions: tuple[tuple[int, int, int | str, int | str], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    kernel: str = "elementwise.chain"
    scratch: int = CHAIN_SCRATCH

    @staticmethod
    def extent(shape: tuple[Dim, ...]) -> tuple[Dim, Dim | int]:
        """Rows, and elements of a row."""
        size = Dim.of(1)
        for dim in shape[1:]:
            size = size * dim
        return (shape[0] if shape else Dim.of(1)), size if size.constant is None else size.constant


def chains(graph: Graph, resolutions: Sequence[Resolution]) -> list[list[int]]:
    """The nodes' numbers in order, neighbours that form a chain together."""
    groups: list[list[int]] = []
    for index in range(len(graph.nodes)):
        previous = groups[-1] if groups else []
        if previous and len(previous) < MOST and _continues(graph, resolutions, previous, index):
            previous.append(index)
        else:
            groups.append([index])
    return groups


def _continues(graph: Graph, resolutions: Sequence[Resolution], chain: Sequence[int], index: int) -> bool:
    last = graph.nodes[chain[-1]]
    if any(resolutions[member].operator.pointwise is None for member in (chain[-1], index)):
        return False
    (result,) = last.outputs
    same = resolutions[index].outputs[0] == resolutions[chain[-1]].outputs[0]
    alone = graph.uses.get(result) == (graph.nodes[index],) and result not in graph.outputs
    return same and alone and len(_sources(graph, [*chain, index])) < REGISTERS


def _sources(graph: Graph, members: Sequence[int]) -> list[str]:
    made = {graph.nodes[member].outputs[0] for member in members}
    names = [name for member in members for name in graph.nodes[member].inputs if name not in made]
    return list(dict.fromkeys(names))


def program(graph: Graph, members: Sequence[int]) -> Program:
    """The chain's instructions: load each source into a register of its own, compute, store the last result.

    Each result takes the last register over: the chain has no branches, so nothing older is read again.
    """
    sources = _sources(graph, members)
    registers = {name: number for number, name in enumerate(sources)}
    instructions: list[tuple[int, int, int | str, int | str]] = [
        (LOAD, registers[name], name, 0) for name in sources
    ]
    target = len(sources)
    for member in members:
        node = graph.nodes[member]
        number = registry.get(node.op).pointwise
        assert number is not None
        operands = [registers[name] for name in node.inputs]
        instructions.append((number, target, operands[0], operands[-1]))
        registers[node.outputs[0]] = target
    (result,) = graph.nodes[members[-1]].outputs
    instructions.append((STORE, 0, target, result))
    return Program(tuple(instructions), tuple(sources), (result,))
