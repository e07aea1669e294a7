"""Graphs: nodes in order over typed values. Frozen; a pass returns a new graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType

from assay.graph.dim import Dim
from assay.tensor.dtype import DType

AttributeValue = int | float | str | bool | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class ValueType:
    """An element type and a shape, each dimension an integer or an expression over symbols."""

    dtype: DType
    shape: tuple[Dim, ...]

    @staticmethod
    def of(dtype: DType, *shape: int | str | Dim) -> ValueType:
        return ValueType(dtype, tuple(Dim.of(dim) for dim in shape))

    def __post_init__(self) -> None:
        # Once for all: a check looks up the types of thousands of values, few of which differ.
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    def __reduce__(self) -> tuple[type[ValueType], tuple[DType, tuple[Dim, ...]]]:
        return ValueType, (self.dtype, self.shape)  # another process hashes otherwise

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset().union(*(dim.symbols for dim in self.shape))

    def nbytes(self, binding: Mapping[str, int]) -> int:
        """Bytes of the elements in a row under `binding`."""
        return self.dtype.nbytes(prod(dim.at(binding) for dim in self.shape))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Node:
    """One application of an operator: names of its inputs and outputs, and its attributes."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run.

    `inputs` come with each run, `weights` are constant and kept outside the graph, `states` last from run to
    run and are changed in place by nodes whose operator says so. `types` has every value's type. Names are
    unique. A node that changes a state in place names it anew, and no later node may use the old name.
    """

    name: str
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    states: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, ValueType]

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    @cached_property
    def uses(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol of the values' shapes, sorted."""
        return tuple(sorted({symbol for kind in self.types.values() for symbol in kind.symbols}))

    def sources(self) -> Iterator[tuple[str, str]]:
        """(kind, name) of all values that no node makes: inputs, weights, states."""
        for kind, names in (("input", self.inputs), ("weight", self.weights), ("state", self.states)):
            for name in names:
                yield kind, name
