"""Building a graph by name: inferred types, names of outputs, and errors at the step that is wrong."""

from __future__ import annotations

import pytest

from assay.errors import ContractError
from assay.graph.graph import Graph, Node, ValueType
from assay.graph.listing import listing, parse
from assay.ops.builder import Builder
from assay.ops.contract import check
from assay.tensor.dtype import F16, F32, I32, I64, Q8_0

pytestmark = pytest.mark.usefixtures("toys")


def layers(count: int) -> Graph:
    builder = Builder("tiny")
    x = builder.input("x", F32, "T", 64)
    slots = builder.input("slots", I32, "T")
    w = builder.weight("w", F32, 64, 64)
    n = builder.weight("n", F32, 64)
    cache = builder.state("cache", F16, "P", 64)
    for layer in range(count):
        h = builder.op("toy_norm", x, n, name=f"{layer}.norm", eps=1e-3)
        y = builder.op("toy_matmul", h, w, name=f"{layer}.proj", output=f"y{layer}")
        cache = builder.op("toy_write", cache, y, slots)
        x = builder.op("toy_attend", x, cache)
    values, indices = builder.ops("toy_top", x, k=3, output="best")
    builder.output(values)
    builder.output(indices)
    return builder.graph()


def test_types_and_names() -> None:
    graph = layers(2)
    assert check(graph) == []
    assert graph.inputs == ("x", "slots")
    assert graph.weights == ("w", "n")
    assert graph.states == ("cache",)
    assert graph.outputs == ("best.values", "best.indices")
    outputs = [output for node in graph.nodes for output in node.outputs]
    assert outputs == [
        "x0",
        "y0",
        "cache'1",
        "x3",
        "x4",
        "y1",
        "cache'2",
        "x7",
        "best.values",
        "best.indices",
    ]
    assert graph.types["y1"] == ValueType.of(F32, "T", 64)
    assert graph.types["cache'2"] == graph.types["cache"] == ValueType.of(F16, "P", 64)
    assert graph.types["best.indices"] == ValueType.of(I64, "T", 3)
    assert graph.nodes[0] == Node("toy_norm", ("x", "n"), ("x0",), {"eps": 1e-3}, "0.norm")
    assert parse(listing(graph)) == graph


def test_generated_names_avoid_those_that_exist() -> None:
    builder = Builder("g")
    a = builder.input("x0", F32, 4)
    state = builder.state("s", F16, "P", 4)
    builder.input("s'1", F32, 4)
    assert builder.op("toy_add", a, a) == "x1"
    x = builder.input("x", F32, "T", 4)
    slots = builder.input("slots", I32, "T")
    assert builder.op("toy_write", state, x, slots) == "s'2"


def test_a_state_may_be_given_a_name_of_choice() -> None:
    builder = Builder("g")
    state, x = builder.state("s", F16, "P", 4), builder.input("x", F32, "T", 4)
    slots = builder.input("slots", I32, "T")
    again = builder.op("toy_write", state, x, slots, output="after")
    assert again == "after"
    assert builder.op("toy_write", again, x, slots) == "s'1"
    assert check(builder.graph()) == []


def test_a_breach_is_raised_at_its_step() -> None:
    builder = Builder("g")
    x, w = builder.input("x", F32, "T", 64), builder.weight("w", F32, 32, 96)
    with pytest.raises(ContractError) as caught:
        builder.op("toy_matmul", x, w, name="proj")
    assert caught.value.place == 'g › node "proj" (toy_matmul)'
    assert (caught.value.want, caught.value.got) == (
        "K = 64 (K from x[1])",
        "96 in w: float32[32, 96], a weight",
    )


def test_all_breaches_of_a_step_are_raised_together() -> None:
    builder = Builder("g")
    x = builder.input("x", F32, "T", 64)
    with pytest.raises(ContractError) as caught:
        builder.ops("toy_top", x, k=0, mode="up")
    assert [error.rule for error in caught.value.violations] == [
        "attribute k: out of range",
        "attribute mode: not one of the choices",
    ]
    assert {error.place for error in caught.value.violations} == {'g › node "x0.values" (toy_top)'}
    assert all(str(error) in str(caught.value) for error in caught.value.violations)


def test_unknown_operator() -> None:
    with pytest.raises(ContractError) as caught:
        Builder("my model").op("toy_ad")
    assert (caught.value.place, caught.value.rule) == ('"my model"', "unknown operator")


def test_several_outputs_are_asked_for_as_such() -> None:
    builder = Builder("g")
    x = builder.input("x", F32, "T", 64)
    with pytest.raises(ContractError) as caught:
        builder.op("toy_top", x, k=1)
    assert (caught.value.place, caught.value.got) == ("g › toy_top", "2: x0.values, x0.indices")


def test_a_wrong_declaration() -> None:
    builder = Builder("g")
    builder.input("x", F32, "T")
    with pytest.raises(ContractError) as caught:
        builder.weight("x", F32, 4)
    assert (caught.value.place, caught.value.rule) == ("g › weight x", "value defined twice")
    with pytest.raises(ContractError, match="rows are not whole blocks"):
        Builder("g").weight("w", Q8_0, 4, 33)
    with pytest.raises(ValueError, match="not a dimension"):
        Builder("g").input("x", F32, "T T")


def test_outputs_are_values_that_stay() -> None:
    builder = Builder("g")
    state, x = builder.state("s", F16, "P", 4), builder.input("x", F32, "T", 4)
    slots = builder.input("slots", I32, "T")
    with pytest.raises(ContractError) as caught:
        builder.output("y")
    assert (caught.value.place, caught.value.rule) == ("g › output y", "value undefined")
    builder.output(state)
    builder.op("toy_write", state, x, slots)
    with pytest.raises(ContractError, match="state read after its change"):
        builder.graph()
