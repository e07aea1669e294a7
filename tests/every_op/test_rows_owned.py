"""Kernels that name `rows`: thread t of n writes rows T·t/n to T·(t+1)/n alone, and reads no others of inputs
that begin with them. Barriers rely on it.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.call import ENTRY
from assay.ops.operator import Operator
from assay.ops.pattern import parse
from assay.runtime.cpu import Cpu
from every_op.case import Case
from every_op.compare import bits_differ
from every_op.harness import POISON, Bench, all_cases, applicable

THREADS = 3
OWNED = [entry for entry in all_cases() if applicable(*entry[1:])[0].rows]


@pytest.mark.parametrize(("name", "operator", "case"), OWNED, ids=[name for name, _, _ in OWNED])
def test_threads_write_the_rows_that_they_own(
    name: str, operator: Operator, case: Case, devices: dict[int, Cpu]
) -> None:
    bench = Bench(operator, case, devices[THREADS])
    whole = bench.run()
    (entry,) = bench.executor.tape({}).entries
    if operator.in_place:
        written_by_owners(bench, operator, case, whole, entry)
        return
    outputs = [port.name for port in operator.outputs]
    memory = bench.memory()
    for thread in range(THREADS):
        places = []
        for output, value in zip(bench.graph.outputs, whole, strict=True):
            start = bench.plan.offsets[output]
            places.append(memory[start : start + value.nbytes])
            places[-1][:] = POISON
        run_with_own_rows(bench, operator, case, entry, thread)
        for port, place, value in zip(outputs, places, whole, strict=True):
            rows = len(value) if value.ndim else 1
            begin, end = rows * thread // THREADS, rows * (thread + 1) // THREADS
            found = place.reshape(rows, -1)
            expected = np.ascontiguousarray(value).reshape(rows, -1).view(np.uint8).reshape(rows, -1)
            assert np.array_equal(found[begin:end], expected[begin:end]), f"{port}: thread {thread}"
            assert (np.delete(found, np.s_[begin:end], axis=0) == POISON).all(), f"{port}: thread {thread}"


def run_with_own_rows(bench: Bench, operator: Operator, case: Case, entry: np.ndarray, thread: int) -> None:
    """Run one thread's share with all rows of others poisoned, of the inputs that begin with the rows."""
    memory, kernel = bench.memory(), applicable(operator, case)[0]
    before = memory.copy()
    for port in operator.inputs:
        if port.name in bench.graph.inputs and parse(port.dims).first == kernel.rows:
            array, start = bench.arrays[port.name], bench.plan.offsets[port.name]
            rows = len(array) if array.ndim else 1
            place = memory[start : start + array.nbytes].reshape(rows, -1)
            place[: rows * thread // THREADS] = POISON
            place[rows * (thread + 1) // THREADS :] = POISON
    ENTRY(int(entry[0]))(int(entry[1]), thread, THREADS)
    for name in bench.graph.inputs:
        span = np.s_[bench.plan.offsets[name] : bench.plan.offsets[name] + bench.arrays[name].nbytes]
        memory[span] = before[span]


def written_by_owners(
    bench: Bench, operator: Operator, case: Case, whole: tuple[np.ndarray, ...], entry: np.ndarray
) -> None:
    """A state's rows are others than the inputs': each thread changes the state by its own rows alone."""
    rows = len(next(iter(bench.arrays.values())))
    for name, buffer in bench.states.items():
        bench.device.copy_in(buffer, bench.arrays[name])
    for thread in range(THREADS):
        run_with_own_rows(bench, operator, case, entry, thread)
        done = rows * (thread + 1) // THREADS
        for state, value in zip(operator.in_place.values(), whole, strict=True):
            now = bench.states[state].array(value.dtype, value.shape)
            pages, places = np.divmod(bench.arrays["slots"], 64)
            for row in range(rows):
                source = value if row < done else bench.arrays[state]
                if state == "keys":
                    one, other = now[pages[row], :, :, places[row]], source[pages[row], :, :, places[row]]
                else:
                    one, other = now[pages[row], :, places[row]], source[pages[row], :, places[row]]
                assert not bits_differ(one.copy(), other.copy()), f"{state}: row {row} after thread {thread}"
