"""One node of a graph alone: on its kernels, or on its reference, where a debugger can go along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from assay.errors import RequestError, near
from assay.graph.graph import Node
from assay.ops.standard.infer import Inference
from assay.runtime.host import Value, run_node, type_of
from assay.runtime.model import Model
from assay.runtime.part import run_part

WAYS = ("kernel", "reference")


def run_alone(model: Model, name: str, inputs: Mapping[str, Value], on: str = "kernel") -> dict[str, Value]:
    """The outputs of the node of that name, or of that first output.

    `inputs` are values by their names: the node's own inputs, recorded before, or any from which they are
    computed, such as the model's. On the "reference" Python code makes the outputs, step by step.

    Raises RequestError for an unknown name or way, ContractError where values are missing.
    """
    if on not in WAYS:
        raise RequestError("no such way", place="on", want=" or ".join(WAYS), got=on)
    program = model.program
    nodes = [node for node in program.graph.nodes if name in (node.name, *node.outputs[:1])]
    if not nodes:
        names = [each for node in program.graph.nodes for each in (node.name, *node.outputs[:1]) if each]
        want, there = (
            "a node's name, or its first output's",
            [each for each in names if name in each] or names,
        )
        hint = near(name, names) or f"there is {', '.join(there[:5])}"
        raise RequestError("no such node", place="node", want=want, got=name, hint=hint)
    made = {each for node in nodes for each in node.outputs}
    read = [each for each in dict.fromkeys(each for node in nodes for each in node.reads) if each not in made]
    ahead = _needed(program.graph.nodes, set(read) - inputs.keys(), inputs.keys())
    values = run_part(program, ahead, [each for each in read if each not in program.weights], inputs)
    wanted = [each for node in nodes for each in node.outputs if each]
    if on == "kernel":
        return run_part(program, nodes, wanted, values)
    values |= {each: program.weights[each] for each in read if each in program.weights}
    for node in nodes:
        if node.bodies:
            raise RequestError("a node that runs graphs", place="on", want="kernel", got=on)
        types = {each: type_of(values[each]) for each in filter(None, node.inputs)}
        graph = replace(
            program.graph, inputs=tuple(types), weights=(), nodes=(node,), outputs=(), types=types
        )
        (site,) = Inference(graph, types, values, trusted=True).run().sites  # type: ignore[arg-type]
        outputs = run_node(site, [values[each] if each else None for each in node.inputs], {})
        values |= dict(zip(node.outputs, outputs, strict=False))
    return {each: values[each] for each in wanted}


def _needed(nodes: Iterable[Node], wanted: set[str], given: Set[str]) -> list[Node]:
    """The nodes that make values out of those that are given, in order."""
    found: list[Node] = []
    for node in reversed([*nodes]):
        if wanted.intersection(node.outputs):
            found.append(node)
            wanted = (wanted - {*node.outputs}) | (set(node.reads) - given)
    return found[::-1]
