"""One request on its way: its tokens, its pages, and how far it is computed."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError
from assay.kernels.sizes import PAGE
from assay.llm.controls import Controls
from assay.llm.pages import Pages
from assay.llm.request import Sampling
from assay.ops.sample import PARAMETERS

DRAW = np.dtype([(name, dtype.numpy) for name, dtype in PARAMETERS.items()])
Alternatives = tuple[tuple[int, float], ...]
"""Tokens and the natural logarithms of their probabilities."""


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class Sequence:
    """`tokens` are the prompt and what was drawn; the first `computed` of them are in the cache."""

    def __init__(
        self,
        number: int,
        prompt: list[int],
        sampling: Sampling,
        seed: int,
        limit: int,
        width: int,
        root: bytes = b"",
        controls: Controls | None = None,
    ) -> None:
        """`limit` is the most tokens that may be drawn, `width` the most pages that it can hold. `root` says
        what rows of the cache depend on beside the tokens.
        """
        self.number = number
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.sampling = sampling
        self.seed = seed
        self.limit = limit
        self.controls = controls
        self.draw = _draw(sampling, seed)
        """The inputs of the operator `sample` for its rows, but for their position and source."""
        self.computed = 0
        self.ran = 0
        """Tokens that steps computed for it: guesses that failed, and what was done again, count too."""
        self.reused = 0
        """Tokens that were found in the cache."""
        self.root = self.key = root
        self.whole = 0
        """Pages that are full and whose key is known: `key` stands for all of them."""
        self.state = State.WAITING
        self.pages: list[int] = []
        self.table = np.zeros(width, np.int32)
        self.logprobs: list[float] = []
        self.top_logprobs: list[Alternatives] = []
        self.others: list[Sequence] = []
        """Further answers to the prompt, the last one first, until they begin."""
        self.further: tuple[Sequence, ...] = ()
        """All other answers to the prompt, of the first one."""
        self.reason = ""
        """Why it ended: "stop" at an end token, "length", "cancelled", or "error"."""
        self.error: AssayError | None = None
        self.due = float(number)
        """What is due first goes first."""
        self.deadline: float | None = None
        """On the clock `time.monotonic`."""

    @property
    def choices(self) -> tuple[Sequence, ...]:
        """All answers to the prompt, this one first."""
        return self, *self.further

    @property
    def length(self) -> int:
        """Tokens of the prompt and drawn."""
        return len(self.tokens)

    @property
    def pending(self) -> int:
        """Tokens that are known and not yet in the cache."""
        return self.length - self.computed

    @property
    def single_row(self) -> bool:
        """Whether guesses are of no use: what may come after them isn't known."""
        return self.controls is not None and self.controls.single_row

    @property
    def drawn(self) -> int:
        """Tokens drawn so far."""
        return self.length - self.prompt_length

    def pages_for(self, count: int) -> int:
        """Pages that the next `count` tokens need beyond those that it holds."""
        return max(0, -(-(self.computed + count) // PAGE) - len(self.pages))

    def take(self, page: int) -> None:
        """One more page, which it holds already in the books."""
        self.table[len(self.pages)] = page
        self.pages.append(page)

    def hold(self, pages: Pages, count: int) -> None:
        """Take the pages that the next `count` tokens need."""
        for _ in range(self.pages_for(count)):
            self.take(pages.allocate())

    def drop(self, pages: Pages) -> None:
        """Give all pages back, the last one first, so that a prefix is kept longer than what follows it."""
        while self.pages:
            pages.release(self.pages.pop())
        self.computed, self.whole, self.key = 0, 0, self.root

    def restart(self) -> None:
        """Hold no pages any more; ended if there is a reason, else waiting. What was drawn last is drawn
        again: an exception may have come before all of it was noted, or the end.
        """
        kept = max(0, min(self.drawn, len(self.logprobs), len(self.top_logprobs)) - 1)
        if not self.reason:
            del self.tokens[self.prompt_length + kept :], self.logprobs[kept:], self.top_logprobs[kept:]
        self.pages, self.others = [], []
        self.computed, self.whole, self.key = 0, 0, self.root
        self.state = State.FINISHED if self.reason else State.WAITING

    def append(self, token: int, logprob: float, top: Alternatives = ()) -> None:
        """Add a drawn token: all before it are computed. `top` are the likeliest in its place."""
        self.computed = self.length
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.top_logprobs.append(top)


def _draw(sampling: Sampling, seed: int) -> NDArray[np.void]:
    draw = np.zeros(1, DRAW)
    for name in ("temperature", "top_k", "min_p", "typical_p", "top_p"):
        draw[name] = getattr(sampling, name)
    draw["seed"] = seed
    draw["top_n"] = sampling.top_logprobs
    return draw
