"""Runs one operator's case alone: through its contract, compiler and executor, and through its reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from assay.formats.quant import dequantise
from assay.graph.graph import Graph, ValueType
from assay.ops.builder import Builder
from assay.ops.operator import Array, Case, Operator
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load, panels


def graph_of(operator: Operator, case: Case) -> Graph:
    """A graph of one node. Weights in panels are weights, what is changed in place are states, the rest are
    inputs.
    """
    builder = Builder(operator.name)
    names = []
    for port, kind in zip(operator.inputs, case.types, strict=True):
        make = (
            builder.weight
            if port.panels
            else builder.state
            if port.name in operator.in_place.values()
            else builder.input
        )
        names.append(make(port.name, kind.dtype, *kind.shape))
    outputs = builder.ops(operator.name, *names, name="node", output="out", **case.attributes)
    for port, output in zip(operator.outputs, outputs, strict=True):
        if port.name not in operator.in_place:
            builder.output(output)
    return builder.graph()


class Raw:
    """A case's weights as a source of bytes."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays

    def raw(self, name: str) -> Array:
        return np.ascontiguousarray(self.arrays[name]).reshape(-1).view(np.uint8)


def run(operator: Operator, case: Case, device: Cpu) -> tuple[Array, ...]:
    """The outputs of the kernel that applies; states as they are afterwards."""
    graph = graph_of(operator, case)
    arrays = dict(zip((port.name for port in operator.inputs), case.inputs, strict=True))
    weights = load(graph, Raw(arrays), device)
    states = {}
    for name in graph.states:
        states[name] = device.allocate(arrays[name].nbytes, owner=name)
        device.copy_in(states[name], arrays[name])
    executor = Executor(graph, device, weights, states, {}, gap=64)
    outputs = executor.run({}, {name: arrays[name] for name in graph.inputs})
    values = iter(outputs.values())
    found = []
    for port in operator.outputs:
        state = operator.in_place.get(port.name)
        value = states[state].array(arrays[state].dtype, arrays[state].shape) if state else next(values)
        found.append(value.copy())
    return tuple(found)


def reference(operator: Operator, case: Case) -> tuple[Array, ...]:
    """The operator's reference on the numbers that the inputs stand for."""
    return operator.reference(
        [decode(array, kind) for array, kind in zip(case.inputs, case.types, strict=True)], case.attributes
    )


def decode(array: Array, kind: ValueType) -> Array:
    if kind.dtype.quantised or kind.dtype.name == "bfloat16":
        shape = tuple(dim.at({}) for dim in kind.shape)
        return dequantise(np.ascontiguousarray(array).reshape(-1).view(np.uint8), kind.dtype, shape)
    return array


__all__ = ["decode", "graph_of", "panels", "reference", "run"]
