"""The free ranges of an arena: half-open address intervals.

Best fit; a range given back joins its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Range:
    """Free addresses [start, end)."""

    start: int
    end: int
    touched: int
    """At most so many of its bytes still have memory pages behind them."""

    @property
    def nbytes(self) -> int:
        return self.end - self.start


class FreeRanges:
    """Free ranges in ascending order, never two that touch. Not thread-safe: the pool holds the lock."""

    def __init__(self, start: int, end: int) -> None:
        self._ranges = [Range(start, end, 0)]

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    @property
    def largest(self) -> int:
        return max((free.nbytes for free in self._ranges), default=0)

    def take(self, nbytes: int, alignment: int) -> int | None:
        """The aligned start of `nbytes` from the smallest range that fits (the lowest of equals), or None."""
        starts = (-(-free.start // alignment) * alignment for free in self._ranges)
        pairs = enumerate(zip(self._ranges, starts, strict=True))
        fitting = [(free.nbytes, at, start) for at, (free, start) in pairs if start + nbytes <= free.end]
        if not fitting:
            return None
        _, at, start = min(fitting)
        free = self._ranges[at]
        sides = ((free.start, start), (start + nbytes, free.end))
        self._ranges[at : at + 1] = [Range(a, b, min(free.touched, b - a)) for a, b in sides if a < b]
        return start

    def give(self, start: int, end: int) -> Range:
        """Put back [start, end), which was taken. The free range that it is now part of."""
        at = self._index(start)
        before = [free for free in self._ranges[max(at - 1, 0) : at] if free.end == start]
        after = [free for free in self._ranges[at : at + 1] if free.start == end]
        parts = [*before, Range(start, end, end - start), *after]
        joined = Range(parts[0].start, parts[-1].end, sum(part.touched for part in parts))
        self._ranges[at - len(before) : at + len(after)] = [joined]
        return joined

    def _index(self, start: int) -> int:
        return bisect_left(self._ranges, start, key=lambda free: free.start)
