"""The check answers any graph with violations: it never raises, and what it passes can be resolved."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.ops import registry
from assay.ops.contract import check
from assay.ops.operator import Attribute, Operator, Port
from assay.ops.resolution import resolve
from assay.tensor.dtype import ALL

NAMES = [f"v{n}" for n in range(12)]
DIMS = st.sampled_from(
    [Dim.of(dim) for dim in (0, 1, 2, 32, 64, 256, -1, "T", "2*T", "S + 1", "32*n", "T*n")]
)


@st.composite
def types(draw: st.DrawFn, port: Port | None) -> ValueType:
    """Near what a port admits, or anything."""
    if port is None or draw(st.integers(0, 9)) == 0:
        return ValueType(draw(st.sampled_from(ALL)), tuple(draw(st.lists(DIMS, max_size=5))))
    shape = tuple(draw(DIMS) for _ in port.dims.split())
    return ValueType(draw(st.sampled_from(port.dtypes)), shape)


@st.composite
def attribute_values(draw: st.DrawFn, attribute: Attribute) -> AttributeValue:
    if attribute.choices and draw(st.booleans()):
        return draw(st.sampled_from(attribute.choices))
    kinds: dict[type, st.SearchStrategy[AttributeValue]] = {
        int: st.integers(0, 64),
        float: st.floats(),
        str: st.text(max_size=3),
        bool: st.booleans(),
    }
    strange = st.one_of(*kinds.values(), st.just((1, 2)))
    return draw(strange if draw(st.integers(0, 9)) == 0 else kinds[attribute.kind])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes, declared = [], {}
    for index in range(draw(st.integers(1, 3))):
        operator: Operator = draw(st.sampled_from(registry.all_operators()))
        inputs = [draw(st.sampled_from(NAMES)) for _ in operator.inputs]
        for name, port in zip(inputs, operator.inputs, strict=True):
            declared.setdefault(name, draw(types(port)))
        outputs = [f"{index}.{port.name}" for port in operator.outputs][draw(st.integers(0, 9)) == 0 :]
        for name in outputs:
            declared[name] = draw(types(None))
        attributes = {
            attribute.name: draw(attribute_values(attribute))
            for attribute in operator.attributes
            if draw(st.integers(0, 9))
        }
        nodes.append(Node(operator.name, tuple(inputs), tuple(outputs), attributes))
    sources = [name for name in NAMES if name in declared]
    kinds = {name: draw(st.sampled_from(("input", "weight", "state"))) for name in sources}
    inputs_of_graph, weights, states = (
        tuple(name for name in sources if kinds[name] == kind) for kind in ("input", "weight", "state")
    )
    ends = tuple(draw(st.lists(st.sampled_from([*NAMES, "0.y"]), max_size=2)))
    return Graph("any", inputs_of_graph, weights, states, tuple(nodes), ends, declared)


@pytest.mark.usefixtures("toys")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(graphs())
def test_any_graph_gets_an_answer(graph: Graph) -> None:
    errors = check(graph)
    for error in errors:
        assert error.place.startswith("any › line ")
        assert error.rule
        assert error.want
        assert error.got
        assert str(error).startswith(error.place)
    if not errors:
        for node in graph.nodes:
            resolution = resolve(node, graph.types)
            assert resolution.outputs == tuple(graph.types[name] for name in node.outputs)
