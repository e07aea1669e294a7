"""Graphs: nodes in order over typed values. Frozen; a pass returns a new graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from assay.graph.dim import ANY, Dim
from assay.tensor.dtype import DType


@dataclass(frozen=True)
class ValueType:
    """An element type and a shape, each dimension an integer or an expression over symbols.

    The shape of a value whose rank isn't known is `(ANY,)`. A sequence, an optional value or a map has no
    shape and says what it holds as its `element`; a map's is its key's dtype, whose element is the value's.
    """

    dtype: DType
    shape: tuple[Dim, ...]
    element: ValueType | None = None

    @staticmethod
    def of(dtype: DType, *shape: int | str | Dim) -> ValueType:
        return ValueType(dtype, tuple(Dim.of(dim) for dim in shape))

    def __post_init__(self) -> None:
        # Once for all: a check looks up the types of thousands of values, few of which differ.
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape, self.element)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    def __reduce__(self) -> tuple[type[ValueType], tuple[DType, tuple[Dim, ...], ValueType | None]]:
        return ValueType, (self.dtype, self.shape, self.element)  # another process hashes otherwise

    @property
    def ranked(self) -> bool:
        """Whether the number of dimensions is known."""
        return self.shape[:1] != (ANY,)

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape as integers, or None where a symbol is left."""
        sizes = tuple(dim.constant for dim in self.shape)
        return None if None in sizes or self.element else sizes  # type: ignore[return-value]

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset().union(*(dim.symbols for dim in self.shape))

    def nbytes(self, binding: Mapping[str, int]) -> int:
        """Bytes of the elements in a row under `binding`."""
        return self.dtype.nbytes(prod(dim.at(binding) for dim in self.shape))

    def __str__(self) -> str:
        if self.element:
            return f"{self.dtype}({self.element})"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Literal:
    """A tensor that stands in an attribute: its bytes, or of a long one that was read back from a listing
    their digest alone. Equal are those with the same digest.
    """

    dtype: DType
    sizes: tuple[int, ...]
    digest: str
    data: NDArray[np.generic] | None = field(compare=False)

    @staticmethod
    def of(dtype: DType, array: NDArray[np.generic]) -> Literal:
        """An array of what `dtype.numpy` says; strings are in one of objects."""
        raw = (
            repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes()
        )
        return Literal(dtype, array.shape, hashlib.sha256(raw).hexdigest(), array)

    def array(self) -> NDArray[np.generic]:
        """The elements. Raises ValueError where a listing had only the digest."""
        if self.data is None:
            raise ValueError("the elements of this tensor are not in the listing")
        return self.data


@dataclass(frozen=True)
class Reference:
    """An attribute of a function's node that has the value of the function's attribute of that name."""

    name: str


@dataclass(frozen=True)
class Node:
    """One application of an operator: names of its inputs and outputs, empty where an optional one is
    missing, and its attributes. `line` is that in its file's listing, or 0.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    name: str = ""
    line: int = field(default=0, compare=False)

    @property
    def bodies(self) -> tuple[tuple[str, Graph], ...]:
        """The attributes that are graphs, in order."""
        return tuple((key, value) for key, value in self.attributes.items() if isinstance(value, Graph))

    @property
    def reads(self) -> list[str]:
        """The values that it reads, those that its bodies have of the graphs around them too."""
        captured = (name for _, body in self.bodies for name in body.captures)
        return [name for name in (*self.inputs, *captured) if name]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run.

    `inputs` come with each run, `weights` are constant and kept outside the graph, `states` last from run to
    run and are changed in place by nodes whose operator says so. `types` has every value's type. Names are
    unique. A node that changes a state in place names it anew, and no later node may use the old name.

    A graph as a file has it also says which version of which set of operators is meant, and has functions,
    whose `parameters` are their attributes with the defaults, or None for one that must be given. A graph in
    a node's attribute may read the values of the graphs around it.
    """

    name: str
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    states: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, ValueType]
    opsets: Mapping[str, int] = field(default_factory=dict)
    functions: tuple[Graph, ...] = ()
    parameters: Mapping[str, AttributeValue | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    @cached_property
    def uses(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.reads):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def captures(self) -> tuple[str, ...]:
        """The values that nodes read, or that are outputs, and that the graphs around this one have."""
        own = {name for _, name in self.sources()}.union(*(node.outputs for node in self.nodes))
        read = dict.fromkeys((*self.uses, *self.outputs))
        return tuple(name for name in read if name not in own)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol of the values' shapes, sorted."""
        return tuple(sorted({symbol for kind in self.types.values() for symbol in kind.symbols}))

    def numbered(self, first: int = 1) -> Graph:
        """The same graph with each node's line in its listing, of which this graph's begin at `first`."""
        line = first + 1 + len(self.opsets)
        functions, nodes = list[Graph](), list[Node]()
        for function in self.functions:
            functions.append(function.numbered(line))
            line += function.length
        line += len(self.inputs) + len(self.weights) + len(self.states)
        for node in self.nodes:
            attributes, own = dict(node.attributes), line
            line += 1
            for key, body in node.bodies:
                attributes[key] = body.numbered(line)
                line += body.length
            nodes.append(replace(node, attributes=attributes, line=own))
        return replace(self, functions=tuple(functions), nodes=tuple(nodes))

    def renamed(self, names: Mapping[str, str]) -> Graph:
        """The same graph where values of the graphs around it go by other names."""
        names = {name: names[name] for name in self.captures if names.get(name, name) != name}
        if not names:
            return self
        nodes = []
        for node in self.nodes:
            bodies = {key: body.renamed(names) for key, body in node.bodies}
            inputs = tuple(names.get(name, name) for name in node.inputs)
            nodes.append(replace(node, inputs=inputs, attributes={**node.attributes, **bodies}))
        outputs = tuple(names.get(name, name) for name in self.outputs)
        return replace(self, nodes=tuple(nodes), outputs=outputs)

    @cached_property
    def length(self) -> int:
        """Lines of its listing as part of another's, with one for its end."""
        bodies = (*self.functions, *(body for node in self.nodes for _, body in node.bodies))
        own = (self.opsets, self.inputs, self.weights, self.states, self.nodes, self.outputs)
        return 2 + sum(map(len, own)) + sum(body.length for body in bodies)

    def sources(self) -> Iterator[tuple[str, str]]:
        """(kind, name) of all values that no node makes: inputs, weights, states."""
        for kind, names in (("input", self.inputs), ("weight", self.weights), ("state", self.states)):
            for name in names:
                yield kind, name


AttributeValue: TypeAlias = (
    "int | float | str | bool | Literal | Graph | ValueType | Reference | tuple[int, ...] | tuple[float, ...]"
    " | tuple[str, ...] | tuple[Literal, ...] | tuple[Graph, ...] | tuple[ValueType, ...]"
)
