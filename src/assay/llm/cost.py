"""What a step costs, learnt from the steps that were run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FORGET = 0.99
"""The weight of a step beside the next one's: a few hundred count."""
SURE = 1e4
"""Where nothing new is learnt, what was learnt isn't forgotten: the most that the model may doubt itself."""
PAIRS = 1e-3
"""Pairs of a query and a key are counted in thousands."""


class Cost:
    """Seconds of a step: a part that all steps have, one for each token, and one for each pair of a query and
    a key. Recursive least squares with forgetting (Haykin, Adaptive Filter Theory), never below 0.
    """

    def __init__(self) -> None:
        """Before anything is known a token costs a millisecond, so that the first steps are small."""
        self._weights: NDArray[np.float64] = np.array([1e-3, 1e-3, 1e-6])
        self._doubt: NDArray[np.float64] = np.diag([1e2, 1e2, 1e2])
        self.steps = 0

    def seconds(self, tokens: int, pairs: int) -> float:
        """What such a step is expected to take."""
        whole, each, pair = self._weights.tolist()
        return float(whole + each * tokens + pair * PAIRS * pairs)

    def learn(self, tokens: int, pairs: int, seconds: float) -> None:
        """Such a step took so long. One that took much longer than any before is thought to be a mishap."""
        self.steps += 1
        expected = self.seconds(tokens, pairs)
        if self.steps > 8:
            seconds = min(seconds, 4 * expected + 1e-3)
        x = np.array([1.0, tokens, PAIRS * pairs])
        toward = self._doubt @ x
        gain = toward / (FORGET + x @ toward)
        # Relative errors count: a short step is to be known as well as a long one.
        self._weights = np.maximum(self._weights + gain * (seconds - expected), [1e-5, 1e-7, 0.0])
        doubt = self._doubt - np.outer(gain, toward)
        if np.trace(doubt) < FORGET * SURE:
            doubt = doubt / FORGET
        self._doubt = (doubt + doubt.T) / 2

    def fitting(self, tokens: int, pairs: int, context: int, seconds: float) -> int:
        """How many tokens of a prompt, the first `context` of which are computed, fit into what of `seconds`
        such a step leaves.
        """
        left = seconds - self.seconds(tokens, pairs)
        if left <= 0:
            return 0
        _, each, pair = self._weights.tolist()
        # each·c + pair·(context·c + c²/2) = left
        linear, square = each + pair * PAIRS * context, pair * PAIRS / 2
        if square * left < 1e-12 * linear * linear:
            return int(left / linear)
        return int((np.sqrt(linear * linear + 4 * square * left) - linear) / (2 * square))
