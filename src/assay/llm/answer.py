"""An answer: the text of a sequence's tokens, and what there is to say of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from assay.llm.detokenizer import Detokenizer
from assay.llm.sequence import Alternatives, Sequence
from assay.llm.stops import StopStrings
from assay.llm.tokenizer import Tokenizer


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompt and of the answer."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Timings:
    """Seconds from the request to the first token, and to the last. Tokens that were computed for it, wrong
    guesses included, and tokens that were in the cache already.
    """

    first_token: float
    total: float
    computed_tokens: int = 0
    cached_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of its tokens that were in the cache already."""
        return self.cached_tokens / max(1, self.cached_tokens + self.computed_tokens)

    def tokens_per_second(self, completion_tokens: int) -> float:
        """New tokens for each second after the first one."""
        spent = self.total - self.first_token
        return (completion_tokens - 1) / spent if spent > 0 else 0.0


@dataclass(frozen=True)
class Completion:
    """An answer. `finish_reason` is "stop" (an end token or a stop string), "length", or "cancelled"."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    usage: Usage
    timings: Timings
    seed: int
    logprobs: tuple[float, ...]
    top_logprobs: tuple[Alternatives, ...] = ()
    """The likeliest tokens in each one's place, with their log-probabilities."""
    others: tuple[Completion, ...] = ()

    @property
    def choices(self) -> tuple[Completion, ...]:
        """All `n` answers to the prompt, this one first."""
        return self, *self.others


class Answer:
    """One request while it is answered: the text of its sequence's tokens, as far as they are read."""

    def __init__(self, sequence: Sequence, tokenizer: Tokenizer) -> None:
        self.sequence, self.tokenizer = sequence, tokenizer
        self.texts: deque[str] = deque()
        """What nobody has taken yet."""
        self.reason = ""
        self.others = [Answer(other, tokenizer) for other in sequence.choices[1:]]
        self.spoken: list[str] = []
        """What each token that was read completed; the end adds to the last."""
        self._detokenizer = Detokenizer(tokenizer, continues=True)
        self._stops = StopStrings(sequence.sampling.stop)
        self._read = sequence.prompt_length
        self._began = time.perf_counter()
        self._first = self._last = 0.0

    def read(self, ends: Collection[int]) -> None:
        """Account for the tokens that were drawn since, and for the sequence's end."""
        sequence = self.sequence
        while self._read < sequence.length and not self.reason:
            token = sequence.tokens[self._read]
            self._read += 1
            self._last = time.perf_counter()
            self._first = self._first or self._last
            self.spoken.append("")
            if token not in ends:
                self._emit(self._stops.push(self._detokenizer.push(token)))
        if not self.reason and sequence.reason:
            # Held back so far: bytes of half a character, the beginning of a stop string.
            self._emit(self._stops.push(self._detokenizer.finish()))
            self._emit((self._stops.finish(), False))
            self.reason = self.reason or sequence.reason

    @property
    def count(self) -> int:
        """Tokens that were read."""
        return self._read - self.sequence.prompt_length

    def tokens(self, first: int = 0) -> list[int]:
        """Those that were read, from the one of that number."""
        return self.sequence.tokens[self.sequence.prompt_length + first : self._read]

    def _emit(self, found: tuple[str, bool]) -> None:
        text, stopped = found
        if text:
            self.texts.append(text)
            self.spoken[-1] += text
        if stopped:
            self.reason = "stop"

    def completion(self) -> Completion:
        sequence, first = self.sequence, self._first or self._began
        drawn, spent = self.count, max(first, self._last) - self._began
        return Completion(
            text="".join(self.spoken),
            tokens=tuple(self.tokens()),
            finish_reason=self.reason or "cancelled",
            usage=Usage(sequence.prompt_length, drawn),
            timings=Timings(first - self._began, spent, sequence.ran, sequence.reused),
            seed=sequence.seed,
            logprobs=tuple(sequence.logprobs[:drawn]),
            top_logprobs=tuple(sequence.top_logprobs[:drawn]),
            others=tuple(other.completion() for other in self.others),
        )
