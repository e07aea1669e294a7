"""One node held against its operator: the types and dimensions that follow, or everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from assay.errors import ContractError
from assay.graph.graph import AttributeValue, Node, ValueType
from assay.graph.text import quote
from assay.ops import registry
from assay.ops.attributes import fill
from assay.ops.operator import Attributes, Operator, Port, Site
from assay.ops.pattern import Binding, Mismatch, shape_of, unify


def resolve(node: Node, types: Mapping[str, ValueType]) -> Site:
    """The node's types and dimensions, from the types of its inputs. Raises the first ContractError."""
    for name in node.inputs:
        if name not in types:
            place, want = place_of(node), "a value with a type"
            raise ContractError("input undefined", place=place, want=want, got=quote(name))
    site, errors = examine(node, types)
    if site is None:
        raise errors[0]
    return site


def place_of(node: Node) -> str:
    """`node "blk.0.attn_q" (linear)`; a node without a name goes by its first output."""
    name = node.name or next(iter(node.outputs), "")
    return f"node {json.dumps(name)} ({quote(node.op)})"


def examine(
    node: Node, types: Mapping[str, ValueType], origin: Callable[[str], str] = lambda name: ""
) -> tuple[Site | None, list[ContractError]]:
    """The node as kernels see it, or None and all errors.

    `types` are by value; one that is missing is of a value that some other error is about. `origin` says
    where a value is from: `a weight, line 3`.
    """
    try:
        operator = registry.get(node.op)
    except ContractError as error:
        return None, [error.at(place_of(node))]
    attributes = tuple(sorted((name, repr(value), value) for name, value in node.attributes.items()))
    given = tuple(types[name] for name in node.inputs if name in types)
    site = None
    if len(given) == len(node.inputs):
        site = _sound(operator, given, attributes, len(node.outputs))
    return (site, []) if site else _examine(operator, node, types, origin)


@lru_cache(maxsize=4096)
def _sound(
    operator: Operator,
    types: tuple[ValueType, ...],
    attributes: tuple[tuple[str, str, AttributeValue], ...],
    outputs: int,
) -> Site | None:
    """What nodes like this one are, of which a model has one in each layer; None when there are errors.

    Attributes come with their text, because 1, 1.0 and True are equal and so are 0.0 and −0.0.
    """
    inputs = {f"input {index}": kind for index, kind in enumerate(types)}
    given = {name: value for name, _, value in attributes}
    node = Node(operator.name, tuple(inputs), ("",) * outputs, given)
    return _examine(operator, node, inputs, lambda name: "")[0]


def _examine(
    operator: Operator, node: Node, types: Mapping[str, ValueType], origin: Callable[[str], str]
) -> tuple[Site | None, list[ContractError]]:
    attributes, errors = fill(operator.attributes, node.attributes)
    integers = {name: value for name, value in attributes.items() if type(value) is int}
    binding = Binding({})
    names = operator.named(node)
    kinds = {port.name: types[names[port.name]] for port in operator.inputs if names.get(port.name) in types}
    if len(node.inputs) != len(operator.inputs):
        errors.append(_arity("inputs", operator.inputs, len(node.inputs)))
    else:

        def describe(port: str) -> str:
            return ", ".join(filter(None, (f"{quote(names[port])}: {kinds[port]}", origin(names[port]))))

        errors += _dtypes(operator.inputs, kinds, describe)
        patterns = {port.name: port.dims for port in operator.inputs}
        shapes = {port: kind.shape for port, kind in kinds.items()}
        binding, mismatches = unify(patterns, shapes, integers)
        errors += [_mismatch(mismatch, describe) for mismatch in mismatches]
    if len(node.outputs) != len(operator.outputs):
        errors.append(_arity("outputs", operator.outputs, len(node.outputs)))
    complete = len(kinds) == len(operator.inputs)
    if not errors and complete:
        errors += _relations(operator, binding, attributes)
    for found in errors:
        found.hint = found.hint or f"assay contract {operator.name}"
        found.at(place_of(node))
    if errors or not complete:
        return None, errors
    outputs = tuple(_output(port, kinds, binding, integers) for port in operator.outputs)
    inputs = tuple(kinds.values())
    return Site(operator, inputs, outputs, binding.dims, attributes, binding.rest), []


def _arity(what: str, ports: Sequence[Port], got: int) -> ContractError:
    names = ", ".join(port.name for port in ports)
    want = f"{len(ports)}: {names}" if ports else "none"
    return ContractError(f"wrong number of {what}", want=want, got=str(got))


def _dtypes(
    ports: Sequence[Port], kinds: Mapping[str, ValueType], describe: Callable[[str], str]
) -> Iterator[ContractError]:
    for port in ports:
        if port.name not in kinds:
            continue
        dtype = kinds[port.name].dtype
        if dtype not in port.dtypes:
            want = " or ".join(map(str, port.dtypes))
        elif port.like in kinds and dtype != kinds[port.like].dtype:
            want = f"{kinds[port.like].dtype}, as {port.like} has"
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
            values = (*binding.dims.items(), *attributes.items())
            got = ", ".join(f"{name} = {value}" for name, value in values)
            yield ContractError("relation broken", want=relation.text, got=got, hint=relation.hint)


def _output(
    port: Port, kinds: Mapping[str, ValueType], binding: Binding, integers: Mapping[str, int]
) -> ValueType:
    dtype = kinds[port.like].dtype if port.like else port.dtypes[0]
    return ValueType(dtype, shape_of(port.dims, binding, integers))
