"""Guesses of the tokens that a sequence will draw: computed along with the next one, they cost little, and
each that comes true saves a step. A wrong one changes nothing (numerics rule 17).
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from assay.llm.sequence import Sequence

GRAM = 3
"""Tokens that must have occurred before, for what followed them to be guessed again."""
FEW = 2
"""The most sequences that decode at once for guesses to be made: rows cost time when there are many."""
FIRST, MOST = 3, 7
"""Guesses of a sequence in a step, and after one in which all came true: kernels take rows by fours, so four
rows cost 1.7 times as much as one, eight 2.6 times (SmolLM2, two threads).
"""
LONGEST_PAUSE = 64


class Guesser(Protocol):
    """Knows what may come next."""

    def guess(self, sequence: Sequence, most: int) -> Items[int]:
        """At most `most` tokens that may follow those of the sequence."""


@dataclass
class _Trust:
    """How many guesses a sequence is worth, and for how many steps it gets none."""

    count: int = FIRST
    pause: int = 0
    failures: int = 0


class Guesses:
    """Asks a guesser as long as it pays: more after guesses that came true, and none for ever longer pauses
    after guesses that didn't.
    """

    def __init__(self, guesser: Guesser) -> None:
        self._guesser = guesser
        self._trust: WeakKeyDictionary[Sequence, _Trust] = WeakKeyDictionary()

    def offer(self, running: Items[Sequence]) -> dict[Sequence, tuple[int, ...]]:
        """Guesses for those that are decoding."""
        decoding = [sequence for sequence in running if sequence.pending == 1 and not sequence.single_row]
        if len(decoding) > FEW:
            return {}
        offered = {}
        for sequence in decoding:
            trust = self._trust.setdefault(sequence, _Trust())
            trust.pause -= 1
            most = min(trust.count, sequence.limit - sequence.drawn - 1)
            if trust.pause < 0 < most:
                offered[sequence] = tuple(self._guesser.guess(sequence, most))
        return offered

    def learn(self, sequence: Sequence, guessed: int, right: int) -> None:
        """How many of a sequence's guesses came true."""
        trust = self._trust[sequence]
        if right:
            trust.failures = 0
            trust.count = MOST if right == guessed else FIRST
        else:
            trust.failures += 1
            trust.count, trust.pause = FIRST, min(LONGEST_PAUSE, 2**trust.failures)

    def stop(self, sequence: Sequence) -> None:
        """No more guesses for a sequence."""
        self._trust[sequence] = _Trust(count=0)


class Lookup:
    """Guesses that what followed the last tokens before follows them again (prompt lookup decoding)."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Sequence, _Seen] = WeakKeyDictionary()

    def guess(self, sequence: Sequence, most: int) -> Items[int]:
        return self._seen.setdefault(sequence, _Seen()).next(sequence.tokens, most)


class _Seen:
    """Where each run of GRAM tokens occurred last."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = GRAM

    def next(self, tokens: Items[int], most: int) -> Items[int]:
        for end in range(self._read, len(tokens)):
            self._ends[tuple(tokens[end - GRAM : end])] = end
        self._read = max(GRAM, len(tokens))
        end = self._ends.get(tuple(tokens[-GRAM:]), len(tokens))
        return tokens[end : end + most]
