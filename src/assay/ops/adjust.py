"""What a request changes in its rows of logits before a token is chosen from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.ops.operator import (
    BITWISE,
    Address,
    Argument,
    Array,
    Attributes,
    Case,
    Kernel,
    Operator,
    Port,
    Relation,
    Site,
)
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32

_INPUTS = ("logits", "asking", "spans", "tokens", "counts", "biases", "penalties", "allowed")


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    logits, asking, spans, tokens, counts, biases, penalties, allowed = inputs
    adjusted = logits.astype(np.float32)[asking]
    bits = np.unpackbits(allowed.view(np.uint8), axis=1, bitorder="little")[:, : logits.shape[1]]
    adjusted[(bits == 0) & ~np.isnan(adjusted)] = -np.inf
    for row, (begin, end), (repetition, presence, frequency) in zip(adjusted, spans, penalties, strict=True):
        listed, times = tokens[begin:end], counts[begin:end].astype(np.float32)
        logit = row[listed]
        seen = np.where(logit > 0, logit / repetition, logit * repetition)
        logit = np.where(times >= 0, seen, logit)
        logit = np.where(times > 0, logit - frequency * times - presence, logit)
        row[listed] = logit + biases[begin:end]
    return (adjusted,)


def _arguments(site: Site) -> Sequence[Argument]:
    return *map(Address, (*_INPUTS, "adjusted")), site.dims["A"], site.dims["V"], site.dims["W"]


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for rows, asking, vocabulary in ((1, 1, 1), (3, 2, 16), (2, 5, 77), (4, 4, 1003)):
        logits = rng.normal(0, 4, (rows, vocabulary)).astype(np.float32)
        logits[rng.random(logits.shape) < 0.05] = -np.inf
        logits[0, vocabulary // 2] = np.nan
        lengths = rng.integers(0, vocabulary + 1, asking)
        ends = np.cumsum(lengths)
        tokens = np.concatenate([rng.permutation(vocabulary)[:length] for length in lengths])
        few = rng.random((asking, -(-vocabulary // 32), 32)) < rng.random((asking, 1, 1))
        inputs = (
            logits,
            rng.integers(0, rows, asking, dtype=np.int32),
            np.stack([ends - lengths, ends], 1).astype(np.int32),
            tokens.astype(np.int32),
            rng.integers(-1, 9, len(tokens), dtype=np.int32),
            rng.choice(np.array([0, -100, 2.5], np.float32), len(tokens)),
            rng.choice(np.array([0.5, 1, 1.3, 2], np.float32), (asking, 3)),
            np.packbits(few, axis=2, bitorder="little").view(np.int32)[:, :, 0],
        )
        kinds = (F32, I32, I32, I32, I32, F32, F32, I32)
        types = tuple(ValueType.of(kind, *value.shape) for kind, value in zip(kinds, inputs, strict=True))
        cases.append(Case(inputs, types, name=f"{asking} of {rows}×{vocabulary}"))
    return cases


register(
    Operator(
        name="adjust",
        since=1,
        summary="Bars tokens, penalises those that were there before, and adds biases.",
        formula=(
            "x = logits[asking[a], v]; x = −∞ unless bit v of allowed[a] is 1; then for each entry e of "
            "spans[a] with v = tokens[e]: if counts[e] ≥ 0, x = x / repetition for x > 0, else x · "
            "repetition; if counts[e] > 0, x = x − frequency · counts[e] − presence; x = x + biases[e]"
        ),
        inputs=(
            Port("logits", (F32,), "R V", "the model's; a NaN stays NaN"),
            Port("asking", (I32,), "A", "the rows that ask for this, 0 ≤ asking < R"),
            Port("spans", (I32,), "A 2", "the entries of each: from, to; 0 ≤ from ≤ to ≤ E"),
            Port("tokens", (I32,), "E", "ids, 0 ≤ tokens < V, none twice in a span"),
            Port("counts", (I32,), "E", "times in the output; 0: in the prompt alone; −1: in neither"),
            Port("biases", (F32,), "E", "what is added last"),
            Port("penalties", (F32,), "A 3", "repetition (1: none), presence and frequency (0: none)"),
            Port("allowed", (I32,), "A W", "a bit for each token, bit v mod 32 of word v / 32"),
        ),
        outputs=(Port("adjusted", (F32,), "A V", "the rows, in the order of asking"),),
        relations=(
            Relation(
                "W = ⌈V / 32⌉",
                lambda dims, attributes: dims["W"].constant == -(-(dims["V"].constant or 0) // 32),
            ),
        ),
        reference=_reference,
        exactness=BITWISE,
        kernels=(Kernel("adjust.adjust", _arguments, rows="A"),),
        cases=_cases,
        numerics=("Each operation is float32 and rounded on its own, in the formula's order.",),
        not_differentiable=dict.fromkeys(_INPUTS, "a choice of tokens follows"),
    )
)
