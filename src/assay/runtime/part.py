"""Some of a graph's nodes by themselves, with any of their values as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.errors import ContractError
from assay.graph.graph import Node
from assay.runtime.host import Value, type_of
from assay.runtime.program import Program


def run_part(
    program: Program, nodes: Sequence[Node], wanted: Sequence[str], given: Mapping[str, Value]
) -> dict[str, Value]:
    """Values that nodes make, or that are given. Raises ContractError where others are missing."""
    made = {each for node in nodes for each in node.outputs}
    named = [*(each for node in nodes for each in node.reads), *wanted]
    read = [each for each in dict.fromkeys(named) if each not in made]
    weights = {each: program.weights[each] for each in read if each in program.weights}
    missing = [each for each in read if each not in weights and each not in given]
    if missing:
        raise ContractError("values missing", place=program.graph.name, want=", ".join(missing), got="none")
    inputs = {each: given[each] for each in read if each not in weights}
    types = {each: type_of(value) for each, value in {**weights, **inputs}.items()}
    graph = replace(program.graph, inputs=tuple(inputs), weights=tuple(weights), types=types)
    graph = replace(graph, nodes=tuple(nodes), outputs=tuple(wanted))
    part = Program(graph, program.store, weights, trusted=True, off=program.off, progress=program.progress)
    return part.run(inputs)
