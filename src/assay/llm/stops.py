"""Strings that end an answer, found while the text arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import shown
from assay.llm.fields import refused, text

MOST = 16  # stop strings of one request
LONGEST = 256  # characters of one stop string


class StopStrings:
    """Passes text on up to the first stop string, and holds back what may be the beginning of one.

    The stop string that ends first counts; of those that end together, the longest. So the result doesn't
    depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Raises RequestError naming the `stop[n]` that isn't a string of 1 to `LONGEST` characters."""
        if not isinstance(stops, list | tuple) or len(stops) > MOST:
            hint = f"stop=[{shown(stops)}]" if isinstance(stops, str) else ""
            raise refused("stop", f"a list of at most {MOST} strings", stops, hint)
        for number, stop in enumerate(stops):
            if not 0 < len(text(f"stop[{number}]", stop)) <= LONGEST:
                raise refused(f"stop[{number}]", f"1 to {LONGEST} characters", stop)
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """The text to pass on, and whether a stop string was met; after that nothing passes any more."""
        if self.stopped:
            return "", True
        text = self._held + text
        found = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stops if stop in text]
        self.stopped = bool(found)
        cut = min(found)[1] if found else len(text) - self._undecided(text)
        self._held = "" if found else text[cut:]
        return text[:cut], self.stopped

    def finish(self) -> str:
        """The text held back: no stop string came of it."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """Length of the longest end of `text` that some stop string begins with."""
        longest = max(map(len, self._stops), default=1) - 1
        lengths = range(min(longest, len(text)), 0, -1)
        return next((n for n in lengths if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)
