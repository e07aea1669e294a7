"""The contract page: one in full, and that every registered operator has one that says everything."""

from __future__ import annotations

import pytest

from assay.ops import registry
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
        "- Differentiable in `x`, `w`.\n"
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
    assert "Differentiable" not in text
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
        assert all(relation.text in text for relation in operator.relations)
        assert all(rule in text for rule in operator.numerics)
