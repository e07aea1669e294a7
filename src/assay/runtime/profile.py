"""Where a step's time goes: each launch of a plan timed alone, on the whole team."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from assay.compiler.plan import Launch
from assay.kernels.sizes import ENTRY_BYTES, LINE
from assay.runtime.executor import Arrays, Executor


@dataclass(frozen=True)
class Spent:
    """Seconds of all launches of one kernel in one step, and how many they are."""

    kernel: str
    launches: int
    seconds: float


def profile(executor: Executor, binding: Mapping[str, int], inputs: Arrays, repeats: int = 5) -> list[Spent]:
    """The step's kernels, the longest first; see `launch_times`."""
    spent: dict[str, list[float]] = defaultdict(list)
    for launch, seconds in launch_times(executor, binding, inputs, repeats):
        spent[launch.kernel].append(seconds)
    rows = [Spent(kernel, len(times), sum(times)) for kernel, times in spent.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def launch_times(
    executor: Executor, binding: Mapping[str, int], inputs: Arrays, repeats: int = 5
) -> list[tuple[Launch, float]]:
    """Each launch of the step, in order, with the least seconds of `repeats` runs, an empty run's taken off.

    States change as in a run. A launch alone has its caches cold or warm otherwise than in a run, and no work
    to share with its neighbours, so the sum is not the step's time.
    """
    team = executor.device.team
    executor.run(binding, inputs)
    tape = executor.tape(binding)
    entries, counters = tape.entries.ctypes.data, tape.counters.ctypes.data

    def run(index: int, length: int) -> float:
        began = time.perf_counter()
        team.run(entries + ENTRY_BYTES * index, length, counters + LINE * index)
        return time.perf_counter() - began

    empty = min(run(0, 0) for _ in range(10 * repeats))
    best = [float("inf")] * len(tape.entries)
    for _ in range(repeats):
        for index in range(len(best)):
            best[index] = min(best[index], run(index, 1))
    return [
        (launch, max(seconds - empty, 0.0)) for launch, seconds in zip(tape.plan.launches, best, strict=True)
    ]
