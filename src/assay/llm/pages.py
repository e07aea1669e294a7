"""The pages of the cache: who holds which, counted."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from assay.errors import HardwareFault, SchedulingDeadlock


class Pages:
    """`count` pages of 64 tokens. The lowest free page is handed out first, so memory that was touched is
    used again.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))
        self._holders = [0] * count

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def allocate(self) -> int:
        """A page with one holder. Raises HardwareFault when none is free."""
        if not self._free:
            raise HardwareFault(
                "the cache is full",
                want="a free page",
                got=f"{self.count} pages, all held",
                hint="fewer or shorter sequences, or more pages",
            )
        page = heapq.heappop(self._free)
        self._holders[page] = 1
        return page

    def share(self, page: int) -> None:
        """One more holder of a page that is held."""
        assert self._holders[page] > 0
        self._holders[page] += 1

    def release(self, page: int) -> None:
        """One holder less; a page without holders is free."""
        assert self._holders[page] > 0
        self._holders[page] -= 1
        if not self._holders[page]:
            heapq.heappush(self._free, page)

    def check_integrity(self, held: Iterable[Sequence[int]]) -> None:
        """Compare the counts with `held`, the pages of each holder. Raises SchedulingDeadlock when a page is
        lost.
        """
        counted = Counter(page for pages in held for page in pages)
        free = set(self._free)
        for page, holders in enumerate(self._holders):
            if holders != counted[page] or (page in free) != (holders == 0):
                raise SchedulingDeadlock(
                    "the cache's books don't agree",
                    place=f"page {page}",
                    want=f"{counted[page]} holders",
                    got=f"{holders} counted, {'free' if page in free else 'not free'}",
                )
        if len(free) != len(self._free):
            raise SchedulingDeadlock(
                "a page is free twice", want="each page once", got=str(sorted(self._free))
            )
