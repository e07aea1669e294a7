"""What a request changes in the logits of its rows, as a function of the tokens before each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Items
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.llm.bad_words import BadWords, Spellings
from assay.llm.fields import integer
from assay.llm.request import Sampling
from assay.llm.tokenizer import Tokenizer

Integers = NDArray[np.int32]
BARRED = int(np.float32(-np.inf).view(np.int32))
"""The bits of a bias that bars."""


class Row(NamedTuple):
    """One row of the operator `adjust`: int32 [W], int32 [3, entries] (ids, counts, biases' bits), float32
    [3].
    """

    allowed: Integers
    entries: Integers
    penalties: NDArray[np.float32]


class _Entries:
    """Tokens, each once, with their counts and biases."""

    def __init__(self, table: Integers, places: dict[int, int]) -> None:
        self._table, self._places = table, places

    @property
    def table(self) -> Integers:
        """int32 [3, tokens]: a view, good until a token is added."""
        return self._table[:, : len(self._places)]

    def copy(self) -> _Entries:
        """Entries that change on their own."""
        return _Entries(self._table.copy(), dict(self._places))

    def bias(self, token: int, amount: float) -> None:
        """Add this to the token's logit."""
        place = self._place(token)
        self._table[2].view(np.float32)[place] = amount

    def count(self, tokens: Iterable[int], times: int = 1) -> None:
        """The tokens were in the output so many times more; 0: they were in the prompt."""
        for token in tokens:
            place = self._place(token)
            self._table[1, place] = max(self._table[1, place], 0) + times

    def _place(self, token: int) -> int:
        place = self._places.get(token)
        if place is None:
            place = self._places[token] = len(self._places)
            if place == self._table.shape[1]:
                self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
            self._table[:, place] = token, -1, 0
        return place


class Controls:
    """The logit processors of one request."""

    def __init__(
        self,
        sampling: Sampling,
        prompt: list[int],
        vocabulary: int,
        ends: Collection[int],
        tokenizer: Tokenizer | None,
    ) -> None:
        """Of a request that `adjusts`. Raises RequestError for a token that there isn't, or a constraint that
        can't be kept.
        """
        self._vocabulary = vocabulary
        self._all = np.full(-(-vocabulary // 32), -1, np.int32)
        self._entries = _Entries(np.zeros((3, 64), np.int32), {})
        penalties = sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty
        self._penalties = np.array(penalties, np.float32)
        if sampling.repetition_penalty != 1:
            self._entries.count(prompt, 0)
        for token, bias in sampling.logit_bias.items():
            integer("logit_bias", token, 0, vocabulary - 1)
            self._entries.bias(token, bias)
        for token in (token for word in sampling.bad_words if not isinstance(word, str) for token in word):
            integer("bad_words", token, 0, vocabulary - 1)
        spelled = any(isinstance(word, str) for word in sampling.bad_words)
        if tokenizer is None and (spelled or sampling.constraint):
            raise RequestError("an engine without a tokenizer", want="requests in tokens alone", got="text")
        spellings = tokenizer.spellings if tokenizer and spelled else Spellings(())
        self._bad = BadWords(sampling.bad_words, spellings)
        self._never = set(self._bad.always)
        for token in self._never:
            self._entries.bias(token, -np.inf)
        self._ends, self._least = list(ends), sampling.min_tokens
        self._begin = self._read = len(prompt)
        self._matcher = None
        if tokenizer and sampling.constraint:
            self._matcher = tokenizer.grammars.matcher(*sampling.constraint)
        self.errors: list[RequestError | None] = []
        """Of each row that was made last, why nothing can be drawn there."""

    @property
    def single_row(self) -> bool:
        """Whether rows after guesses can't be had."""
        return self._matcher is not None

    def rows(self, tokens: Items[int], guesses: Items[int], count: int) -> list[Row]:
        """The last `count` rows of those after `tokens` and after each of the `guesses`."""
        new = tokens[self._read :]
        self._read = len(tokens)
        self._entries.count(new)
        if self._matcher:
            self._matcher.follow(new)
        self.errors = []
        numbers = range(len(guesses) + 1 - count, len(guesses) + 1)
        return [self._row(tokens, guesses[:number]) for number in numbers]

    def _row(self, tokens: Items[int], guesses: Items[int]) -> Row:
        entries = self._entries
        if guesses:
            entries = entries.copy()
            entries.count(guesses)
        output, table = [*tokens[self._begin :], *guesses], entries.table
        barred = {*self._bad.after(output), *(self._ends if len(output) < self._least else ())}
        if barred:
            more = np.array(sorted(barred), np.int32)
            rows = [more, np.full_like(more, -1), np.full_like(more, BARRED)]
            table = np.concatenate([table, rows], axis=1)
        allowed, left = self._all, self._vocabulary - len(self._never | barred)
        try:
            if self._matcher:  # never beside tokens that are barred (request.py)
                allowed = self._matcher.allowed()
                left = int(np.bitwise_count(allowed).sum())
            if left < 1:
                raise RequestError("no token is left", place="bad_words", want="fewer", got="all are barred")
            self.errors.append(None)
        except RequestError as error:
            self.errors.append(error)
        return Row(allowed, table, self._penalties)


def stacked(rows: Items[Row], vocabulary: int) -> dict[str, NDArray[np.generic]]:
    """The rows as inputs of the graph. Entries are filled up to a power of two, which changes more seldom."""
    sizes = [row.entries.shape[1] for row in rows]
    total = sum(sizes)
    table = np.zeros((3, 1 << (total - 1).bit_length() if total else 0), np.int32)
    if total:
        np.concatenate([row.entries for row in rows], axis=1, out=table[:, :total])
    return {
        "adjust.allowed": np.array([row.allowed for row in rows], np.int32).reshape(-1, -(-vocabulary // 32)),
        "adjust.spans": np.cumsum([0, *sizes], dtype=np.int32),
        "adjust.ids": table[0],
        "adjust.counts": table[1],
        "adjust.biases": table[2].view(np.float32),
        "adjust.penalties": np.array([row.penalties for row in rows], np.float32).reshape(-1, 3),
    }
