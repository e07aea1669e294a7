"""Passes keep every contract, whatever the values of a graph are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.compiler.lower import quantize_activations
from assay.ops.builder import Builder
from assay.ops.contract import check
from assay.tensor.dtype import F32, Q4_1, Q8_0
from compiler.graphs import Sample, samples

NAMES = ("x", "x.q", "x.q'", "x.q''", "x.scale", "x.scale'", "x.sum", "x.sum'", "x.quantize")


@given(order=st.permutations(NAMES), layers=st.integers(1, 4))
def test_names_of_a_graph_are_left_to_it(order: list[str], layers: int) -> None:
    """A chain of maps whose values and weights have the names that the pass would give to its own."""
    b = Builder("g")
    names = iter(order)
    value = b.input(next(names), F32, "T", 64)
    for _ in range(layers):
        value = b.op("linear", value, b.weight(next(names), Q8_0, 64, 64), output=next(names))
    b.output(value)
    made = quantize_activations(b.graph())
    assert check(made) == []
    assert [node.op for node in made.nodes] == ["quantize", "linear_quantized"] * layers
    assert made.outputs == (value,)


def test_an_input_is_quantised_once() -> None:
    b = Builder("g")
    x = b.input("x", F32, "T", 64)
    for number, dtype in enumerate((Q8_0, Q4_1, F32)):
        b.output(b.op("linear", x, b.weight(f"w{number}", dtype, 32, 64)))
    made = quantize_activations(b.graph())
    assert check(made) == []
    assert [node.op for node in made.nodes] == ["quantize", "linear_quantized", "linear_quantized", "linear"]


@given(sample=samples())
def test_what_is_built_step_by_step_keeps_every_contract(sample: Sample) -> None:
    assert check(sample.graph) == []
    assert check(quantize_activations(sample.graph)) == []
