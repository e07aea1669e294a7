"""Places in the arena: values that live at the same time never overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.tensor.ranges import FreeRanges

ALIGNMENT = 64
_NO_END = 1 << 62


@dataclass(frozen=True)
class Interval:
    """A value's size in bytes, and the first and last phase in which it lives."""

    name: str
    begin: int
    end: int
    nbytes: int


def place(intervals: Sequence[Interval], gap: int = 0) -> tuple[dict[str, int], int]:
    """An offset for each value and the bytes of the whole, by best fit in the order in which values begin."""
    offsets: dict[str, int] = {}
    free = FreeRanges(0, _NO_END)
    live: list[tuple[int, int, int]] = []
    top = 0
    for interval in sorted(intervals, key=lambda interval: (interval.begin, -interval.nbytes, interval.name)):
        for over in [entry for entry in live if entry[0] < interval.begin]:
            live.remove(over)
            free.give(*over[1:])
        size = -(-(interval.nbytes + gap) // ALIGNMENT) * ALIGNMENT
        offset = free.take(size, ALIGNMENT)
        assert offset is not None
        offsets[interval.name] = offset
        top = max(top, offset + size)
        if size:
            live.append((interval.end, offset, offset + size))
    return offsets, top
