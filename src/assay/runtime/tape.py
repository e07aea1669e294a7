"""Launches in memory: the words that the team's threads read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from assay.compiler.plan import Plan
from assay.graph.dim import Dim
from assay.kernels.call import word
from assay.kernels.sizes import ENTRY_BYTES, LINE, ROWS
from assay.ops.operator import Address, Argument, Code, Scratch

Words = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Tape:
    """`entries` and `arguments` as kernels/team.py wants them. `counters` holds a line of work counter and
    fault for each.

    Words that depend on symbols are written by `bind`, before each run.
    """

    def __init__(self, launches: Sequence[tuple[int, Sequence[int | Dim], bool]]) -> None:
        """Each is a kernel's address, the words after its work counter, whether a barrier comes before it."""
        length = len(launches)
        raw = np.zeros((length + 1) * LINE // 8, np.int64)
        start = -raw.ctypes.data % LINE // 8
        self.counters: Words = raw[start : start + length * LINE // 8].reshape(length, LINE // 8)
        counters = range(self.counters.ctypes.data, self.counters.ctypes.data + length * LINE, LINE)
        own = [(counter, *words) for counter, (_, words, _) in zip(counters, launches, strict=True)]
        words = [each for line in own for each in line]
        symbolic: dict[Dim, list[int]] = {}
        for position, each in enumerate(words):
            if isinstance(each, Dim):
                symbolic.setdefault(each, []).append(position)
        self.arguments: Words = np.array([0 if isinstance(each, Dim) else each for each in words], np.int64)
        self.entries: Words = np.zeros((length, ENTRY_BYTES // 8), np.int64)
        self.entries[:, 0] = [kernel for kernel, _, _ in launches]
        self.entries[:, 1] = self.arguments.ctypes.data + 8 * np.cumsum([0, *map(len, own)])[:-1]
        self.entries[:, 2] = [barrier for _, _, barrier in launches]
        self._symbolic = [(dim, np.array(positions)) for dim, positions in symbolic.items()]
        self.place = (self.entries.ctypes.data, length, self.counters.ctypes.data)
        """Addresses and length as Team.run takes them."""
        self.fault = 0
        """1 + the entry that the device said was the first with a fault in the last run; 0 for none."""

    @classmethod
    def of(cls, plan: Plan, kernels: Mapping[str, int], places: Mapping[str, int], scratch: int) -> Tape:
        """A plan's. `places` has every value's address, `scratch` is the address of thread 0's."""

        def words(argument: Argument) -> tuple[int | Dim, ...]:
            if isinstance(argument, Address):
                return (places[argument.name],)
            if isinstance(argument, Code):
                return (kernels[argument.kernel],)
            if isinstance(argument, Scratch):
                return scratch, plan.scratch
            return (argument if isinstance(argument, Dim) else word(argument),)

        launches = []
        for launch in plan.launches:
            own = [each for argument in launch.arguments for each in words(argument)]
            launches.append((kernels[launch.kernel], own, launch.barrier))
        return cls(launches)

    def bind(self, binding: Mapping[str, int]) -> None:
        """Write the words that depend on the symbols."""
        for dim, positions in self._symbolic:
            self.arguments[positions] = dim.at(binding)

    def slots(self) -> list[tuple[str, Words]]:
        """Where words stand that each run says anew, by name: addresses that the name `&name` stands for."""
        found = ((dim.symbol, positions) for dim, positions in self._symbolic)
        return [(name[1:], positions) for name, positions in found if name.startswith("&")]

    def faulty(self) -> tuple[int, int] | None:
        """The first launch of the last run that reported a fault, such as a value outside its dtype's range,
        and its first such row.
        """
        return (self.fault - 1, ROWS - int(self.counters[self.fault - 1, 1])) if self.fault else None
