"""Text in, text out is built on this: sequences of tokens that share steps of one graph."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import PrecisionOverflow, RequestError
from assay.kernels.sizes import PAGE
from assay.llm.pages import Pages
from assay.llm.request import SEEDS, Sampling
from assay.llm.scheduler import Share, schedule
from assay.llm.sequence import Sequence, State
from assay.runtime.executor import Executor

SEQUENCES = 64
"""The most sequences of one step."""
BUDGET = 512
"""The most tokens of one step, by default."""
TOKEN_BUCKETS = (1, 8, 64, 512, 4096)


def buckets() -> dict[str, Items[int]]:
    """The sizes that plans of a step are made for."""
    few = (1, 8, SEQUENCES)
    return {"T": TOKEN_BUCKETS, "S": few, "R": few}


@dataclass(frozen=True)
class Drawn:
    """One token of one sequence, and whether it was the last that the sequence may have."""

    sequence: Sequence
    token: int
    logprob: float


class Engine:
    """`add` requests, call `step` until nothing is left, `cancel` what is no longer wanted.

    Sequences join and leave between steps; a step is one run of the executor. Whoever shares a step changes
    no bit of it.
    """

    def __init__(
        self, executor: Executor, *, pages: int, context: int, vocabulary: int, budget: int = BUDGET
    ) -> None:
        self.executor = executor
        self.pages = Pages(pages)
        self.context = context
        self.vocabulary = vocabulary
        self.budget = budget
        self.steps = 0
        self._width = -(-context // PAGE)
        self._numbers = 0
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []

    @property
    def busy(self) -> bool:
        """Whether any sequence is left."""
        return bool(self._waiting or self._running)

    def add(self, prompt: Items[int], sampling: Sampling) -> Sequence:
        """Admit a request. Raises RequestError when it can't be served: no tokens, an unknown token, too
        long.
        """
        tokens = [int(token) for token in prompt]
        if not tokens:
            raise RequestError("the prompt is empty", place="prompt", want="at least one token", got="none")
        for position, token in enumerate(tokens):
            if not 0 <= token < self.vocabulary:
                raise RequestError(
                    "no such token",
                    place=f"prompt[{position}]",
                    want=f"0 to {self.vocabulary - 1}",
                    got=str(token),
                )
        room = min(self.context, self.pages.count * PAGE) - len(tokens)
        wanted = sampling.max_tokens
        if room < (wanted or 1):
            asked = f"{len(tokens)} prompt tokens" + (
                f" and {wanted} new ones" if wanted else " and at least one new one"
            )
            raise RequestError(
                "the context is too long",
                place="prompt",
                want=f"at most {room + len(tokens)} tokens in all",
                got=asked,
                hint="shorten the prompt" + (f", or ask for at most {room} new tokens" if room > 0 else ""),
            )
        seed = sampling.seed if sampling.seed is not None else secrets.randbelow(SEEDS)
        sequence = Sequence(self._numbers, tokens, sampling, seed, wanted or room, self._width)
        self._numbers += 1
        self._waiting.append(sequence)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """End a sequence now and free its pages. One that has ended stays as it is."""
        if sequence.state is State.FINISHED:
            return
        (self._waiting if sequence.state is State.WAITING else self._running).remove(sequence)
        sequence.drop(self.pages)
        sequence.state = State.FINISHED

    def step(self) -> list[Drawn]:
        """Run one step and return what it drew, in order of arrival. A sequence at its limit has ended."""
        plan = schedule(self._running, self._waiting, self.pages.free, self.budget, SEQUENCES)
        for sequence in plan.preempted:
            sequence.drop(self.pages)
            self._running.remove(sequence)
            sequence.state = State.WAITING
            self._waiting.insert(0, sequence)
        if not plan.shares:
            return []
        for share in plan.shares:
            share.sequence.hold(self.pages, share.count)
            if share.sequence.state is State.WAITING:
                self._waiting.remove(share.sequence)
                self._running.append(share.sequence)
                share.sequence.state = State.RUNNING
        ending = [share for share in plan.shares if share.count == share.sequence.pending]
        binding, inputs = step_inputs(
            plan.shares, [self._last_row(plan.shares, share) for share in ending], ending
        )
        outputs = self.executor.run(binding, inputs)
        self.steps += 1
        for share in plan.shares:
            share.sequence.computed += share.count
        return self._take(ending, outputs)

    def _take(self, ending: Items[Share], outputs: dict[str, NDArray[np.generic]]) -> list[Drawn]:
        tokens, logprobs = outputs["sample.tokens"].tolist(), outputs["sample.logprob"].tolist()
        drawn = []
        for share, token, logprob in zip(ending, tokens, logprobs, strict=True):
            sequence = share.sequence
            if token < 0:
                self.cancel(sequence)
                raise PrecisionOverflow(
                    "the logits are not numbers", place=f"sequence {sequence.number}, token {sequence.length}"
                )
            sequence.append(token, logprob)
            drawn.append(Drawn(sequence, token, logprob))
            if sequence.drawn == sequence.limit:
                self.cancel(sequence)
        return drawn

    @staticmethod
    def _last_row(shares: Items[Share], wanted: Share) -> int:
        row = -1
        for share in shares:
            row += share.count
            if share is wanted:
                break
        return row

    def logits(self, prompt: Items[int], rows: Callable[[int, NDArray[np.float32]], None]) -> None:
        """Run a prompt alone and pass on the logits of all its positions: rows(first position, float32 [n,
        vocabulary]).
        """
        sequence = self.add(prompt, Sampling(max_tokens=1)) if len(prompt) < self.context else None
        if sequence is None:
            raise RequestError(
                "the context is too long",
                place="tokens",
                want=f"fewer than {self.context}",
                got=str(len(prompt)),
            )
        try:
            while sequence.pending:
                count = min(sequence.pending, SEQUENCES)
                sequence.hold(self.pages, count)
                share = Share(sequence, count)
                binding, inputs = step_inputs([share], list(range(count)), [share] * count)
                outputs = self.executor.run(binding, inputs)
                found = outputs["logits"]
                assert found.dtype == np.float32
                rows(sequence.computed, found.view(np.float32))
                sequence.computed += count
        finally:
            self.cancel(sequence)

    def check_integrity(self) -> None:
        """Raises SchedulingDeadlock when the books of the cache don't agree with the sequences."""
        self.pages.check_integrity(sequence.pages for sequence in (*self._running, *self._waiting))
        for sequence in self._running:
            assert len(sequence.pages) * PAGE >= sequence.computed


