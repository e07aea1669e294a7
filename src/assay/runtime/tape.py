"""A plan bound to memory: the words that the team's threads read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from assay.compiler.plan import Launch, Plan
from assay.graph.dim import Dim
from assay.kernels.call import word
from assay.kernels.control import ENTRY_BYTES, LINE, ROWS
from assay.ops.operator import Address, Argument, Scratch

Words = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Tape:
    """`entries` and `arguments` as kernels/team.py wants them. `counters` holds a line of work counter and
    fault for each.

    Words that depend on symbols are written by `bind`, before each run.
    """

    def __init__(
        self, plan: Plan, kernels: Mapping[str, int], places: Mapping[str, int], scratch: int
    ) -> None:
        """`places` has every value's address, `scratch` is the address of thread 0's."""
        self.plan = plan
        length = len(plan.launches)
        raw = np.zeros((length + 1) * LINE // 8, np.int64)
        start = -raw.ctypes.data % LINE // 8
        self.counters: Words = raw[start : start + length * LINE // 8].reshape(length, LINE // 8)
        self.entries: Words = np.zeros((length, ENTRY_BYTES // 8), np.int64)
        words: list[int] = []
        starts: list[int] = []
        symbolic: dict[Dim, list[int]] = {}
        for index, launch in enumerate(plan.launches):
            starts.append(len(words))
            words.append(self.counters.ctypes.data + LINE * index)
            for argument in launch.arguments:
                if isinstance(argument, Dim):
                    symbolic.setdefault(argument, []).append(len(words))
                    words.append(0)
                else:
                    words += _fixed(argument, places, scratch, plan.scratch)
        self.arguments: Words = np.array(words, np.int64)
        self.entries[:, 0] = [kernels[launch.kernel] for launch in plan.launches]
        self.entries[:, 1] = self.arguments.ctypes.data + 8 * np.array(starts, np.int64)
        self.entries[:, 2] = [launch.barrier for launch in plan.launches]
        self._symbolic = [(dim, np.array(positions)) for dim, positions in symbolic.items()]
        self.place = (self.entries.ctypes.data, length, self.counters.ctypes.data)
        """Addresses and length as Team.run takes them."""
        self.fault = 0
        """1 + the entry that the device said was the first with a fault in the last run; 0 for none."""

    def bind(self, binding: Mapping[str, int]) -> None:
        """Write the words that depend on the symbols."""
        for dim, positions in self._symbolic:
            self.arguments[positions] = dim.at(binding)

    def faulty(self) -> tuple[Launch, int]:
        """The first launch of the last run that reported a value outside its dtype's range, and its first
        such row.
        """
        return self.plan.launches[self.fault - 1], ROWS - int(self.counters[self.fault - 1, 1])


def _fixed(argument: Argument, places: Mapping[str, int], scratch: int, stride: int) -> tuple[int, ...]:
    if isinstance(argument, Address):
        return (places[argument.name],)
    if isinstance(argument, Scratch):
        return scratch, stride
    assert isinstance(argument, int | float)
    return (word(argument),)
