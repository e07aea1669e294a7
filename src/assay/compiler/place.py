"""Places in the arena: values that live at the same time never overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


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
    holes: list[tuple[int, int]] = []
    live: list[tuple[int, int, int]] = []
    top = 0
    for interval in sorted(intervals, key=lambda interval: (interval.begin, -interval.nbytes, interval.name)):
        for over in [entry for entry in live if entry[0] < interval.begin]:
            live.remove(over)
            _give_back(holes, over[1], over[2])
        size = -(-(interval.nbytes + gap) // ALIGNMENT) * ALIGNMENT
        fitting = min((hole for hole in holes if hole[1] >= size), key=lambda hole: hole[1], default=None)
        if fitting:
            holes.remove(fitting)
            offset = fitting[0]
            if fitting[1] > size:
                _give_back(holes, offset + size, fitting[1] - size)
        elif holes and holes[-1][0] + holes[-1][1] == top:
            offset, _ = holes.pop()
            top = offset + size
        else:
            offset, top = top, top + size
        offsets[interval.name] = offset
        live.append((interval.end, offset, size))
    return offsets, top


def _give_back(holes: list[tuple[int, int]], offset: int, size: int) -> None:
    """Add a hole to the ordered list and join it with its neighbours."""
    if not size:
        return
    holes.append((offset, size))
    holes.sort()
    joined: list[tuple[int, int]] = []
    for start, length in holes:
        if joined and joined[-1][0] + joined[-1][1] == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    holes[:] = joined
