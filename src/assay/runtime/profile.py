"""Where a step's time goes: launches that are alike timed together, on the whole team."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from assay.compiler.plan import Launch
from assay.kernels.sizes import LINE
from assay.runtime.executor import Arrays, Executor
from assay.runtime.tape import Tape
from assay.runtime.team import Team

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Spent(Generic[K]):
    """Seconds of all launches of one kind in one step, and how many they are."""

    kind: K
    launches: int
    seconds: float


def profile(
    executor: Executor,
    binding: Mapping[str, int],
    inputs: Arrays,
    kind: Callable[[Launch], K],
    repeats: int = 5,
) -> list[Spent[K]]:
    """The step's launches by kind, the longest first; the least of `repeats` times each. States change as in
    a run.
    """
    executor.run(binding, inputs)
    tape = executor.tape(binding)
    kinds = [kind(launch) for launch in executor.plan(binding).launches]
    return timed(tape, kinds, executor.device.team, repeats)


def timed(tape: Tape, kinds: Sequence[K], team: Team, repeats: int) -> list[Spent[K]]:
    """A bound tape's launches by kind, which is said of each, the longest first.

    The launches of one kind run as a tape of their own, with a barrier before each, so weights stream from
    memory as they do in a run.
    """
    found = []
    for each in dict.fromkeys(kinds):
        entries = tape.entries[[other == each for other in kinds]].copy()
        entries[:, 2] = 1
        # The team clears the counters that it is given; the kernels' own are cleared here.
        spare = np.zeros((len(entries), LINE // 8), np.int64)
        seconds = []
        for _ in range(repeats):
            tape.counters[...] = 0
            began = time.perf_counter()
            team.run(entries.ctypes.data, len(entries), spare.ctypes.data)
            seconds.append(time.perf_counter() - began)
        found.append(Spent(each, len(entries), min(seconds)))
    return sorted(found, key=lambda spent: -spent.seconds)