def step_inputs(
    shares: Items[Share], rows: Items[int], sampled: Items[Share]
) -> tuple[dict[str, int], dict[str, NDArray[np.generic]]]:
    """The sizes and inputs of a step that holds `shares`, with logits and a draw for each of `rows`, which
    belong to `sampled`.
    """
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans = [0]
    for share in shares:
        sequence, first = share.sequence, share.sequence.computed
        place = range(first, first + share.count)
        tokens += sequence.tokens[first : first + share.count]
        positions += place
        slots += [sequence.pages[position // PAGE] * PAGE + position % PAGE for position in place]
        spans.append(len(tokens))
    draws = [share.sequence for share in sampled]
    asked = [sequence.sampling for sequence in draws]
    int32 = np.int32
    inputs: dict[str, NDArray[np.generic]] = {
        "tokens": np.array(tokens, int32),
        "positions": np.array(positions, int32),
        "slots": np.array(slots, int32),
        "spans": np.array(spans, int32),
        "pasts": np.array([share.sequence.computed for share in shares], int32),
        "table": np.array([share.sequence.table for share in shares], int32),
        "rows": np.array(rows, int32),
        "temperature": np.array([sampling.temperature for sampling in asked], np.float32),
        "top_k": np.array([sampling.top_k for sampling in asked], int32),
        "top_p": np.array([sampling.top_p for sampling in asked], np.float32),
        "seed": np.array([sequence.seed for sequence in draws], np.int64),
        "choice": np.zeros(len(draws), int32),
        "draw": np.array([sequence.length for sequence in draws], int32),
    }
    return {"T": len(tokens), "S": len(shares), "R": len(rows)}, inputs
