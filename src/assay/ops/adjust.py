"""What a request changes in its rows of logits before a token is chosen from them."""

from __future__ import annotations

import numpy as np

from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32


def _reference(
    logits: op.Array,
    asking: op.Integers,
    allowed: op.Array,
    spans: op.Integers,
    ids: op.Integers,
    counts: op.Integers,
    biases: op.Array,
    penalties: op.Array,
) -> op.Array:
    bits = np.unpackbits(allowed.view(np.uint8), axis=-1, bitorder="little", count=logits.shape[1])
    x = logits.astype(np.float32)[asking]
    x = np.where((bits == 1) | np.isnan(x), x, np.float32(-np.inf))
    for row, first, end, (repetition, presence, frequency) in zip(
        x, spans, spans[1:], penalties.astype(np.float32), strict=False
    ):
        for token, count, bias in zip(ids[first:end], counts[first:end], biases[first:end], strict=True):
            v = row[token]
            if count >= 0:
                v = v / repetition if v > 0 else v * repetition
            if count > 0:
                v = v - frequency * np.float32(count) - presence
            row[token] = bias if bias == -np.inf and not np.isnan(v) else v + bias
    return x


define(
    name="adjust",
    summary="Bars tokens, penalises those that were there before, and adds biases.",
    formula=(
        "adjusted[a, v] = logits[asking[a], v], −∞ where bit v of allowed[a] is 0; then for each e from "
        "spans[a] to spans[a + 1], in order, with x = adjusted[a, ids[e]] and c = counts[e]: if c ≥ 0, x = "
        "x / repetition for x > 0, else x · repetition; if c > 0, x = x − frequency · c − presence; "
        "adjusted[a, ids[e]] = x + biases[e]"
    ),
    inputs=(
        op.Port("logits", (F32,), "R V", "the model's; a NaN stays NaN"),
        op.Port("asking", (I32,), "A", "the rows that ask for this, 0 ≤ asking < R"),
        op.Port(
            "allowed", (I32,), "A W", "32 tokens a word, the lowest bit first; 0 bars, whatever the logit"
        ),
        op.Port("spans", (I32,), "A+1", "where each row's entries begin, ascending, and end"),
        op.Port("ids", (I32,), "E", "of each entry the token, 0 ≤ id < V"),
        op.Port("counts", (I32,), "E", "times in the output; 0: in the prompt alone; −1: no penalty"),
        op.Port("biases", (F32,), "E", "what is added last; −∞ bars the token, whatever its logit"),
        op.Port("penalties", (F32,), "A 3", "repetition (1: none), presence and frequency (0: none)"),
    ),
    outputs=(op.Port("adjusted", (F32,), "A V", "the rows, in the order of asking"),),
    relations=(
        op.Relation(
            "V ≤ 32·W",
            lambda site: (site.dims["V"].constant or 0) <= 32 * (site.dims["W"].constant or 0),
            "a word has bits for 32 tokens",
        ),
    ),
    reference=_reference,
    exactness=op.BITWISE,
    kernels=(
        op.Kernel(
            "adjust.adjust",
            "logits asking allowed spans ids counts biases penalties adjusted A V W",
            rows="A",
        ),
    ),
    numerics=("Each operation is float32 and rounded on its own, in the formula's order.",),
    not_differentiable=dict.fromkeys(
        ("logits", "asking", "allowed", "spans", "ids", "counts", "biases", "penalties"),
        "a choice of tokens follows",
    ),
)
