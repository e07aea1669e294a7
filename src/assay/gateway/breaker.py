"""Sheds load when too much fails."""

from __future__ import annotations

import time
from collections import deque

WINDOW = 60.0
"""Seconds that are looked at."""
SHARE, FEWEST = 0.001, 5
"""It opens when a larger share than this fails, of so many failures at least."""
PAUSE = 2.0
"""Seconds that it stays open before it lets one request in to try."""


class Breaker:
    """Closed while all is well; open while too much fails; then one request decides."""

    def __init__(self) -> None:
        self._seconds: deque[list[float]] = deque()
        """Of each second that had requests: when, how many, how many failed."""
        self._opened: float | None = None
        self._trying = False

    def admits(self) -> bool:
        """Whether a request may come in; while it is open, one to try after each pause."""
        if self._opened is None:
            return True
        now = time.monotonic()
        if now - self._opened < PAUSE:
            return False
        self._opened, self._trying = now, True  # its answer may never come: others are let in later
        return True

    def note(self, failed: bool) -> None:
        """A request was answered."""
        now = time.monotonic()
        if self._opened is not None:
            if self._trying:
                self._trying = False
                self._opened = now if failed else None
                if not failed:
                    self._seconds.clear()
            return
        if not self._seconds or now - self._seconds[-1][0] > 1:
            self._seconds.append([now, 0, 0])
        self._seconds[-1][1] += 1
        self._seconds[-1][2] += failed
        while now - self._seconds[0][0] > WINDOW:
            self._seconds.popleft()
        count, bad = (sum(second[column] for second in self._seconds) for column in (1, 2))
        if bad >= FEWEST and bad > SHARE * count:
            self._opened = now
