"""Which node made the first infinity or NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.errors import PrecisionOverflow
from assay.graph.graph import Node
from assay.ops.resolution import line_of
from assay.runtime.host import Value, finite
from assay.runtime.part import run_part
from assay.runtime.program import Program


def first_overflow(program: Program, inputs: Mapping[str, Value]) -> PrecisionOverflow | None:
    """The error that names the first node whose inputs are finite and an output isn't, found by a run that
    keeps all values; None where there is no such node. Values that are the same in every run don't count.
    """
    nodes = program.graph.nodes
    wanted = [name for node in nodes for name in node.outputs if name]
    values = {**program.weights, **inputs}
    values |= run_part(program, nodes, wanted, values)
    constant = set(program.weights)
    for node in nodes:
        if constant.issuperset(node.reads):
            constant.update(node.outputs)
        elif all(finite(values[name]) for name in node.reads):
            for name in filter(None, node.outputs):
                if not finite(values[name]):
                    return _inside(program, node, values) or _error(node, name, values[name])
    return None


def _inside(program: Program, node: Node, values: Mapping[str, Value]) -> PrecisionOverflow | None:
    """The node of the branch that an If takes. Bodies of loops have other values in each turn."""
    if node.op != "If":
        return None
    branch = "then_branch" if np.any(np.asarray(values[node.inputs[0]])) else "else_branch"
    body = dict(node.bodies)[branch]
    types = {name: values[name] for name in body.captures}
    graph = replace(body, inputs=tuple(types), weights=(), types=dict(body.types))
    return first_overflow(Program(graph, program.store, {}, trusted=True, off=program.off), types)


def _error(node: Node, name: str, value: Value) -> PrecisionOverflow:
    arrays: Sequence[object] = value if isinstance(value, list) else [value]
    array = next(np.asarray(each) for each in arrays if not finite(each))
    where = [int(each) for each in np.argwhere(~np.isfinite(array))[0]]
    place = line_of(node)
    got = f"{array[tuple(where)]} at {where} of {name}, from finite inputs"
    hint = "record the node's inputs and run it alone, or look for weights that are too large"
    rule, want = "a value left its dtype's range", "finite values"
    return PrecisionOverflow(rule, place=place, want=want, got=got, hint=hint)
