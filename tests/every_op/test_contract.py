"""Every operator's contract: its cases resolve, and whatever is changed about them is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

import pytest

from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Node, ValueType
from assay.ops import registry
from assay.ops.contract import check
from assay.ops.operator import Attribute, Attributes, Operator, Port
from assay.ops.pattern import parse
from assay.ops.resolution import resolve
from assay.tensor import dtype as dtypes
from assay.tensor.dtype import F32
from every_op.case import Case
from every_op.harness import cases, graph_of, node_of, site_of

every_operator = pytest.mark.parametrize("operator", registry.all_operators(), ids=attrgetter("name"))


def refusal(operator: Operator, case: Case) -> ContractError:
    with pytest.raises(ContractError) as caught:
        site_of(operator, case)
    error = caught.value
    assert error.place == f'node "node" ({operator.name})' and error.want and error.got and error.hint, error
    return error


def with_type(case: Case, position: int, kind: ValueType) -> Case:
    return replace(case, types=(*case.types[:position], kind, *case.types[position + 1 :]))


@every_operator
def test_cases_keep_the_contract(operator: Operator) -> None:
    for case in cases(operator):
        graph = graph_of(operator, case)
        assert check(graph) == [], case.name
        for port, array, kind in zip(operator.inputs, case.inputs, case.types, strict=True):
            if not kind.dtype.quantised:
                assert array.shape == tuple(dim.at({}) for dim in kind.shape), port.name
                assert array.dtype == kind.dtype.numpy, port.name
            assert array.nbytes == kind.nbytes({}), port.name


@every_operator
def test_other_dtypes_are_refused_naming_the_port(operator: Operator) -> None:
    case = cases(operator)[0]
    for position, port in enumerate(operator.inputs):
        for dtype in dtypes.ALL:
            if dtype not in port.dtypes:
                error = refusal(
                    operator, with_type(case, position, ValueType(dtype, case.types[position].shape))
                )
                assert error.rule == f"input {port.name}: dtype not admitted"
                assert str(dtype) in error.got and str(port.dtypes[0]) in error.want


@every_operator
def test_unlike_dtypes_are_refused(operator: Operator) -> None:
    for port in operator.inputs:
        if port.like:
            position = operator.inputs.index(port)
            case = cases(operator)[0]
            other = next(dtype for dtype in port.dtypes if dtype != case.types[position].dtype)
            error = refusal(operator, with_type(case, position, ValueType(other, case.types[position].shape)))
            assert error.rule == f"input {port.name}: dtype not admitted"
            assert error.want.endswith(f"as {port.like} has")


@every_operator
def test_other_ranks_are_refused_naming_the_port(operator: Operator) -> None:
    case = cases(operator)[-1]
    for position, port in enumerate(operator.inputs):
        kind = case.types[position]
        for shape in ((*kind.shape, Dim.of(3)), kind.shape[:-1]):
            if parse(port.dims).rest:
                if len(operator.inputs) > 1 and shape:
                    assert refusal(operator, with_type(case, position, ValueType(kind.dtype, shape))).rule
            else:
                error = refusal(operator, with_type(case, position, ValueType(kind.dtype, shape)))
                assert error.rule == f"input {port.name}: wrong rank"


def bound_elsewhere(operator: Operator, port: Port, axis: int) -> list[str]:
    """The ports whose dimensions share a name with this axis, itself too; empty when the axis is free."""
    names = parse(port.dims).axes[axis].dim.symbols
    attributes = {attribute.name for attribute in operator.attributes}
    sharing = []
    for other in operator.inputs:
        for number, each in enumerate(parse(other.dims).axes):
            if names & each.dim.symbols and (other, number) != (port, axis):
                sharing.append(other.name)
    return [port.name, *sharing] if sharing or names & attributes or not names else []


@every_operator
def test_other_dimensions_are_refused_naming_a_port(operator: Operator) -> None:
    """Each axis that another one, an attribute or a number decides is changed by one."""
    for case in cases(operator)[-3:]:
        for position, port in enumerate(operator.inputs):
            if parse(port.dims).rest:
                continue
            kind = case.types[position]
            for axis in range(len(kind.shape)):
                ports = bound_elsewhere(operator, port, axis)
                if not ports:
                    continue
                shape = (*kind.shape[:axis], kind.shape[axis] + 1, *kind.shape[axis + 1 :])
                error = refusal(operator, with_type(case, position, ValueType(kind.dtype, shape)))
                named = error.rule.split()[1].rstrip(":")
                assert named in ports and "axis" in error.rule, (port.name, axis, str(error))


IN_PANELS = [operator for operator in registry.all_operators() if any(p.panels for p in operator.inputs)]


@pytest.mark.parametrize("operator", IN_PANELS, ids=attrgetter("name"))
@pytest.mark.parametrize("kind", ["input", "state", "node"])
def test_what_kernels_read_in_panels_must_be_a_weight(operator: Operator, kind: str) -> None:
    """Any other value's bytes lie in rows, and the kernel would take them for panels."""
    for case in cases(operator):
        graph = graph_of(operator, case)
        (name,) = [port.name for port in operator.inputs if port.panels]
        inputs, states, nodes = graph.inputs, graph.states, graph.nodes
        if kind == "input":
            inputs = (*inputs, name)
        elif kind == "state":
            states = (*states, name)
        elif graph.types[name].dtype == F32:
            inputs, types = (*inputs, "before"), {**graph.types, "before": graph.types[name]}
            nodes = (Node("silu", ("before",), (name,)), *nodes)
            graph = replace(graph, types=types)
        else:
            continue
        weights = tuple(weight for weight in graph.weights if weight != name)
        changed = replace(graph, inputs=inputs, weights=weights, states=states, nodes=nodes)
        (error,) = check(changed)
        assert error.rule == f"input {name}: not a weight" and error.want == "a weight of the graph"
        assert error.got.startswith(f"{name}, ") and kind in error.got and "packed" in error.hint


