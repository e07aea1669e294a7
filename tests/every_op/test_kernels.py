"""Every operator's kernels on its own cases: right, always the same bits, inside their memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

import numpy as np
import pytest

from assay.graph.graph import ValueType
from assay.ops import registry
from assay.ops.operator import Operator
from assay.runtime.cpu import Cpu
from every_op.case import Case
from every_op.compare import bits_differ, differ
from every_op.harness import (
    POISON,
    Bench,
    all_cases,
    applicable,
    cases,
    exactness,
    magnitudes,
    only,
    reference,
    run,
    site_of,
)
from every_op.rows import SEQUENTIAL, splitter

ALL = all_cases()
every_case = pytest.mark.parametrize(
    ("operator", "case"), [(operator, case) for _, operator, case in ALL], ids=[name for name, _, _ in ALL]
)
every_operator = pytest.mark.parametrize("operator", registry.all_operators(), ids=attrgetter("name"))


@every_case
def test_kernel_agrees_with_reference(operator: Operator, case: Case, devices: dict[int, Cpu]) -> None:
    """Within the exactness that the operator declares; see Exactness for what that is relative to."""
    results = zip(
        operator.outputs,
        run(operator, case, devices[1]),
        reference(operator, case),
        magnitudes(operator, case),
        strict=True,
    )
    for port, found, expected, magnitude in results:
        assert not (problem := differ(exactness(operator, case), found, expected, magnitude)), (
            f"{case.name}: {port.name}: {problem}"
        )


@every_case
def test_shape_rule_is_the_references(operator: Operator, case: Case) -> None:
    site = site_of(operator, case)
    for port, kind, result in zip(operator.outputs, site.outputs, reference(operator, case), strict=True):
        assert tuple(dim.at({}) for dim in kind.shape) == result.shape, port.name
        assert kind.dtype.numpy.kind == result.dtype.kind, port.name


@every_case
def test_reference_changes_no_input(operator: Operator, case: Case) -> None:
    before = [array.copy() for array in case.inputs]
    reference(operator, case)
    magnitudes(operator, case)
    for port, now, then in zip(operator.inputs, case.inputs, before, strict=True):
        assert not bits_differ(now, then), port.name


@every_case
def test_threads_change_no_bit(operator: Operator, case: Case, devices: dict[int, Cpu]) -> None:
    one, *others = (run(operator, case, device) for device in devices.values())
    for threads, outputs in enumerate(others, start=2):
        for port, found, expected in zip(operator.outputs, outputs, one, strict=True):
            assert not (problem := bits_differ(found, expected)), f"{threads} threads: {port.name}: {problem}"


@every_operator
def test_variants_give_the_same_bits(operator: Operator, devices: dict[int, Cpu]) -> None:
    """Every kernel that applies to a case, pairwise; and each kernel applies to some case."""
    tried = set()
    for case in cases(operator):
        results = []
        for kernel in applicable(operator, case):
            tried.add(kernel.name)
            with only(operator, kernel):
                bench = Bench(operator, case, devices[2])
                assert [launch.kernel for launch in bench.plan.launches] == [kernel.name]
                results.append((kernel.name, bench.run()))
        assert results, f"{case.name}: no kernel applies"
        for (name, found), (other, expected) in pairwise(results):
            for port, left, right in zip(operator.outputs, found, expected, strict=True):
                assert not (problem := bits_differ(left, right)), f"{name}, {other}: {port.name}: {problem}"
    assert tried == {kernel.name for kernel in operator.kernels}, "a kernel without a case"


@every_case
def test_rows_alone_are_rows_in_the_batch(operator: Operator, case: Case, devices: dict[int, Cpu]) -> None:
    cut = splitter(operator)
    if operator.name in SEQUENTIAL:
        assert cut is None
        return
    assert cut, "say in rows.py how this operator's cases are cut"
    whole = run(operator, case, devices[2])
    for part in cut(operator, case):
        for port, found, expected in zip(
            operator.outputs, run(operator, part.case, devices[1]), whole, strict=True
        ):
            problem = bits_differ(found, np.ascontiguousarray(expected[part.begin : part.end]))
            assert not problem, f"rows {part.begin} to {part.end} alone: {port.name}: {problem}"


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_rows_written_one_by_one_are_rows_written_together(name: str, devices: dict[int, Cpu]) -> None:
    operator = registry.get(name)
    ports = [port.name for port in operator.inputs]
    for case in cases(operator):
        whole = run(operator, case, devices[2])
        arrays = dict(zip(ports, case.inputs, strict=True))
        for row in range(len(arrays[SEQUENTIAL[name][0]])):
            now = {
                port: arrays[port][row : row + 1] if port in SEQUENTIAL[name] else arrays[port]
                for port in ports
            }
            types = tuple(
                ValueType.of(kind.dtype, *array.shape)
                for kind, array in zip(case.types, now.values(), strict=True)
            )
            after = run(operator, replace(case, inputs=tuple(now.values()), types=types), devices[1])
            arrays |= dict(zip(operator.in_place.values(), after, strict=True))
        for state, expected in zip(operator.in_place.values(), whole, strict=True):
            assert not bits_differ(arrays[state], expected), case.name


@every_case
def test_kernels_stay_inside_their_memory(
    operator: Operator, case: Case, devices: dict[int, Cpu], guarded: dict[int, Cpu]
) -> None:
    """Red zones around every buffer, gaps around every value, NaNs in all that nobody wrote, scratch too."""
    expected = run(operator, case, devices[1])
    for threads, device in guarded.items():
        bench = Bench(operator, case, device)
        weights = {
            name: buffer.array(np.uint8, (buffer.nbytes,)).copy() for name, buffer in bench.weights.items()
        }
        bench.run()
        memory, gaps = bench.memory(), bench.gaps()
        memory[:] = POISON
        for port, found, value in zip(operator.outputs, bench.run(), expected, strict=True):
            assert not (problem := bits_differ(found, value)), f"{threads} threads: {port.name}: {problem}"
        assert (memory[gaps] == POISON).all(), "a kernel wrote between values"
        for name in bench.graph.inputs:
            start = bench.plan.offsets[name]
            raw = np.ascontiguousarray(bench.arrays[name]).reshape(-1).view(np.uint8)
            assert np.array_equal(memory[start : start + raw.nbytes], raw), f"input {name} was changed"
        for name, before in weights.items():
            after = bench.weights[name].array(np.uint8, (before.nbytes,))
            assert np.array_equal(after, before), f"weight {name} was changed"
        device.pool.verify_guards()
