"""Runs one operator's case alone: through its contract, compiler and executor, and through its reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from assay.compiler.plan import Plan
from assay.formats.quant import dequantise
from assay.graph.graph import Graph, Node, ValueType
from assay.ops import registry
from assay.ops.builder import Builder
from assay.ops.operator import Array, Attributes, Exactness, Kernel, Operator, Reference, Site
from assay.ops.resolution import resolve
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load
from assay.tensor.buffer import Buffer
from every_op.case import Case
from every_op.cases import cases as made

SEED = 20260710
POISON = 0xFF
"""Bytes that are a NaN in every float type."""


def cases(operator: Operator) -> tuple[Case, ...]:
    """The operator's cases, always the same."""
    return tuple(made(operator, SEED))


def all_cases() -> list[tuple[str, Operator, Case]]:
    """Every case of every operator, with a name."""
    return [
        (f"{operator.name}-{index}", operator, case)
        for operator in registry.all_operators()
        for index, case in enumerate(cases(operator))
    ]


def node_of(operator: Operator, case: Case) -> tuple[Node, dict[str, ValueType]]:
    """The case as a node, and its inputs' types."""
    types = {port.name: kind for port, kind in zip(operator.inputs, case.types, strict=True)}
    outputs = tuple(f"out.{port.name}" for port in operator.outputs)
    return Node(operator.name, tuple(types), outputs, case.attributes, "node"), types


def site_of(operator: Operator, case: Case) -> Site:
    """The case as the kernels' rules see it: types and dimensions by the contract. Raises ContractError."""
    return resolve(*node_of(operator, case))


def applicable(operator: Operator, case: Case) -> tuple[Kernel, ...]:
    """The kernels that may be chosen for the case."""
    site = site_of(operator, case)
    return tuple(kernel for kernel in operator.kernels if kernel.applies(site))


@contextmanager
def only(operator: Operator, kernel: Kernel) -> Iterator[None]:
    """While this lasts, the operator has that kernel alone."""
    before = registry._operators[operator.name]
    registry._operators[operator.name] = replace(before, kernels=(kernel,))
    try:
        yield
    finally:
        registry._operators[operator.name] = before


def graph_of(operator: Operator, case: Case) -> Graph:
    """A graph of one node: weights in panels are weights, what is changed in place are states."""
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

    def raw(self, name: str) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.arrays[name]).reshape(-1).view(np.uint8)


class Bench:
    """One case on one device, ready to run any number of times."""

    def __init__(self, operator: Operator, case: Case, device: Cpu) -> None:
        self.operator = operator
        self.arrays = dict(zip((port.name for port in operator.inputs), case.inputs, strict=True))
        self.graph = graph_of(operator, case)
        self.weights = load(self.graph, Raw(self.arrays), device)
        self.states: dict[str, Buffer] = {
            name: device.allocate(self.arrays[name].nbytes, owner=name) for name in self.graph.states
        }
        self.device = device
        self.executor = Executor(self.graph, device, self.weights, self.states, {}, gap=64)

    @property
    def plan(self) -> Plan:
        return self.executor.plan({})

    def run(self) -> tuple[Array, ...]:
        """The outputs; states as they are afterwards."""
        for name, buffer in self.states.items():
            self.device.copy_in(buffer, self.arrays[name])
        outputs = self.executor.run({}, {name: self.arrays[name] for name in self.graph.inputs})
        values = iter(outputs.values())
        found = []
        for port in self.operator.outputs:
            state = self.operator.in_place.get(port.name)
            if state:
                value = self.states[state].array(self.arrays[state].dtype, self.arrays[state].shape)
            else:
                value = next(values)
            found.append(value.copy())
        return tuple(found)

    def memory(self) -> NDArray[np.uint8]:
        """The arena's bytes, after a run: values with gaps between them, then the threads' scratch."""
        arena = self.executor._arena
        assert arena is not None
        return arena.array(np.uint8, (arena.nbytes,))

    def gaps(self) -> NDArray[np.bool_]:
        """Which bytes of `memory` no value and no thread owns."""
        free = np.ones(len(self.memory()), bool)
        free[self.plan.arena :] = False
        for name, offset in self.plan.offsets.items():
            free[offset : offset + self.graph.types[name].nbytes({})] = False
        return free


def run(operator: Operator, case: Case, device: Cpu) -> tuple[Array, ...]:
    """The outputs of the kernel that applies; states as they are afterwards."""
    return Bench(operator, case, device).run()


def numbers(operator: Operator, case: Case) -> list[Array]:
    """The inputs as the numbers that they stand for: weights are float32, whatever their type in files."""
    return [
        weight_numbers(array, kind) if port.panels else array
        for port, array, kind in zip(operator.inputs, case.inputs, case.types, strict=True)
    ]


def reference(operator: Operator, case: Case) -> tuple[Array, ...]:
    """The operator's reference on the numbers that the inputs stand for."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return computed(operator.reference, numbers(operator, case), site_of(operator, case).attributes)


def computed(reference: Reference, inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    """What a reference makes of these inputs; one output as a tuple too."""
    outputs = reference(*inputs, **attributes)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def magnitudes(operator: Operator, case: Case) -> tuple[Array | None, ...]:
    """What an ulp of each output is taken of; None for the output itself."""
    of = operator.exactness.of
    if of is None:
        return (None,) * len(operator.outputs)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        terms = [
            weight_terms(array, kind) if port.panels else array
            for port, array, kind in zip(operator.inputs, case.inputs, case.types, strict=True)
        ]
        return computed(of, terms, site_of(operator, case).attributes)


def exactness(operator: Operator, case: Case) -> Exactness:
    """What the operator declares, for the case's dimensions."""
    dims = {name: dim.at({}) for name, dim in site_of(operator, case).dims.items()}
    return replace(operator.exactness, ulp=operator.exactness.limit(dims))


def weight_numbers(array: Array, kind: ValueType) -> Array:
    """A weight as a file holds it as float32."""
    if kind.dtype.quantised or kind.dtype.name == "bfloat16":
        shape = tuple(dim.at({}) for dim in kind.shape)
        return dequantise(np.ascontiguousarray(array).reshape(-1).view(np.uint8), kind.dtype, shape)
    return array.astype(np.float32)


def weight_terms(array: Array, kind: ValueType) -> Array:
    """The magnitudes of what a weight's numbers are sums of: |scale · integer| + |minimum|, or |number|.

    Types with a minimum have integers that are not negative, and what is subtracted is called dmin.
    """
    if {"m", "dmin"} & set(dict(kind.dtype.fields)):
        blocks = np.ascontiguousarray(array).reshape(-1).view(kind.dtype.layout).copy()
        for name, sign in (("d", 1), ("m", 1), ("dmin", -1)):
            if name in dict(kind.dtype.fields):
                blocks[name] = np.copysign(blocks[name], sign)
        array = blocks.view(np.uint8)
    return np.abs(weight_numbers(array, kind))
