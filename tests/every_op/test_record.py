"""Every operator's record is complete, and its cases reach what it promises."""

from __future__ import annotations

from operator import attrgetter

import pytest

from assay.ops import registry
from assay.ops.operator import Operator
from assay.ops.page import page
from assay.ops.record import check_record
from every_op.harness import cases
from every_op.rows import SEQUENTIAL, SPLITTERS, splitter

every_operator = pytest.mark.parametrize("operator", registry.all_operators(), ids=attrgetter("name"))


def test_the_registry_is_full() -> None:
    assert len(registry.all_operators()) >= 14


@every_operator
def test_record_is_complete(operator: Operator) -> None:
    check_record(operator, operator.name)
    assert operator.summary.endswith(".") and operator.since >= 1
    if operator.exactness.kind != "bitwise":
        assert operator.exactness.why
    for kernel in operator.kernels:
        assert kernel.when == "always" or len(operator.kernels) > 1, f"{kernel.name}: no other kernel applies"
    assert operator.summary in page(operator)


@every_operator
def test_cases_reach_every_dtype_and_choice(operator: Operator) -> None:
    own = cases(operator)
    assert len(own) >= 3
    assert len({case.name for case in own}) == len(own), "cases with one name"
    for position, port in enumerate(operator.inputs):
        assert {case.types[position].dtype for case in own} == set(port.dtypes), port.name
    for attribute in operator.attributes:
        given = {case.attributes.get(attribute.name, attribute.default) for case in own}
        if attribute.kind is bool:
            assert given == {False, True}, attribute.name
        assert given >= set(attribute.choices), attribute.name


@every_operator
def test_batching_is_described(operator: Operator) -> None:
    """Either rows can be found in the ports, or rows.py says how the operator's batch is cut."""
    assert (splitter(operator) is None) == (operator.name in SEQUENTIAL)


def test_rows_py_names_operators() -> None:
    names = {operator.name for operator in registry.all_operators()}
    assert {*SPLITTERS, *SEQUENTIAL} <= names
