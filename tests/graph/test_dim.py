"""Dimensions against Python's own integers: an expression's value at random bindings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.graph.dim import Dim

SYMBOLS = ("T", "past", "heads", "n_1", "_x")
BINDINGS = st.fixed_dictionaries({name: st.integers(-50, 50) for name in SYMBOLS})


@st.composite
def dims(draw: st.DrawFn) -> Dim:
    total = Dim.of(0)
    for _ in range(draw(st.integers(0, 4))):
        term = Dim.of(draw(st.integers(-9, 9)))
        for symbol in draw(st.lists(st.sampled_from(SYMBOLS), max_size=3)):
            term *= Dim.of(symbol)
        total += term
    return total


@given(dims(), dims(), BINDINGS)
def test_sums_and_products_are_those_of_the_values(a: Dim, b: Dim, binding: dict[str, int]) -> None:
    assert (a + b).at(binding) == a.at(binding) + b.at(binding)
    assert (a * b).at(binding) == a.at(binding) * b.at(binding)
    assert (a + 3).at(binding) == (3 + a).at(binding) == a.at(binding) + 3
    assert (a * -2).at(binding) == (-2 * a).at(binding) == a.at(binding) * -2


@given(dims(), dims(), dims())
def test_a_ring(a: Dim, b: Dim, c: Dim) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a + 0 == a * 1 == a
    assert a + a * -1 == a * 0 == Dim.of(0)


@given(dims())
def test_prints_and_parses_back(a: Dim) -> None:
    assert Dim.of(str(a)) == a


@given(dims(), st.fixed_dictionaries({name: dims() for name in SYMBOLS}), BINDINGS)
def test_substitution_is_evaluation_in_two_steps(
    a: Dim, values: dict[str, Dim], binding: dict[str, int]
) -> None:
    inner = {name: value.at(binding) for name, value in values.items()}
    assert a.substitute(values).at(binding) == a.at(inner)


@given(dims(), BINDINGS)
def test_a_constant_has_no_symbols(a: Dim, binding: dict[str, int]) -> None:
    assert (a.constant is None) == bool(a.symbols)
    if a.constant is not None:
        assert a.constant == a.at(binding)


@given(
    st.lists(st.tuples(st.sampled_from("+-"), st.lists(st.sampled_from(["2", "3", "T", "past"]), min_size=1)))
)
def test_parses_as_python_does(terms: list[tuple[str, list[str]]]) -> None:
    """The oracle evaluates the terms that the text was written from."""
    terms = [*terms, ("+", ["1"])]
    text = " ".join(f"{sign} {' * '.join(factors)}" for sign, factors in terms)
    binding = {"T": 5, "past": 7}
    value = 0
    for sign, factors in terms:
        product = 1
        for factor in factors:
            product *= binding[factor] if factor in binding else int(factor)
        value += product if sign == "+" else -product
    assert Dim.of(text).at(binding) == value


@pytest.mark.parametrize(
    "text", ["", " ", "a b", "*a", "a*", "a +", "3x", "a - -b", "a**b", "a/2", "(a", "1.5", "ä", "٣"]
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a dimension"):
        Dim.of(text)


def test_texts() -> None:
    assert str(Dim.of("heads*T - past + 0*x - 1 + 2*3")) == "T*heads - 1*past + 5"
    assert str(Dim.of(0)) == "0"
    assert str(Dim.of(-4)) == "-4"


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(KeyError, match="past"):
        Dim.of("T + past").at({"T": 1})


@given(dims(), dims(), st.fixed_dictionaries({name: st.integers(0, 9) for name in SYMBOLS}))
def test_what_is_said_to_be_unequal_is(a: Dim, b: Dim, binding: dict[str, int]) -> None:
    """`equals` at all sizes from 0 on, `differs` at all from 1 on."""
    same = a.at(binding) == b.at(binding)
    assert a.equals(b) in (None, same) or (a.equals(b) is False and not same)
    assert not (a.differs(b) and same and min(binding.values()) > 0)


@pytest.mark.parametrize(
    ("left", "right", "differ"),
    [
        ("4 * n", "6 * n", True),
        ("4 * n", "6 * n + 2", True),
        ("4 * n + 1", "6 * m", True),
        ("2 * n", "n + 4", False),
        ("4 * n", "6 * m", False),
        ("floor(n / 2)", "2 * floor(n / 2)", False),
        ("n", "n", False),
        ("4 * n", "0", False),
    ],
)
def test_sizes_that_differ(left: str, right: str, differ: bool) -> None:
    assert Dim.of(left).differs(Dim.of(right)) == Dim.of(right).differs(Dim.of(left)) == differ
