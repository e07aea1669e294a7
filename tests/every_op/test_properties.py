"""Every operator on random shapes and attributes of its contract."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.ops import registry
from assay.ops.contract import check
from assay.ops.operator import Operator
from assay.runtime.cpu import Cpu
from every_op.compare import bits_differ, differ
from every_op.draws import drawn_cases
from every_op.harness import POISON, Bench, exactness, graph_of, magnitudes, reference, run
from every_op.rows import SEQUENTIAL, splitter


@pytest.mark.parametrize("operator", registry.all_operators(), ids=attrgetter("name"))
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_shape(
    operator: Operator, devices: dict[int, Cpu], guarded: dict[int, Cpu], data: st.DataObject
) -> None:
    """Right, the same on three threads, inside its memory, and each part as in the whole."""
    case = data.draw(drawn_cases(operator))
    assert check(graph_of(operator, case)) == []
    bench = Bench(operator, case, guarded[1])
    bench.run()
    memory, gaps = bench.memory(), bench.gaps()
    memory[:] = POISON
    whole = bench.run()
    assert (memory[gaps] == POISON).all()
    guarded[1].pool.verify_guards()
    for found, expected, magnitude in zip(
        whole, reference(operator, case), magnitudes(operator, case), strict=True
    ):
        assert not differ(exactness(operator, case), found, expected, magnitude)
    for found, expected in zip(run(operator, case, devices[3]), whole, strict=True):
        assert not bits_differ(found, expected)
    cut = splitter(operator)
    if operator.name in SEQUENTIAL or cut is None or case.types[0].shape == ():
        return
    for part in cut(operator, case):
        for found, expected in zip(run(operator, part.case, devices[2]), whole, strict=True):
            assert not bits_differ(found, np.ascontiguousarray(expected[part.begin : part.end]))
