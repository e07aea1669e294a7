"""The contract page: one in full, and that every registered operator has one that says everything."""

from __future__ import annotations

from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.ops import registry
from assay.ops.operator import Exactness, Operator
from assay.ops.page import page
from toys import MATMUL, TOP, TOYS, WRITE


def test_page() -> None:
    assert page(MATMUL) == (
        "# toy_matmul\n"
        "\n"
        "The toy toy_matmul.\n"
        "\n"
        "Since version 1.\n"
        "\n"
        "```\n"
        "y = f(x)\n"
        "```\n"
        "\n"
        "## Inputs\n"
        "\n"
        "| name | dtype | dimensions | |\n"
        "| --- | --- | --- | --- |\n"
        "| `x` | float32, float16 | `[T, K]` | rows |\n"
        "| `w` | float32, float16 (as `x`) | `[N, K]` | weights, a row per output |\n"
        "\n"
        "## Outputs\n"
        "\n"
        "| name | dtype | dimensions | |\n"
        "| --- | --- | --- | --- |\n"
        "| `y` | float32, float16 (as `x`) | `[T, N]` | products |\n"
        "\n"
        "## Relations\n"
        "\n"
        "- K % 32 == 0. If broken: pad the rows of both inputs.\n"
        "\n"
        "## Numerics\n"
        "\n"
        "- Sums run along K.\n"
        "- Exactness: within 4 units in the last place of the reference's result"
        " (K additions in float32).\n"
        "\n"
        "## Gradient\n"
        "\n"
        "- No rule yet for `x`, `w`.\n"
        "\n"
        "## Kernels\n"
        "\n"
        "The first that applies is taken; all give the same bits.\n"
        "\n"
        "| kernel | applies |\n"
        "| --- | --- |\n"
        "| `toy_toy_matmul` | always |\n"
    )


def test_attributes_and_states() -> None:
    text = page(TOP)
    assert "| `k` | int | required | at least 1 | how many |\n" in text
    assert "| `mode` | str | `'descending'` | descending \\| ascending | order |\n" in text
    assert "- Not in `x`: the choice is discrete.\n" in text
    assert "No rule yet" not in text
    text = page(WRITE)
    assert "| `cache` | float16 | `[P, D]` | slots; a state, changed in place |\n" in text
    assert "the cache with the rows; the memory of `cache`" in text


@pytest.mark.usefixtures("toys")
def test_every_operator_has_a_page() -> None:
    operators = registry.all_operators()
    assert all(toy in operators for toy in TOYS)
    for operator in operators:
        text = page(operator)
        assert text.startswith(f"# {operator.name}\n")
        assert "\n\n\n" not in text
        assert "None" not in text
        for port in (*operator.inputs, *operator.outputs):
            assert f"| `{port.name}` |" in text
        for item in (*operator.attributes, *operator.kernels):
            assert f"| `{item.name}` |" in text
        panels = [line for line in text.splitlines() if "a weight of the graph" in line]
        assert len(panels) == sum(port.panels for port in operator.inputs)
        assert all(relation.text in text for relation in operator.relations)
        assert all(rule in text for rule in operator.numerics)


GROWING = [operator for operator in registry.all_operators() if isinstance(operator.exactness.ulp, str)]


@pytest.mark.parametrize("operator", GROWING, ids=attrgetter("name"))
def test_the_bound_on_the_page_is_the_bound_that_holds(operator: Operator) -> None:
    """Nothing limits it."""
    assert f"- Exactness: within {operator.exactness.ulp} units in the last place of " in page(operator)
    assert "≤" not in operator.exactness.why, "a limit of the sizes belongs to the formula"


@given(k=st.integers(1, 10**6), r=st.integers(1, 10**6))
def test_bounds_by_hand(k: int, r: int) -> None:
    dims = {"K": k, "R": r}
    assert Exactness("ulp", "(K + R) / 128 + 515").limit(dims) == (k + r) / 128 + 515
    assert Exactness("ulp", "5 * K + 4").limit(dims) == 5 * k + 4
    assert Exactness("ulp", 2.5).limit(dims) == 2.5
    for text, error in (("N", KeyError), ("K ** 2", ValueError), ("K(2)", ValueError), ("K +", SyntaxError)):
        with pytest.raises(error):
            Exactness("ulp", text).limit(dims)


def test_operators_have_growing_bounds() -> None:
    assert {operator.name for operator in GROWING} >= {"linear", "linear_quantized", "rms_norm"}
