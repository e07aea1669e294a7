"""Where a step's time goes: the launches of each kernel timed together, on the whole team."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.kernels.sizes import LINE
from assay.runtime.executor import Arrays, Executor


@dataclass(frozen=True)
class Spent:
    """Seconds of all launches of one kernel in one step, and how many they are."""

    kernel: str
    launches: int
    seconds: float


def profile(executor: Executor, binding: Mapping[str, int], inputs: Arrays, repeats: int = 5) -> list[Spent]:
    """The step's kernels, the longest first; the least of `repeats` times each.

    One kernel's launches run as a tape of their own, with a barrier before each, so weights stream from
    memory as they do in a run. States change as in a run.
    """
    executor.run(binding, inputs)
    tape = executor.tape(binding)
    names = np.array([launch.kernel for launch in tape.plan.launches])
    rows = []
    for kernel in dict.fromkeys(names.tolist()):
        entries = tape.entries[names == kernel].copy()
        entries[:, 2] = 1
        # The team clears the counters that it is given; the kernels' own are cleared here.
        spare = np.zeros((len(entries), LINE // 8), np.int64)
        seconds = []
        for _ in range(repeats):
            tape.counters[...] = 0
            began = time.perf_counter()
            executor.device.team.run(entries.ctypes.data, len(entries), spare.ctypes.data)
            seconds.append(time.perf_counter() - began)
        rows.append(Spent(kernel, len(entries), min(seconds)))
    return sorted(rows, key=lambda row: -row.seconds)
