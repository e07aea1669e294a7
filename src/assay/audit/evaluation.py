"""How well a language model predicts a text, and how far that is from what another one predicts.

The arithmetic is NumPy's in float64: nothing here is served.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import PrecisionOverflow

Floats = NDArray[np.float64]
ROWS = 32
"""Positions whose probabilities are in memory at once."""


class Scorer(Protocol):
    """What gives logits at every position: a LanguageModel."""

    def logits(self, tokens: Items[int], /) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Prediction:
    """Of one model, at each scored token: its surprise in nats, and the token that it held likeliest."""

    surprise: Floats
    likeliest: NDArray[np.int64]

    @property
    def perplexity(self) -> float:
        """exp of the mean surprise."""
        return float(np.exp(self.surprise.mean()))

    @property
    def error(self) -> float:
        """The perplexity's standard error; 0 for a single token."""
        spread = self.surprise.std(ddof=1) if len(self.surprise) > 1 else 0.0
        return float(self.perplexity * spread / np.sqrt(len(self.surprise)))


@dataclass(frozen=True)
class Evaluation:
    """`positions` are those of the scored tokens in the text; of each, what the models predicted, the judged
    one first, and the divergence of the first from the last (zeros where there is one model).
    """

    positions: NDArray[np.int64]
    models: tuple[Prediction, ...]
    divergence: Floats

    @property
    def agreement(self) -> float:
        """The share of tokens at which both hold the same one likeliest."""
        return float((self.models[0].likeliest == self.models[-1].likeliest).mean())

    def worst(self, count: int) -> list[int]:
        """Which scored tokens have the largest divergence, the worst first."""
        order: list[int] = np.argsort(-self.divergence, kind="stable")[:count].tolist()
        return order


def windows(tokens: Items[int], context: int, bos: int | None) -> list[list[int]]:
    """The text in windows of `context` tokens, side by side; what is left at its end is left out. Each begins
    with `bos`, in place of its first token, if there is one.
    """
    cut = [list(tokens[at : at + context]) for at in range(0, len(tokens) - context + 1, context)]
    return cut if bos is None else [[bos, *window[1:]] for window in cut]


def evaluate(
    models: Items[Scorer], cut: Items[Items[int]], progress: Callable[[int, int], None]
) -> Evaluation:
    """Score the second half of each window: its tokens but the first one of them, each after those before it
    in the window. Of two models the second is the reference. Raises RequestError or PrecisionOverflow.
    """
    scored: list[tuple[NDArray[np.int64], Floats, Floats]] = []
    for done, window in enumerate(cut):
        progress(done, len(cut))
        logits = [lm.logits(window) for lm in models]
        for first in range(len(window) // 2, len(window) - 1, ROWS):
            rows = slice(first, min(first + ROWS, len(window) - 1))
            followed = np.array(window[rows.start + 1 : rows.stop + 1])
            logs = [log_softmax(each[rows]) for each in logits]
            surprise = np.stack([-log[np.arange(len(followed)), followed] for log in logs])
            if not np.isfinite(surprise).all():
                raise PrecisionOverflow("the logits are not numbers", place=f"window {done}")
            likeliest = np.stack([log.argmax(axis=-1) for log in logs])
            at = done * len(window) + np.arange(rows.start + 1, rows.stop + 1)
            scored.append((np.vstack([at, likeliest]), surprise, kullback_leibler(logs[-1], logs[0])))
    progress(len(cut), len(cut))
    integers, surprises, divergences = (np.concatenate(parts, axis=-1) for parts in zip(*scored, strict=True))
    predictions = tuple(map(Prediction, surprises, integers[1:]))
    return Evaluation(integers[0], predictions, divergences)


def log_softmax(logits: NDArray[np.floating]) -> Floats:
    """Natural logarithms of the probabilities along the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def kullback_leibler(p: Floats, q: Floats) -> Floats:
    """Divergence of q from p at each position, in nats, both logarithms; NaN where either has one."""
    result: Floats = (np.exp(p) * (p - q)).sum(axis=-1)
    return result
