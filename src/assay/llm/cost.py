"""What a step costs, learnt from the steps that were run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FORGET = 0.995
"""The weight of a step beside the next one's: some two hundred count."""
SCALE = np.array([1.0, 64.0, 65536.0])
"""A step's unit, tokens, and pairs of a query and a key, as they are in a common step."""
PRIOR = np.array([1e-3, 32e-3, 0.0])
"""Seconds of each before anything is known: half a millisecond a token, so that the first steps are small."""
TRUST = np.array([1e-2, 1e-2, 1e-2])
"""How many steps that is worth."""


class Cost:
    """Seconds of a step: a part that all steps have, one for each token, and one for each pair of a query and
    a key. Least squares with exponential forgetting, none of the three below 0.
    """

    def __init__(self) -> None:
        self._squares: NDArray[np.float64] = np.diag(TRUST)
        self._products: NDArray[np.float64] = TRUST * PRIOR
        self._parts = (PRIOR / SCALE).tolist()
        self.steps = 0

    def seconds(self, tokens: int, pairs: int) -> float:
        """What such a step is expected to take."""
        whole, each, pair = self._parts
        return float(whole + each * tokens + pair * pairs)

    def learn(self, tokens: int, pairs: int, seconds: float) -> None:
        """Such a step took so long. One that took much longer than others is thought to be a mishap."""
        self.steps += 1
        if self.steps > 8:
            seconds = min(seconds, 3 * self.seconds(tokens, pairs) + 1e-3)
        x = np.array([1.0, tokens, pairs]) / SCALE
        self._squares = FORGET * self._squares + np.outer(x, x) + (1 - FORGET) * np.diag(TRUST)
        self._products = FORGET * self._products + seconds * x + (1 - FORGET) * TRUST * PRIOR
        kept = [0, 1, 2]
        while kept:
            found = np.linalg.solve(self._squares[np.ix_(kept, kept)], self._products[kept])
            if found.min() >= 0:
                break
            del kept[int(found.argmin())]
        parts = np.zeros(3)
        parts[kept] = found
        self._parts = (np.maximum(parts, [1e-6, 1e-6, 0.0]) / SCALE).tolist()

    def fitting(self, tokens: int, pairs: int, context: int, seconds: float) -> int:
        """How many tokens of a prompt, the first `context` of which are computed, fit into what of `seconds`
        such a step leaves.
        """
        left = seconds - self.seconds(tokens, pairs)
        if left <= 0:
            return 0
        _, each, pair = self._parts
        # each·c + pair·(context·c + c²/2) = left
        linear, square = each + pair * context, pair / 2
        if square * left < 1e-12 * linear * linear:
            return int(left / linear)
        return int((np.sqrt(linear * linear + 4 * square * left) - linear) / (2 * square))
