"""One node held against its operator: the types and dimensions that follow, or everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from assay.errors import ContractError
from assay.graph.graph import AttributeValue, Node, ValueType
from assay.graph.text import quote
from assay.ops import registry
from assay.ops.attributes import fill
from assay.ops.operator import Attributes, Dims, Operator, Port
from assay.ops.pattern import Binding, Mismatch, shape_of, unify


@dataclass(frozen=True)
class Resolution:
    """A node that keeps its contract: `attributes` with the defaults, `dims` with what each name stands for.

    `dims["..."]` is the product of the dimensions that `...` stands for.
    """

    operator: Operator
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    dims: Dims
    attributes: Attributes


def resolve(node: Node, types: Mapping[str, ValueType]) -> Resolution:
    """The node's types and dimensions, from the types of its inputs. Raises the first ContractError."""
    for name in node.inputs:
        if name not in types:
            raise ContractError(
                "input undefined", place=place_of(node), want="a value with a type", got=quote(name)
            )
    resolution, errors = examine(node, [types[name] for name in node.inputs])
    if resolution is None:
        raise errors[0]
    return resolution


def place_of(node: Node) -> str:
    """`node "blk.0.attn_q" (linear)`; a node without a name goes by its first output."""
    name = node.name or next(iter(node.outputs), "")
    return f"node {json.dumps(name)} ({quote(node.op)})"


def examine(
    node: Node, types: Sequence[ValueType | None], origin: Callable[[str], str] = lambda name: ""
) -> tuple[Resolution | None, list[ContractError]]:
    """The resolution, or None and all errors.

    `types` belong to the node's inputs; None is a value that some other error is about. `origin` says where a
    value is from: `a weight, line 3`.
    """
    attributes = tuple(sorted((name, repr(value), value) for name, value in node.attributes.items()))
    resolution = _sound(node.op, tuple(types), attributes, len(node.outputs))
    return (resolution, []) if resolution else _examine(node, types, origin)


@lru_cache(maxsize=4096)
def _sound(
    op: str,
    types: tuple[ValueType | None, ...],
    attributes: tuple[tuple[str, str, AttributeValue], ...],
    outputs: int,
) -> Resolution | None:
    """The resolution of nodes like this one, which a model has in each layer; None when there are errors.

    Attributes come with their text, because 1, 1.0 and True are equal and so are 0.0 and −0.0.
    """
    node = Node(op, ("",) * len(types), ("",) * outputs, {name: value for name, _, value in attributes})
    return _examine(node, types, lambda name: "")[0]


def _examine(
    node: Node, types: Sequence[ValueType | None], origin: Callable[[str], str]
) -> tuple[Resolution | None, list[ContractError]]:
    try:
        operator = registry.get(node.op)
    except ContractError as error:
        return None, [error.at(place_of(node))]
    attributes, errors = fill(operator.attributes, node.attributes)
    integers = {name: value for name, value in attributes.items() if type(value) is int}
    binding = Binding({})
    if len(types) != len(operator.inputs):
        errors.append(_arity("inputs", operator.inputs, len(types)))
    else:

        def describe(port: str) -> str:
            index = [each.name for each in operator.inputs].index(port)
            name = node.inputs[index]
            return ", ".join(filter(None, (f"{quote(name)}: {types[index]}", origin(name))))

        errors += _dtypes(operator.inputs, types, describe)
        patterns = {port.name: port.dims for port in operator.inputs}
        binding, mismatches = unify(patterns, [kind.shape if kind else None for kind in types], integers)
        errors += [_mismatch(mismatch, describe) for mismatch in mismatches]
    if len(node.outputs) != len(operator.outputs):
        errors.append(_arity("outputs", operator.outputs, len(node.outputs)))
    inputs = tuple(kind for kind in types if kind is not None)
    if not errors and len(inputs) == len(types):
        errors += _relations(operator, binding, attributes)
    for found in errors:
        found.hint = found.hint or f"assay contract {operator.name}"
        found.at(place_of(node))
    if errors or len(inputs) < len(types):
        return None, errors
    outputs = tuple(_output(port, operator.inputs, inputs, binding, integers) for port in operator.outputs)
    return Resolution(operator, inputs, outputs, binding.dims, attributes), []


def _arity(what: str, ports: Sequence[Port], got: int) -> ContractError:
    names = ", ".join(port.name for port in ports)
    want = f"{len(ports)}: {names}" if ports else "none"
    return ContractError(f"wrong number of {what}", want=want, got=str(got))


def _dtypes(
    ports: Sequence[Port], types: Sequence[ValueType | None], describe: Callable[[str], str]
) -> Iterator[ContractError]:
    known = {port.name: kind.dtype for port, kind in zip(ports, types, strict=True) if kind}
    for port in ports:
        dtype = known.get(port.name)
        if dtype is None:
            continue
        if dtype not in port.dtypes:
            want = " or ".join(map(str, port.dtypes))
        elif port.like in known and dtype != known[port.like]:
            want = f"{known[port.like]}, as {port.like} has"
        else:
            continue
        rule = f"input {port.name}: dtype not admitted"
        yield ContractError(rule, want=want, got=f"{dtype} in {describe(port.name)}")


def _mismatch(mismatch: Mismatch, describe: Callable[[str], str]) -> ContractError:
    if mismatch.axis is None:
        rule = f"input {mismatch.port}: wrong rank"
        want = f"{mismatch.value} for [{mismatch.expression}]"
    else:
        rule = f"input {mismatch.port}: axis {mismatch.axis} disagrees"
        constant = mismatch.expression == mismatch.value
        want = mismatch.value if constant else f"{mismatch.expression} = {mismatch.value}"
    want = f"{want} ({mismatch.because})" if mismatch.because else want
    return ContractError(rule, want=want, got=f"{mismatch.got} in {describe(mismatch.port)}")


def _relations(operator: Operator, binding: Binding, attributes: Attributes) -> Iterator[ContractError]:
    for relation in operator.relations:
        if not relation.holds(binding.dims, attributes):
            values = [f"{name} = {value}" for name, value in (*binding.dims.items(), *attributes.items())]
            got = ", ".join(values)
            yield ContractError("relation broken", want=relation.text, got=got, hint=relation.hint)


def _output(
    port: Port,
    ports: Sequence[Port],
    types: Sequence[ValueType],
    binding: Binding,
    integers: Mapping[str, int],
) -> ValueType:
    dtypes = {each.name: kind.dtype for each, kind in zip(ports, types, strict=True)}
    return ValueType(dtypes.get(port.like, port.dtypes[0]), shape_of(port.dims, binding, integers))