def wrong_values(attribute: Attribute) -> Iterator[tuple[AttributeValue, str]]:
    other = {int: 1.5, float: 1, str: 3, bool: 1}[attribute.kind]
    yield other, "wrong kind of value"
    if attribute.kind is int:
        yield True, "wrong kind of value"
    if attribute.kind is float:
        yield from ((value, "not finite") for value in (float("nan"), float("inf")))
    for limit, step in ((attribute.low, -1), (attribute.high, 1)):
        if limit is not None:
            yield attribute.kind(limit + step), "out of range"
    if attribute.choices:
        yield "no such choice", "not one of the choices"


@every_operator
def test_other_attributes_are_refused_by_name(operator: Operator) -> None:
    case = cases(operator)[0]
    for attribute in operator.attributes:
        for value, rule in wrong_values(attribute):
            error = refusal(operator, replace(case, attributes={**case.attributes, attribute.name: value}))
            assert error.rule == f"attribute {attribute.name}: {rule}"
        without = {name: value for name, value in case.attributes.items() if name != attribute.name}
        if attribute.default is None:
            error = refusal(operator, replace(case, attributes=without))
            assert error.rule == f"attribute {attribute.name} missing"
        else:
            given = site_of(operator, replace(case, attributes=without)).attributes
            assert given[attribute.name] == attribute.default
    error = refusal(operator, replace(case, attributes={**case.attributes, "unheard_of": 1}))
    assert error.rule == "unknown attribute unheard_of"


@every_operator
def test_other_arities_are_refused(operator: Operator) -> None:
    case = cases(operator)[0]
    node, types = node_of(operator, case)
    for changed, rule in (
        (replace(node, inputs=node.inputs[:-1]), "inputs"),
        (replace(node, inputs=(*node.inputs, node.inputs[0])), "inputs"),
        (replace(node, outputs=()), "outputs"),
        (replace(node, outputs=(*node.outputs, "more")), "outputs"),
    ):
        with pytest.raises(ContractError) as caught:
            resolve(changed, types)
        assert caught.value.rule == f"wrong number of {rule}"
        ports = operator.inputs if rule == "inputs" else operator.outputs
        assert all(port.name in caught.value.want for port in ports)


BREACHES: dict[tuple[str, int], tuple[dict[int, tuple[int, ...]], Attributes]] = {
    # (operator, relation): shapes to change by input number, and attributes.
    ("adjust", 0): ({0: (1, 65), 2: (1, 2)}, {}),
    ("attention", 0): ({0: (5, 48), 1: (7, 2, 16, 64), 2: (7, 2, 64, 16)}, {"heads": 3}),
    ("attention", 1): ({}, {"causal": False, "window": 8}),
    ("attention", 2): ({0: (5, 16), 1: (7, 2, 8, 64), 2: (7, 2, 64, 8)}, {"heads": 2}),
    ("rotary", 0): ({0: (4, 32), 1: (4, 34)}, {"heads": 1, "head_dim": 32}),
    ("sample", 0): ({0: (3, 2**22 + 1), 1: (1, 2**22 + 1)}, {}),
}
"""For each relation, how a case is changed so that nothing else is broken."""


@every_operator
def test_broken_relations_are_refused_by_their_text(operator: Operator) -> None:
    for number, relation in enumerate(operator.relations):
        shapes, attributes = BREACHES[operator.name, number]
        case = cases(operator)[0]
        types = list(case.types)
        rows = {}
        for position, shape in shapes.items():
            types[position] = ValueType.of(types[position].dtype, *shape)
            rows[parse(operator.inputs[position].dims).axes[0].name] = shape[0]
        for position, port in enumerate(operator.inputs):
            first = parse(port.dims).axes[0].name
            if position not in shapes and first in rows:
                types[position] = ValueType(
                    types[position].dtype, (Dim.of(rows[first]), *types[position].shape[1:])
                )
        changed = replace(case, types=tuple(types), attributes={**case.attributes, **attributes})
        error = refusal(operator, changed)
        assert error.rule == "relation broken" and error.want == relation.text, str(error)
