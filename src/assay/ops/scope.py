"""The values that are defined at one place of a graph, and what is wrong with the next step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from assay.errors import ContractError
from assay.graph.graph import Node, ValueType
from assay.graph.text import quote
from assay.ops import registry
from assay.ops.operator import Operator
from assay.ops.resolution import examine, place_of

_ABOVE = "a value of the lines above"


class Origin(NamedTuple):
    """Where a value is from: the node that makes it, or the kind of source that it is; and the line, or 0."""

    maker: Node | str
    line: int = 0

    def __str__(self) -> str:
        if isinstance(self.maker, Node):
            text = place_of(self.maker)
        else:
            text = f"an {self.maker}" if self.maker == "input" else f"a {self.maker}"
        return f"{text}, line {self.line}" if self.line else text


class Scope:
    """The values that are defined at one place of a graph, while its nodes are gone through in order.

    `later` are the origins of all values that nodes make, those further on too.
    """

    def __init__(self, later: Mapping[str, Origin] | None = None) -> None:
        self.types: dict[str, ValueType] = {}
        self._later = later or {}
        self._origins: dict[str, Origin] = {}
        self._states: dict[str, str] = {}
        self._changed: dict[str, Origin] = {}

    def declare(self, kind: str, name: str, type: ValueType | None, line: int = 0) -> list[ContractError]:
        """Define an input, a weight or a state (`kind`) of the graph."""
        errors = self._define(name, type, Origin(kind, line))
        if type is None:
            errors.append(ContractError("no type declared", want="dtype and shape", got="nothing"))
        else:
            errors += _impossible(type)
        if kind == "state":
            self._states.setdefault(name, name)
        return [error.at(f"{kind} {quote(name)}") for error in errors]

    def state_of(self, name: str) -> str:
        """The state whose memory a value is; the value itself when it is none."""
        return self._states.get(name, name)

    def apply(
        self, node: Node, line: int = 0, declared: Mapping[str, ValueType] | None = None
    ) -> list[ContractError]:
        """Hold a node against its operator and define its outputs; `declared` has their types, if any are."""
        unread = [error for name in dict.fromkeys(node.inputs) for error in self._unreadable(name)]
        site, broken = examine(node, self.types, self._origin)
        inferred = site.outputs if site else (None,) * len(node.outputs)
        origin = Origin(node, line)
        wrong: list[ContractError] = []
        for name, type in zip(node.outputs, inferred, strict=True):
            claimed = declared.get(name) if declared is not None else None
            taken = self._define(name, type or claimed, origin)
            wrong += taken
            if declared is not None and not taken:
                wrong += _contradiction(name, type, claimed)
            if type:
                wrong += _impossible(type)
        operator = registry.find(node.op)
        if operator:
            names = operator.named(node)
            wrong += self._constants(operator, names)
            wrong += self._change(operator, names, node, origin)
        for error in (*unread, *wrong):
            error.at(place_of(node))
        return [*unread, *broken, *wrong]

    def read(self, name: str, place: str) -> list[ContractError]:
        """What is wrong with reading a value here."""
        return [error.at(place) for error in self._unreadable(name)]

    def _unreadable(self, name: str) -> Iterator[ContractError]:
        maker = self._later.get(name)
        if name in self._changed:
            latest = [value for value, state in self._states.items() if state == self._states[name]][-1]
            want, got = quote(latest), f"{quote(name)}, changed by {self._changed[name]}"
            hint = "the memory holds the new contents: read the new name, or move the reader above the change"
            yield ContractError("state read after its change", want=want, got=got, hint=hint)
        elif name not in self._origins and maker:
            got = f"{quote(name)}, made by {maker}"
            hint = "put the nodes in an order in which they can run"
            yield ContractError("value used before it is made", want=_ABOVE, got=got, hint=hint)
        elif name not in self._origins:
            near = get_close_matches(name, self._origins, n=1)
            hint = f"did you mean {quote(near[0])}?" if near else ""
            yield ContractError("value undefined", want=_ABOVE, got=quote(name), hint=hint)

    def _origin(self, name: str) -> str:
        origin = self._origins.get(name)
        if origin is None:
            return "undefined"
        return f"made by {origin}" if isinstance(origin.maker, Node) else str(origin)

    def _define(self, name: str, type: ValueType | None, origin: Origin) -> list[ContractError]:
        if name == "":
            return [ContractError("value without a name", want="a name", got='""')]
        if name in self._origins:
            got = f"{quote(name)}, {self._origin(name)}"
            return [ContractError("value defined twice", want="a name of its own", got=got)]
        self._origins[name] = origin
        if type is not None:
            self.types[name] = type
        return []

    def _constants(self, operator: Operator, names: Mapping[str, str]) -> Iterator[ContractError]:
        """Ports that are read in panels: only weights are packed, and bytes in rows would pass for panels."""
        for port in operator.inputs:
            name = names.get(port.name, "") if port.panels else ""
            if name in self._origins and self._origins[name].maker != "weight":
                rule, got = f"input {port.name}: not a weight", f"{quote(name)}, {self._origin(name)}"
                hint = "kernels read it in panels, into which weights are packed when they are loaded"
                yield ContractError(rule, want="a weight of the graph", got=got, hint=hint)

    def _change(
        self, operator: Operator, names: Mapping[str, str], node: Node, changer: Origin
    ) -> Iterator[ContractError]:
        for output, port in operator.in_place.items():
            if port not in names or output not in names:
                continue
            name = names[port]
            got = f"{quote(name)}, {self._origin(name)}"
            if name in self._states:
                self._changed.setdefault(name, changer)
                self._states.setdefault(names[output], self._states[name])
            elif name in self._origins:
                rule, hint = f"input {port}: changed in place", "declare the value as a state of the graph"
                yield ContractError(rule, want="a state", got=got, hint=hint)
            if node.inputs.count(name) > 1:
                rule, hint = f"input {port}: changed and read by one node", "a copy can be read meanwhile"
                yield ContractError(rule, want="one use", got=got, hint=hint)


def _contradiction(name: str, inferred: ValueType | None, declared: ValueType | None) -> list[ContractError]:
    if declared is None:
        want = str(inferred) if inferred else "dtype and shape"
        return [ContractError(f"output {quote(name)}: no type declared", want=want, got="nothing")]
    if inferred and inferred != declared:
        rule = f"output {quote(name)}: contradicts its declared type"
        want, got = f"{declared}, as declared", f"{inferred}, as inferred"
        hint = "the declaration, or an input's shape, is wrong"
        return [ContractError(rule, want=want, got=got, hint=hint)]
    return []


def _impossible(type: ValueType) -> Iterator[ContractError]:
    """What is wrong with a type whatever the value is."""
    if any((dim.constant or 0) < 0 for dim in type.shape):
        yield ContractError("negative dimension", want="0 or more", got=str(type))
    row = type.shape[-1].constant if type.shape else None
    if type.dtype.quantised and (row is None or row % type.dtype.block):
        want = f"a last dimension that is a multiple of {type.dtype.block}"
        yield ContractError("rows are not whole blocks", want=want, got=str(type))
