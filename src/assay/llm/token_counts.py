"""Which tokens a request's penalties and biases are for, kept while the answer grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

ENTRY = np.dtype([("token", np.int32), ("count", np.int32), ("bias", np.float32)])
"""A token, how often it is in the output (0: in the prompt alone, −1: in neither), and its bias."""
Entries = NDArray[np.void]


class TokenCounts:
    """An entry of the operator `adjust` for each token that was met or has a bias."""

    def __init__(self, prompt: Iterable[int], biases: Mapping[int, float]) -> None:
        self._entries = np.zeros(64, ENTRY)
        self._places: dict[int, int] = {}
        for token, bias in biases.items():
            place = self._place(token)
            self._entries["bias"][place] = bias
        for token in prompt:
            place = self._place(token)  # may move the entries
            self._entries["count"][place] = 0

    def add(self, token: int) -> None:
        """Count a token of the output."""
        place = self._place(token)
        _count(self._entries, place)

    def entries(self, guesses: Sequence[int] = ()) -> Entries:
        """A copy of the entries, as they are now or would be after `guesses`."""
        places = [self._place(token) for token in guesses]
        found = self._entries[: len(self._places)].copy()
        for place in places:
            _count(found, place)
        return found

    def _place(self, token: int) -> int:
        place = self._places.get(token)
        if place is None:
            place = self._places[token] = len(self._places)
            if place == len(self._entries):
                self._entries = np.concatenate([self._entries, self._entries])
            self._entries[place] = token, -1, 0.0
        return place


def _count(entries: Entries, place: int) -> None:
    entries["count"][place] = max(entries["count"][place], 0) + 1
