"""Patterns: what binds, what agrees, and what a mismatch says."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.ops.pattern import Binding, parse, shape_of, unify


def shape(*dims: int | str) -> tuple[Dim, ...]:
    return tuple(Dim.of(dim) for dim in dims)


class Mismatch(NamedTuple):
    """What an error about a shape says, at one axis or by its rank."""

    port: str
    axis: int | None
    want: str
    got: str


def told(error: ContractError) -> Mismatch:
    port, rule = error.rule.removeprefix("input ").split(": ")
    axis = None if rule == "wrong rank" else int(rule.removeprefix("axis ").removesuffix(" disagrees"))
    got, place = error.got.split(" in ")
    assert place == f"port {port}"
    return Mismatch(port, axis, error.want, got)


def bind(patterns: str, *shapes: tuple[Dim, ...] | None, **integers: int) -> tuple[Binding, list[Mismatch]]:
    """Ports a, b, c with patterns parted by `;`."""
    named = dict(zip("abc", (text.strip() for text in patterns.split(";")), strict=False))
    known = {port: shape for port, shape in zip(named, shapes, strict=True) if shape is not None}
    binding, errors = unify(named, known, integers, lambda port: f"port {port}")
    return binding, [told(error) for error in errors]


def test_names_bind_and_must_agree() -> None:
    binding, wrong = bind("T K; N K", shape("T", 64), shape(32, 64))
    assert (dict(binding.dims), wrong) == ({"T": Dim.of("T"), "K": Dim.of(64), "N": Dim.of(32)}, [])
    assert shape_of("T N", binding, {}) == shape("T", 32)
    _, wrong = bind("T K; N K", shape("T", 64), shape(64, 32))
    assert wrong == [Mismatch("b", 1, "K = 64 (K from a[1])", "32")]


def test_symbols_agree_in_canonical_form_only() -> None:
    assert bind("T; T", shape("2*n + past"), shape("past + n*2"))[1] == []
    assert bind("T; T", shape("n"), shape("m"))[1] == [Mismatch("b", 0, "T = n (T from a[0])", "m")]


def test_symbols_of_values_are_not_names_of_patterns() -> None:
    binding, wrong = bind("N K; K N", shape("K", "N"), shape("N", "K"))
    assert wrong == []
    assert binding.dims["N"] == Dim.of("K")
    assert shape_of("N*2 K", binding, {}) == shape("2*K", "N")


def test_expressions_are_checked_wherever_they_stand() -> None:
    binding, wrong = bind("T heads*head_dim; head_dim", shape("T", 576), shape(64), heads=9)
    assert wrong == []
    assert "heads" not in binding.dims
    assert shape_of("T heads head_dim", binding, {"heads": 9}) == shape("T", 9, 64)
    _, wrong = bind("T heads*head_dim; head_dim", shape("T", 577), shape(64), heads=9)
    want = "heads*head_dim = 576 (head_dim = 64 from b[0], heads = 9 from an attribute)"
    assert wrong == [Mismatch("a", 1, want, "577")]


def test_a_name_times_a_number_binds_the_quotient() -> None:
    binding, wrong = bind("T 32*B", shape("T", 576))
    assert (binding.dims["B"], wrong) == (Dim.of(18), [])
    assert bind("T 32*B", shape("T", "64*n + 32"))[0].dims["B"] == Dim.of("2*n + 1")
    assert bind("32*B; B", shape(64), shape(2))[1] == []
    assert bind("B; 32*B", shape(2), shape(96))[1] == [Mismatch("b", 0, "32*B = 64 (B = 2 from a[0])", "96")]
    for got in (33, "n", "32*n + 1"):
        wrong = bind("32*B", shape(got))[1]
        assert wrong == [Mismatch("a", 0, "32*B = a multiple of 32", str(Dim.of(got)))]


def test_a_bare_attribute_is_checked_not_bound() -> None:
    assert bind("k", shape(3), k=3)[1] == []
    assert bind("k", shape(3), k=4)[1] == [Mismatch("a", 0, "k = 4 (k from an attribute)", "3")]


def test_literals() -> None:
    assert bind("T 1", shape("T", 1))[1] == []
    assert bind("T 1", shape("T", 2))[1] == [Mismatch("a", 1, "1", "2")]
    assert bind("", ())[1] == []


def test_rank() -> None:
    assert bind("T K", shape(4))[1] == [Mismatch("a", None, "2 for [T K]", "1")]
    assert bind("T", shape(4, 4))[1] == [Mismatch("a", None, "1 for [T]", "2")]
    assert bind("... N K", shape(4))[1] == [Mismatch("a", None, "2 or more for [... N K]", "1")]


def test_rest() -> None:
    binding, wrong = bind("... N; N", shape("b", "T", 64), shape(64))
    assert (binding.rest, wrong) == (shape("b", "T"), [])
    assert binding.dims["..."] == Dim.of("b*T")
    assert shape_of("... 2*N", binding, {}) == shape("b", "T", 128)
    binding, wrong = bind("... N", shape(64))
    assert (binding.rest, binding.dims["..."], wrong) == ((), Dim.of(1), [])
    assert bind("...; ...", shape(2, 3), shape(2, 4))[1] == [Mismatch("b", 1, "... = 3 (... from a[1])", "4")]
    assert bind("... N; N", shape(2, 3, 4), shape(5))[1] == [Mismatch("b", 0, "N = 4 (N from a[2])", "5")]
    assert bind("N; ... N", shape(5), shape(2, 3, 4))[1] == [Mismatch("b", 2, "N = 5 (N from a[0])", "4")]
    want = "3 for [... N] (... has 2 from a)"
    assert bind("...; ... N", shape(2, 3), shape(2, 4))[1] == [Mismatch("b", None, want, "2")]


def test_unknown_shapes_bind_nothing_and_cause_nothing() -> None:
    binding, wrong = bind("T K; N K*N", None, shape(3, 4))
    assert (dict(binding.dims), wrong) == ({"N": Dim.of(3)}, [])
    with pytest.raises(KeyError, match="K"):
        shape_of("K", binding, {})


@pytest.mark.parametrize("text", ["T ... N", "a**b", "2x", "(T"])
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a dimension"):
        parse(text)


NAMES = st.sampled_from(["T", "K", "N"])


@given(
    st.lists(st.lists(NAMES, max_size=4), min_size=1, max_size=3),
    st.fixed_dictionaries({"T": st.integers(0, 9), "K": st.integers(0, 9), "N": st.integers(0, 9)}),
    st.data(),
)
def test_shapes_made_from_values_agree_and_one_changed_axis_does_not(
    ports: list[list[str]], values: dict[str, int], data: st.DataObject
) -> None:
    shapes = [shape(*(values[name] for name in names)) for names in ports]
    binding, wrong = bind(";".join(map(" ".join, ports)), *shapes)
    assert wrong == []
    assert binding.dims == {name: Dim.of(values[name]) for names in ports for name in names}
    used = [name for names in ports for name in names]
    repeated = [
        (p, i) for p, names in enumerate(ports) for i, name in enumerate(names) if used.count(name) > 1
    ]
    if repeated:
        port, axis = data.draw(st.sampled_from(repeated))
        changed = list(shapes[port])
        changed[axis] += 1
        shapes[port] = tuple(changed)
        assert bind(";".join(map(" ".join, ports)), *shapes)[1]
