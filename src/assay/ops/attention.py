"""Attention over the paged cache, for a ragged batch."""

from __future__ import annotations

import numpy as np

from assay.kernels.sizes import PAGE, attention_scratch
from assay.ops import operator as op
from assay.ops.cache import CACHE_TYPES, KEYS, VALUES
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32


def _reference(
    *inputs: op.Array, heads: int, scale: float, window: int, cap: float, causal: bool
) -> op.Array:
    q, keys, values, spans, pasts, table = inputs
    _, kv_heads, d, _ = keys.shape
    y = np.zeros(q.shape, np.float64)
    queries = q.reshape(len(q), heads, d).astype(np.float64) * float(np.float32(scale))
    for sequence, past in enumerate(pasts):
        first, last = spans[sequence], spans[sequence + 1]
        length = past + last - first
        pages = table[sequence, : -(-length // PAGE)]
        # [keys, kv_heads, d]
        k = keys[pages].transpose(0, 3, 1, 2).reshape(-1, kv_heads, d)[:length].astype(np.float64)
        v = values[pages].transpose(0, 2, 1, 3).reshape(-1, kv_heads, d)[:length].astype(np.float64)
        for row in range(first, last):
            end = past + row - first + 1 if causal else length
            begin = max(0, end - window) if window else 0
            for head in range(heads):
                group = head // (heads // kv_heads)
                s = k[begin:end, group] @ queries[row, head]
                s = cap * np.tanh(s / cap) if cap else s
                p = np.exp(s - s.max())
                y[row, head * d : head * d + d] = p @ v[begin:end, group] / p.sum()
    return y


define(
    name="attention",
    summary="Each query attends to the cached keys of its sequence, up to its own position if causal.",
    formula=(
        "y = softmax(s) · v, s = scale · q · kᵀ, or cap · tanh(s / cap) of it, over keys j ≤ position if "
        "causal, and j > position − window where window is not 0"
    ),
    inputs=(
        op.Port("q", (F32,), "T heads*D", "queries, heads side by side; sequences one after another"),
        KEYS,
        VALUES,
        op.Port("spans", (I32,), "S+1", "where each sequence's rows of q begin, and the end"),
        op.Port("pasts", (I32,), "S", "tokens of each sequence before this step"),
        op.Port("table", (I32,), "S P", "pages of each sequence, in order"),
    ),
    outputs=(op.Port("y", (F32,), "T heads*D", "attended values"),),
    attributes=(
        op.Attribute("heads", int, "query heads", low=1),
        op.Attribute("scale", float, "factor of the scores"),
        op.Attribute("window", int, "keys that a query sees, itself included; 0 for all", 0, low=0),
        op.Attribute("cap", float, "the scores' bound; 0 for none", 0.0, low=0.0),
        op.Attribute("causal", bool, "whether a query sees no key after itself", True),
    ),
    relations=(
        op.Relation(
            "heads is a multiple of H",
            lambda site: site.integer("heads") % (site.dims["H"].constant or 1) == 0,
            "each key head serves the same number of query heads",
        ),
        op.Relation(
            "a window is causal",
            lambda site: site.attributes["causal"] is True or site.attributes["window"] == 0,
        ),
        op.Relation(
            "D is a multiple of 16, at most 256",
            lambda site: (d := site.dims["D"].constant) is not None and d % 16 == 0 and d <= 256,
        ),
    ),
    reference=_reference,
    exactness=op.Exactness(
        "ulp",
        64,
        "sums over d and over keys, exp within 1 ulp; scores below 8 in magnitude",
        op.of_magnitudes(_reference, 2),
    ),
    kernels=op.Kernel(
        "attention.{}",
        "q keys values spans pasts table y S P heads H D scale window cap causal scratch",
        scratch=lambda site: attention_scratch(site.integer("heads") // site.integer("H"), site.integer("D")),
    ).each("keys", CACHE_TYPES),
    numerics=(
        "Scores: scale · q is rounded first; then fma over d in ascending order.",
        "Blocks of 64 keys give (max, sum, output) from zero; they fold in order inside superblocks of 512 "
        "keys, and superblocks fold in order. Sums of exp are in 16 lanes and one tree.",
        "With a cap a score is s · (1 / cap), tanh of it, times cap, each rounded.",
        "A block that a row sees nothing of is skipped for it; masking selects, so unwritten slots never "
        "count.",
    ),
    not_differentiable={
        **dict.fromkeys(("keys", "values"), "a cache that is written in place"),
        **dict.fromkeys(("spans", "pasts", "table"), "bookkeeping of the batch"),
    },
)
