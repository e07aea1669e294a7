"""The values that are defined at one place of a graph, and what is wrong with the next step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from assay.errors import ContractError
from assay.graph.graph import Node, ValueType
from assay.graph.text import quote
from assay.ops import registry
from assay.ops.resolution import Resolution, examine, place_of

_ABOVE = "a value of the lines above"


@dataclass(frozen=True)
class Origin:
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

    `later` has the origins of values that nodes further on make.
    """

    def __init__(self, later: Mapping[str, Origin] | None = None) -> None:
        self.types: dict[str, ValueType] = {}
        self._later = later or {}
        self._origins: dict[str, Origin] = {}
        self._states: dict[str, str] = {}
        self._changed: dict[str, Origin] = {}

    def declare(self, kind: str, name: str, type: ValueType | None, line: int = 0) -> list[ContractError]:
        """Define an input, a weight or a state (`kind`) of the graph."""
        place = f"{kind} {quote(name)}"
        errors = [*self._define(name, type, Origin(kind, line), place)]
        if type is None:
            want = "dtype and shape"
            errors.append(ContractError("no type declared", place=place, want=want, got="nothing"))
        else:
            errors += _possible(type, place)
        if kind == "state":
            self._states.setdefault(name, name)
        return errors

    def state_of(self, name: str) -> str:
        """The state whose memory a value is; the value itself when it is none."""
        return self._states.get(name, name)

    def apply(
        self, node: Node, line: int = 0, declared: Mapping[str, ValueType] | None = None
    ) -> tuple[Resolution | None, list[ContractError]]:
        """Hold a node against its operator and define its outputs; `declared` has their types, if any are."""
        place = place_of(node)
        errors = [error for name in dict.fromkeys(node.inputs) for error in self.read(name, place)]
        origin = Origin(node, line)
        resolution, found = examine(node, self.types, self._origin)
        errors += found
        inferred = dict(zip(node.outputs, resolution.outputs, strict=True)) if resolution else {}
        for name in node.outputs:
            type = inferred.get(name) or (declared or {}).get(name)
            taken = list(self._define(name, type, origin, place))
            errors += taken
            if declared is not None and not taken:
                errors += _contradiction(name, inferred.get(name), declared.get(name), place)
            if name in inferred:
                errors += _possible(inferred[name], place)
        return resolution, [*errors, *self._constants(node, place), *self._change(node, origin, place)]

    def read(self, name: str, place: str) -> Iterator[ContractError]:
        """What is wrong with reading a value here."""
        if name in self._changed:
            latest = [value for value, state in self._states.items() if state == self._states[name]][-1]
            want, got = quote(latest), f"{quote(name)}, changed by {self._changed[name]}"
            hint = "the memory holds the new contents: read the new name, or move the reader above the change"
            yield ContractError("state read after its change", place=place, want=want, got=got, hint=hint)
        elif name not in self._origins and name in self._later:
            got = f"{quote(name)}, made by {self._later[name]}"
            hint = "put the nodes in an order in which they can run"
            yield ContractError("value used before it is made", place=place, want=_ABOVE, got=got, hint=hint)
        elif name not in self._origins:
            near = get_close_matches(name, self._origins, n=1)
            hint = f"did you mean {quote(near[0])}?" if near else ""
            yield ContractError("value undefined", place=place, want=_ABOVE, got=quote(name), hint=hint)

    def _origin(self, name: str) -> str:
        origin = self._origins.get(name)
        if origin is None:
            return "undefined"
        return f"made by {origin}" if isinstance(origin.maker, Node) else str(origin)

    def _define(
        self, name: str, type: ValueType | None, origin: Origin, place: str
    ) -> Iterator[ContractError]:
        if name == "":
            yield ContractError("value without a name", place=place, want="a name", got='""')
        elif name in self._origins:
            got = f"{quote(name)}, {self._origin(name)}"
            yield ContractError("value defined twice", place=place, want="a name of its own", got=got)
        else:
            self._origins[name] = origin
            if type is not None:
                self.types[name] = type

    def _constants(self, node: Node, place: str) -> Iterator[ContractError]:
        """Ports that are read in panels: only weights are packed, and bytes in rows would pass for panels."""
        operator = registry.find(node.op)
        names = operator.named(node) if operator else {}
        for port in operator.inputs if operator else ():
            name = names.get(port.name, "")
            if port.panels and name in self._origins and self._origins[name].maker != "weight":
                rule, got = f"input {port.name}: not a weight", f"{quote(name)}, {self._origin(name)}"
                hint = "kernels read it in panels, into which weights are packed when they are loaded"
                yield ContractError(rule, place=place, want="a weight of the graph", got=got, hint=hint)

    def _change(self, node: Node, changer: Origin, place: str) -> Iterator[ContractError]:
        operator = registry.find(node.op)
        if operator is None:
            return
        names = operator.named(node)
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
                yield ContractError(rule, place=place, want="a state", got=got, hint=hint)
            if node.inputs.count(name) > 1:
                rule, hint = f"input {port}: changed and read by one node", "a copy can be read meanwhile"
                yield ContractError(rule, place=place, want="one use", got=got, hint=hint)


def _contradiction(
    name: str, inferred: ValueType | None, declared: ValueType | None, place: str
) -> Iterator[ContractError]:
    if declared is None:
        want = str(inferred) if inferred else "dtype and shape"
        yield ContractError(f"output {quote(name)}: no type declared", place=place, want=want, got="nothing")
    elif inferred and inferred != declared:
        rule = f"output {quote(name)}: contradicts its declared type"
        want, got = f"{declared}, as declared", f"{inferred}, as inferred"
        hint = "the declaration, or an input's shape, is wrong"
        yield ContractError(rule, place=place, want=want, got=got, hint=hint)


def _possible(type: ValueType, place: str) -> Iterator[ContractError]:
    if any(dim.constant is not None and dim.constant < 0 for dim in type.shape):
        yield ContractError("negative dimension", place=place, want="0 or more", got=str(type))
    if type.dtype.quantised:
        row = type.shape[-1].constant if type.shape else None
        if row is None or row % type.dtype.block:
            want = f"a last dimension that is a multiple of {type.dtype.block}"
            yield ContractError("rows are not whole blocks", place=place, want=want, got=str(type))
