"""What a request changes in its rows of logits before a token is chosen from them."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32


def _reference(
    logits: op.Array, asking: op.Integers, counts: op.Array, biases: op.Array, penalties: op.Array
) -> op.Array:
    x, times = logits.astype(np.float32)[asking], counts.astype(np.float32)
    repetition, presence, frequency = penalties.astype(np.float32).T[:, :, np.newaxis]
    x = np.where(times >= 0, np.where(x > 0, x / repetition, x * repetition), x)
    x = np.where(times > 0, x - frequency * times - presence, x)
    return np.where((biases == -np.inf) & ~np.isnan(x), biases, x + biases.astype(np.float32))


define(
    name="adjust",
    summary="Penalises tokens that were there before, adds biases, and bars tokens.",
    formula=(
        "x = logits[asking[a], v], c = counts[a, v]; if c ≥ 0, x = x / repetition for x > 0, else x · "
        "repetition; if c > 0, x = x − frequency · c − presence; adjusted[a, v] = x + biases[a, v]"
    ),
    inputs=(
        op.Port("logits", (F32,), "R V", "the model's; a NaN stays NaN"),
        op.Port("asking", (I32,), "A", "the rows that ask for this, 0 ≤ asking < R"),
        op.Port("counts", (I32,), "A V", "times in the output; 0: in the prompt alone; −1: in neither"),
        op.Port("biases", (F32,), "A V", "what is added last; −∞ bars the token, whatever its logit"),
        op.Port("penalties", (F32,), "A 3", "repetition (1: none), presence and frequency (0: none)"),
    ),
    outputs=(op.Port("adjusted", (F32,), "A V", "the rows, in the order of asking"),),
    reference=_reference,
    exactness=op.BITWISE,
    kernels=(op.Kernel("adjust.adjust", "logits asking counts biases penalties adjusted A V", rows="A"),),
    numerics=("Each operation is float32 and rounded on its own, in the formula's order.",),
    not_differentiable=dict.fromkeys(
        ("logits", "asking", "counts", "biases", "penalties"), "a choice of tokens follows"
    ),
)
