"""Tapes written by hand, for teams without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.kernels.cache import addresses
from assay.kernels.sizes import ENTRY_BYTES, LINE
from assay.runtime.team import Team


@dataclass(frozen=True)
class Entry:
    """One launch: a kernel, its words after the work counter, and whether a barrier comes before."""

    kernel: str
    words: Sequence[int]
    barrier: bool = True


class HandTape:
    """Entries in memory as kernels/team.py wants them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        known = addresses({entry.kernel for entry in entries})
        raw = np.zeros((len(entries) + 1) * LINE // 8, np.int64)
        self.counters = raw[-raw.ctypes.data % LINE // 8 :]
        self.words = [
            np.array([self.counters.ctypes.data + LINE * index, *entry.words], np.int64)
            for index, entry in enumerate(entries)
        ]
        self.entries = np.array(
            [
                (known[entry.kernel], words.ctypes.data, entry.barrier)
                for entry, words in zip(entries, self.words, strict=True)
            ],
            np.int64,
        ).reshape(len(entries), ENTRY_BYTES // 8)

    def run(self, team: Team) -> int:
        """What the team's run returns: 1 + the first entry with a fault, or 0."""
        return team.run(self.entries.ctypes.data, len(self.entries), self.counters.ctypes.data)
