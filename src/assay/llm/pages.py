"""The pages of the cache: who holds which, counted, and which are kept though nobody holds them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from assay.errors import HardwareFault, SchedulingDeadlock

DISAGREE = "the cache's books don't agree"


def _nobody(page: int) -> None:
    """Nobody wants to know that a page is used again."""


class Pages:
    """`count` pages of 64 tokens. The lowest free page is handed out first, so memory that was touched is
    used again.

    A page marked by `keep` stays as it is when its last holder lets it go, until no other page is free: then
    the one that was let go first is used again, and `evicted` hears of it before.
    """

    def __init__(self, count: int, evicted: Callable[[int], None] = _nobody) -> None:
        self.count = count
        self._evicted = evicted
        self._free = list(range(count))
        self._holders = [0] * count
        self._kept: set[int] = set()
        self._idle: dict[int, None] = {}  # in the order in which they were let go

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free) + len(self._idle)

    def allocate(self) -> int:
        """A page with one holder. Raises HardwareFault when all are held."""
        if self._free:
            page = heapq.heappop(self._free)
        elif self._idle:
            page = next(iter(self._idle))
            self._evicted(page)
            del self._idle[page]
            self._kept.discard(page)
        else:
            got, hint = f"{self.count} pages, all held", "fewer or shorter sequences, or more pages"
            raise HardwareFault("the cache is full", want="a free page", got=got, hint=hint)
        self._holders[page] = 1
        return page

    def idle(self, page: int) -> bool:
        """Whether a page is kept though nobody holds it."""
        return page in self._idle

    def keep(self, page: int) -> None:
        """What lies in a page that is held may be wanted again."""
        assert self._holders[page] > 0
        self._kept.add(page)

    def share(self, page: int) -> None:
        """One more holder of a page that is held or kept."""
        assert self._holders[page] > 0 or page in self._idle
        self._idle.pop(page, None)
        self._holders[page] += 1

    def release(self, page: int) -> None:
        """One holder less; a page without holders is free, or kept."""
        assert self._holders[page] > 0
        self._holders[page] -= 1
        if self._holders[page]:
            return
        if page in self._kept:
            self._idle[page] = None
        else:
            heapq.heappush(self._free, page)

    def check_integrity(self, held: Iterable[Sequence[int]]) -> None:
        """Compare the counts with `held`, the pages of each holder. Raises SchedulingDeadlock when a page is
        lost.
        """
        counted = Counter(page for pages in held for page in pages)
        free = Counter([*self._free, *self._idle])
        for page, holders in enumerate(self._holders):
            if holders != counted[page] or free[page] != (holders == 0):
                want, got = f"{counted[page]} holders", f"{holders} counted, free {free[page]} times"
                raise SchedulingDeadlock(DISAGREE, place=f"page {page}", want=want, got=got)
        if not self._kept.issuperset(self._idle) or not self._kept.isdisjoint(self._free):
            want, got = "pages that are kept, or free", f"kept {sorted(self._kept)}, idle {list(self._idle)}"
            raise SchedulingDeadlock(DISAGREE, want=want, got=got)
