"""What a request changes in the logits of its rows, as a function of the tokens before each."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.llm.bad_words import BadWords
from assay.llm.fields import integer
from assay.llm.request import Sampling
from assay.llm.tokenizer import Tokenizer

Row = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]
"""Counts, biases and penalties as the operator `adjust` wants them."""


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
        self._counts = np.full(vocabulary, -1, np.int32)
        self._biases = np.zeros(vocabulary, np.float32)
        penalties = sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty
        self._penalties = np.array(penalties, np.float32)
        if sampling.repetition_penalty != 1:
            self._counts[prompt] = 0
        for token, bias in sampling.logit_bias.items():
            integer("logit_bias", token, 0, vocabulary - 1)
            self._biases[token] = bias
        for token in (token for word in sampling.bad_words if not isinstance(word, str) for token in word):
            integer("bad_words", token, 0, vocabulary - 1)
        spelled = any(isinstance(word, str) for word in sampling.bad_words)
        if tokenizer is None and (spelled or sampling.constraint):
            raise RequestError("an engine without a tokenizer", want="requests in tokens alone", got="text")
        self._bad = BadWords(sampling.bad_words, tokenizer.pieces if tokenizer and spelled else ())
        self._biases[self._bad.always] = -np.inf
        self._ends, self._least = list(ends), sampling.min_tokens
        self._begin = self._read = len(prompt)
        self._matcher = None
        if tokenizer and sampling.constraint:
            self._matcher = tokenizer.grammars.matcher(*sampling.constraint)
        self.error: RequestError | None = None
        """Why nothing can be drawn."""

    @property
    def single_row(self) -> bool:
        """Whether rows after guesses can't be had."""
        return self._matcher is not None

    def rows(self, tokens: Items[int], guesses: Items[int], count: int) -> list[Row]:
        """The last `count` rows of those after `tokens` and after each of the `guesses`."""
        new = tokens[self._read :]
        self._read = len(tokens)
        _count(self._counts, new)
        if self._matcher:
            self._matcher.follow(new)
        numbers = range(len(guesses) + 1 - count, len(guesses) + 1)
        return [self._row(tokens, guesses[:number]) for number in numbers]

    def _row(self, tokens: Items[int], guesses: Items[int]) -> Row:
        counts, biases = self._counts, self._biases
        if guesses:
            counts = counts.copy()
            _count(counts, guesses)
        output = [*tokens[self._begin :], *guesses]
        barred = [*self._bad.after(output), *(self._ends if len(output) < self._least else ())]
        if barred:
            biases = biases.copy()
            biases[barred] = -np.inf
        try:
            if self._matcher:
                allowed = self._matcher.allowed()[: len(biases)]
                biases = np.where(allowed, biases, np.float32(-np.inf))
            if np.isneginf(biases).all():
                raise RequestError("no token is left", place="bad_words", want="fewer", got="all are barred")
        except RequestError as error:
            self.error = error
        return counts, biases, self._penalties


def stacked(rows: Items[Row], vocabulary: int) -> dict[str, NDArray[np.generic]]:
    """The rows as inputs of the graph."""
    wide = (len(rows), vocabulary)
    return {
        "adjust.counts": np.array([counts for counts, _, _ in rows], np.int32).reshape(wide),
        "adjust.biases": np.array([biases for _, biases, _ in rows], np.float32).reshape(wide),
        "adjust.penalties": np.array([each for _, _, each in rows], np.float32).reshape(-1, 3),
    }


def _count(counts: NDArray[np.int32], tokens: Items[int]) -> None:
    for token in tokens:
        counts[token] = max(counts[token], 0) + 1
