"""One node held against its operator: the types and dimensions that follow, or everything that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from assay.errors import ContractError
from assay.graph.graph import AttributeValue, Node, ValueType
from assay.graph.text import KEYWORDS, quote
from assay.ops import registry
from assay.ops.attributes import fill
from assay.ops.operator import Operator, Port, Site
from assay.ops.pattern import Binding, shape_of, unify


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
    """`node "blk.0.attn_q" (linear)`; a node without a name goes by its first output. What stands for a line
    that is no node goes by its word: `input x`.
    """
    if node.op in KEYWORDS:
        return f"{node.op} {quote(next(iter((*node.inputs, *node.outputs)), ''))}"
    name = node.name or next(iter(node.outputs), "")
    return f"node {json.dumps(name)} ({quote(node.op)})"


def line_of(node: Node) -> str:
    """The node's place, behind its line in the file if it has one: `line 3 › node "fc1" (Gemm)`."""
    return f"line {node.line} › {place_of(node)}" if node.line else place_of(node)


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
    names = operator.named(node)
    kinds = {port.name: types[names[port.name]] for port in operator.inputs if names.get(port.name) in types}

    def describe(port: str) -> str:
        return ", ".join(filter(None, (f"{quote(names[port])}: {kinds[port]}", origin(names[port]))))

    for what, ports, given in (
        ("inputs", operator.inputs, node.inputs),
        ("outputs", operator.outputs, node.outputs),
    ):
        if len(given) != len(ports):
            want = f"{len(ports)}: {', '.join(port.name for port in ports)}" if ports else "none"
            errors.append(ContractError(f"wrong number of {what}", want=want, got=str(len(given))))
    binding = Binding({})
    if len(node.inputs) == len(operator.inputs):
        errors += _dtypes(operator.inputs, kinds, describe)
        patterns = {port.name: port.dims for port in operator.inputs}
        shapes = {port: kind.shape for port, kind in kinds.items()}
        binding, broken = unify(patterns, shapes, integers, describe)
        errors += broken
    site = None
    if not errors and len(kinds) == len(operator.inputs):
        dtypes = (kinds[port.like].dtype if port.like else port.dtypes[0] for port in operator.outputs)
        made = (shape_of(port.dims, binding, integers) for port in operator.outputs)
        outputs = tuple(map(ValueType, dtypes, made))
        site = Site(operator, tuple(kinds.values()), outputs, binding.dims, attributes, binding.rest)
        errors += _relations(site)
    for found in errors:
        found.hint = found.hint or f"assay contract {operator.name}"
        found.at(place_of(node))
    return None if errors else site, errors


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


def _relations(site: Site) -> Iterator[ContractError]:
    for relation in site.operator.relations:
        if not relation.holds(site):
            values = (*site.dims.items(), *site.attributes.items())
            got = ", ".join(f"{name} = {value}" for name, value in values)
            yield ContractError("relation broken", want=relation.text, got=got, hint=relation.hint)
