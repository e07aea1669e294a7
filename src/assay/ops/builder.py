"""A graph written step by step, with each value's type inferred and each node held against its contract."""

from __future__ import annotations

from collections.abc import Mapping

from assay.errors import ContractError, within
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.graph.text import quote
from assay.ops import registry
from assay.ops.operator import Operator
from assay.ops.scope import Scope
from assay.tensor.dtype import DType


class Builder:
    """Values are passed by name: every method returns the names of what it defined.

    A breach raises ContractError at once, with all that is wrong there, and ends the use of the builder.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sources: dict[str, list[str]] = {"input": [], "weight": [], "state": []}
        self._nodes: list[Node] = []
        self._outputs: list[str] = []
        self._scope = Scope()

    def input(self, name: str, dtype: DType, *dims: int | str | Dim) -> str:
        """A value that comes with each run. Raises ValueError when a dimension isn't one."""
        return self._declare("input", name, ValueType.of(dtype, *dims))

    def weight(self, name: str, dtype: DType, *dims: int | str | Dim) -> str:
        """A constant that is kept outside the graph."""
        return self._declare("weight", name, ValueType.of(dtype, *dims))

    def state(self, name: str, dtype: DType, *dims: int | str | Dim) -> str:
        """A value that lasts from run to run and may be changed in place."""
        return self._declare("state", name, ValueType.of(dtype, *dims))

    def op(
        self, op: str, /, *inputs: str, name: str = "", output: str = "", **attributes: AttributeValue
    ) -> str:
        """Append a node of an operator with one output, and return the output's name.

        The output is called `output`, or `x` and a number. A state changed in place goes on as `state'1`,
        `state'2`, …; its old name must not be read any more.
        """
        outputs = self.ops(op, *inputs, name=name, output=output, **attributes)
        if len(outputs) != 1:
            place, got = f"{quote(self._name)} › {quote(op)}", f"{len(outputs)}: {', '.join(outputs)}"
            raise ContractError("several outputs", place=place, want="one output", got=got, hint="call ops")
        return outputs[0]

    def ops(
        self, op: str, /, *inputs: str, name: str = "", output: str = "", **attributes: AttributeValue
    ) -> tuple[str, ...]:
        """Append a node and return the names of its outputs: `output.port` each when there are several."""
        with within(quote(self._name)):
            operator = registry.get(op)
        outputs = self._output_names(operator, operator.named(Node(op, inputs, ())), output)
        node = Node(op, inputs, outputs, attributes, name)
        self._raise(self._scope.apply(node))
        self._nodes.append(node)
        return outputs

    def output(self, value: str) -> None:
        """Make a value an output of the graph."""
        self._raise(self._scope.read(value, f"output {quote(value)}"))
        self._outputs.append(value)

    def graph(self) -> Graph:
        """The graph as it is now. Raises ContractError for an output that is a state's old name by now."""
        for value in self._outputs:
            self._raise(self._scope.read(value, f"output {quote(value)}"))
        inputs, weights, states = (tuple(self._sources[kind]) for kind in ("input", "weight", "state"))
        nodes, outputs = tuple(self._nodes), tuple(self._outputs)
        return Graph(self._name, inputs, weights, states, nodes, outputs, self._scope.types)

    def _declare(self, kind: str, name: str, type: ValueType) -> str:
        self._raise(self._scope.declare(kind, name, type))
        self._sources[kind].append(name)
        return name

    def _output_names(self, operator: Operator, values: Mapping[str, str], output: str) -> tuple[str, ...]:
        several = len(operator.outputs) > 1
        if output and not several:
            return (output,)
        stem = output or self._free("x", len(self._nodes))
        names = []
        for port in operator.outputs:
            state = self._scope.state_of(values.get(operator.in_place.get(port.name, ""), ""))
            own = f"{stem}.{port.name}" if several else stem
            names.append(self._free(f"{state}'", 1) if state else own)
        return tuple(names)

    def _free(self, stem: str, number: int) -> str:
        while f"{stem}{number}" in self._scope.types:
            number += 1
        return f"{stem}{number}"

    def _raise(self, errors: list[ContractError]) -> None:
        if errors:
            raise ContractError.together(errors).at(quote(self._name))
