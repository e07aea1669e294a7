"""Where a step's time goes: each launch of a plan timed alone, on the whole team."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from assay.kernels.sizes import ENTRY_BYTES, LINE
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Arrays, Executor


@dataclass(frozen=True)
class Spent:
    """Seconds of all launches of one kernel in one step, and how many they are."""

    kernel: str
    launches: int
    seconds: float


def profile(executor: Executor, binding: Mapping[str, int], inputs: Arrays, repeats: int = 5) -> list[Spent]:
    """The step's kernels, the longest first; for each launch the least of `repeats` times.

    States change as in a run. A launch alone has its caches cold or warm otherwise than in a run, and no work
    to share with its neighbours, so the sum is not the step's time.
    """
    device: Cpu = executor.device
    executor.run(binding, inputs)
    tape = executor.tape(binding)
    entries, counters = tape.entries.ctypes.data, tape.counters.ctypes.data
    best = [float("inf")] * len(tape.entries)
    for _ in range(repeats):
        for index in range(len(best)):
            began = time.perf_counter()
            device.team.run(entries + ENTRY_BYTES * index, 1, counters + LINE * index)
            best[index] = min(best[index], time.perf_counter() - began)
    spent: dict[str, list[float]] = defaultdict(list)
    for launch, seconds in zip(tape.plan.launches, best, strict=True):
        spent[launch.kernel].append(seconds)
    rows = [Spent(kernel, len(times), sum(times)) for kernel, times in spent.items()]
    return sorted(rows, key=lambda row: -row.seconds)
