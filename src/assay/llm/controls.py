"""What a request changes in the logits of its rows, as a function of the tokens before each."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.llm.request import Sampling
from assay.llm.token_counts import ENTRY, Entries, TokenCounts

Mask = NDArray[np.int32]
Inputs = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Row:
    """What the operator `adjust` does to one row of logits: `allowed` has a bit for each token."""

    entries: Entries
    penalties: tuple[float, float, float]
    allowed: Mask


class Controls:
    """The logit processors of one request."""

    def __init__(self, sampling: Sampling, prompt: list[int], vocabulary: int) -> None:
        """Raises RequestError for a token that there isn't."""
        for token in sampling.logit_bias:
            _known(token, vocabulary, f"logit_bias[{token}]")
        self._penalties = (
            sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty,
        )  # fmt: skip
        seen = prompt if sampling.repetition_penalty != 1 else ()
        self._counts = TokenCounts(seen, sampling.logit_bias)
        self._read = len(prompt)
        self._all = np.full(words(vocabulary), -1, np.int32)

    def rows(self, tokens: Items[int], guesses: Items[int], count: int) -> list[Row]:
        """The last `count` rows of those after `tokens`, and after each of the `guesses`."""
        for token in tokens[self._read :]:
            self._counts.add(token)
        self._read = len(tokens)
        numbers = range(len(guesses) + 1 - count, len(guesses) + 1)
        return [self._row(guesses[:number]) for number in numbers]

    def _row(self, guesses: Items[int]) -> Row:
        return Row(self._counts.entries(guesses), self._penalties, self._all)


def controls(sampling: Sampling, prompt: list[int], vocabulary: int) -> Controls | None:
    """The request's, or None when it asks for nothing of the kind. Raises RequestError."""
    asks = sampling.logit_bias or sampling.presence_penalty or sampling.frequency_penalty
    return Controls(sampling, prompt, vocabulary) if asks or sampling.repetition_penalty != 1 else None


def stacked(rows: Items[Row]) -> Inputs:
    """The rows as inputs of the graph."""
    entries = np.concatenate([row.entries for row in rows])
    ends = np.cumsum([0, *(len(row.entries) for row in rows)], dtype=np.int32)
    return {
        "adjust.spans": np.stack([ends[:-1], ends[1:]], 1),
        "adjust.tokens": entries["token"],
        "adjust.counts": entries["count"],
        "adjust.biases": entries["bias"],
        "adjust.penalties": np.array([row.penalties for row in rows], np.float32),
        "adjust.allowed": np.stack([row.allowed for row in rows]),
    }


@cache
def nothing(vocabulary: int) -> Inputs:
    """No rows, as inputs of the graph."""
    row = Row(np.zeros(0, ENTRY), (1.0, 0.0, 0.0), np.zeros(words(vocabulary), np.int32))
    return {name: value[:0] for name, value in stacked([row]).items()}


def words(vocabulary: int) -> int:
    """Words of 32 bits that hold a bit for each token."""
    return -(-vocabulary // 32)


def _known(token: int, vocabulary: int, place: str) -> None:
    if not 0 <= token < vocabulary:
        raise RequestError("no such token", place=place, want=f"0 to {vocabulary - 1}", got=str(token))
