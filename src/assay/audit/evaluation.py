"""How well a language model predicts a text, and how far that is from what another one predicts.

The arithmetic is NumPy's in float64: nothing here is served.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import PrecisionOverflow

Floats = NDArray[np.float64]
Logits = Callable[[Sequence[int]], NDArray[np.float32]]
"""`LanguageModel.logits`, or another engine's."""
ROWS = 32
"""Positions whose probabilities are in memory at once."""


@dataclass(frozen=True)
class Evaluation:
    """Of n scored tokens: `position` int [n] in the text; for each model `surprise` float64 [models, n] in
    nats, and the token that it held `likeliest`, int [models, n]; the first one's `divergence` [n] from the
    last.
    """

    position: NDArray[np.int64]
    likeliest: NDArray[np.int64]
    surprise: Floats
    divergence: Floats

    @property
    def perplexity(self) -> list[float]:
        """Of each model: exp of the mean surprise, the same whichever other model stands beside it."""
        return [float(np.exp(math.fsum(each) / len(each))) for each in self.surprise]

    @property
    def agreement(self) -> float:
        """The share of tokens at which the first and the last hold the same one likeliest."""
        return float((self.likeliest[0] == self.likeliest[-1]).mean())


def windows(tokens: Sequence[int], context: int, bos: int | None) -> list[list[int]]:
    """The text in windows of `context` tokens, side by side; what is left at its end is left out. Each begins
    with `bos`, in place of its first token, if there is one.
    """
    cut = [list(tokens[at : at + context]) for at in range(0, len(tokens) - context + 1, context)]
    return cut if bos is None else [[bos, *window[1:]] for window in cut]


def evaluate(
    models: Sequence[Logits], cut: Sequence[Sequence[int]], progress: Callable[[int, int], None]
) -> Evaluation:
    """Score the second half of each window: its tokens but the first one of them, each after those before it
    in the window. Of two models the second is the reference. Raises RequestError or PrecisionOverflow.
    """
    scored: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]] = []
    for done, window in enumerate(cut):
        progress(done, len(cut))
        logits = [model(window) for model in models]
        for first in range(len(window) // 2, len(window) - 1, ROWS):
            at = np.arange(first, min(first + ROWS, len(window) - 1))
            followed = np.array(window)[at + 1]
            logs = np.stack([log_softmax(each[at]) for each in logits])
            surprise = -logs[:, np.arange(len(at)), followed]
            if not np.isfinite(surprise).all():
                raise PrecisionOverflow("the logits are not numbers", place=f"window {done}")
            divergence = kullback_leibler(logs[-1], logs[0])
            scored.append((done * len(window) + at + 1, logs.argmax(axis=-1), surprise, divergence))
    progress(len(cut), len(cut))
    return Evaluation(*(np.concatenate(parts, axis=-1) for parts in zip(*scored, strict=True)))


def log_softmax(logits: NDArray[np.floating]) -> Floats:
    """Natural logarithms of the probabilities along the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def kullback_leibler(p: Floats, q: Floats) -> Floats:
    """Divergence of q from p at each position, in nats, both logarithms; NaN where either has one."""
    result: Floats = (np.exp(p) * (p - q)).sum(axis=-1)
    return result
