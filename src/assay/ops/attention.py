"""Attention over the paged cache, for a ragged batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import PAGE, attention_scratch
from assay.ops.cache import CACHE_TYPES
from assay.ops.operator import (
    Address,
    Argument,
    Array,
    Attribute,
    Attributes,
    Case,
    Exactness,
    Kernel,
    Operator,
    Port,
    Relation,
    Scratch,
    Site,
    integer,
    number,
)
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32, DType


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    q, keys, values, spans, pasts, table = inputs
    heads, window = integer(attributes, "heads"), integer(attributes, "window")
    cap, causal = number(attributes, "cap"), attributes["causal"]
    _, kv_heads, d, _ = keys.shape
    y = np.zeros(q.shape, np.float64)
    queries = q.reshape(len(q), heads, d).astype(np.float64) * float(np.float32(number(attributes, "scale")))
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
    return (y,)


def _terms(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    q, keys, values, *batch = inputs
    return _reference((q, keys, np.abs(values), *batch), attributes)


def _arguments(site: Site) -> Sequence[Argument]:
    heads, kv_heads, d = site.integer("heads"), site.integer("H"), site.integer("D")
    ports = tuple(map(Address, ("q", "keys", "values", "spans", "pasts", "table", "y")))
    return (
        *ports,
        site.dims["S"],
        site.dims["P"],
        heads,
        kv_heads,
        d,
        site.number("scale"),
        site.integer("window"),
        site.number("cap"),
        int(site.attributes["causal"] is True),
        Scratch(),
    )


def _kernel(dtype: DType) -> Kernel:
    return Kernel(
        f"attention.{dtype}",
        _arguments,
        f"the cache is {dtype}",
        lambda site: site.inputs[1].dtype is dtype,
        lambda site: attention_scratch(site.integer("heads") // site.integer("H"), site.integer("D")),
    )


def _case(
    rng: np.random.Generator,
    dtype: DType,
    lengths: list[int],
    pasts: list[int],
    shape: tuple[int, int, int],
    window: int,
    cap: float = 0.0,
    causal: bool = True,
) -> Case:
    heads, kv_heads, d = shape
    needed = [-(-(past + length) // PAGE) for past, length in zip(pasts, lengths, strict=True)]
    pages = sum(needed) + 2
    order = rng.permutation(pages).astype(np.int32)
    table = np.zeros((len(lengths), max(needed)), np.int32)
    # What no sequence has written may hold anything.
    keys = np.full((pages, kv_heads, d, PAGE), np.nan, dtype.numpy)
    values = np.full((pages, kv_heads, PAGE, d), np.nan, dtype.numpy)
    at = 0
    for sequence, count in enumerate(needed):
        table[sequence, :count] = order[at : at + count]
        at += count
        total = pasts[sequence] + lengths[sequence]
        for token in range(total):
            page = table[sequence, token // PAGE]
            keys[page, :, :, token % PAGE] = rng.normal(0, 1, (kv_heads, d))
            values[page, :, token % PAGE] = rng.normal(0, 1, (kv_heads, d))
    spans = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    q = rng.normal(0, 1, (int(spans[-1]), heads * d)).astype(np.float32)
    types = (
        ValueType.of(F32, len(q), heads * d),
        ValueType.of(dtype, pages, kv_heads, d, PAGE),
        ValueType.of(dtype, pages, kv_heads, PAGE, d),
        ValueType.of(I32, len(spans)),
        ValueType.of(I32, len(lengths)),
        ValueType.of(I32, *table.shape),
    )
    inputs = (q, keys, values, spans, np.array(pasts, np.int32), table)
    attributes = {
        "heads": heads,
        "scale": float(np.float32(d**-0.5)),
        "window": window,
        "cap": cap,
        "causal": causal,
    }
    kind = f"{heads}/{kv_heads}×{d}, window {window}, cap {cap}, causal {causal}"
    return Case(inputs, types, attributes, f"{dtype} {lengths} after {pasts}, {kind}")


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    return [
        _case(rng, dtype, *rest)
        for dtype in CACHE_TYPES
        for rest in (
            ([1], [0], (1, 1, 16), 0),
            ([5, 1, 20], [0, 63, 60], (3, 1, 64), 0),
            ([1, 33, 1], [640, 511, 100], (4, 2, 32), 0),
            ([70, 2], [3, 600], (6, 2, 64), 100),
            ([9, 130], [1100, 0], (2, 2, 80), 48),
            ([1, 40], [70, 0], (2, 1, 32), 0, 5.0),
            ([3, 90, 1], [0, 0, 600], (4, 4, 32), 0, 0.0, False),
        )
    ]


register(
    Operator(
        name="attention",
        since=1,
        summary="Each query attends to the cached keys of its sequence, up to its own position if causal.",
        formula=(
            "y = softmax(s) · v, s = scale · q · kᵀ, or cap · tanh(s / cap) of it, over keys j ≤ position if "
            "causal, and j > position − window where window is not 0"
        ),
        inputs=(
            Port("q", (F32,), "T heads*D", "queries, heads side by side; sequences one after another"),
            Port("keys", CACHE_TYPES, "pages H D 64", "cached keys, transposed in their page"),
            Port("values", CACHE_TYPES, "pages H 64 D", "cached values", like="keys"),
            Port("spans", (I32,), "S+1", "where each sequence's rows of q begin, and the end"),
            Port("pasts", (I32,), "S", "tokens of each sequence before this step"),
            Port("table", (I32,), "S P", "pages of each sequence, in order"),
        ),
        outputs=(Port("y", (F32,), "T heads*D", "attended values"),),
        attributes=(
            Attribute("heads", int, "query heads", low=1),
            Attribute("scale", float, "factor of the scores"),
            Attribute("window", int, "keys that a query sees, itself included; 0 for all", 0, low=0),
            Attribute("cap", float, "the scores' bound; 0 for none", 0.0, low=0.0),
            Attribute("causal", bool, "whether a query sees no key after itself", True),
        ),
        relations=(
            Relation(
                "heads is a multiple of H",
                lambda dims, attributes: integer(attributes, "heads") % (dims["H"].constant or 1) == 0,
                "each key head serves the same number of query heads",
            ),
            Relation(
                "a window is causal",
                lambda dims, attributes: attributes["causal"] is True or attributes["window"] == 0,
            ),
            Relation(
                "D is a multiple of 16, at most 256",
                lambda dims, attributes: (d := dims["D"].constant) is not None and d % 16 == 0 and d <= 256,
            ),
        ),
        reference=_reference,
        exactness=Exactness(
            "ulp", 64, "sums over d and over keys, exp within 1 ulp; scores below 8 in magnitude", _terms
        ),
        kernels=tuple(map(_kernel, CACHE_TYPES)),
        cases=_cases,
        numerics=(
            "Scores: scale · q is rounded first; then fma over d in ascending order.",
            "Blocks of 64 keys give (max, sum, output) from zero; they fold in order inside "
            "superblocks of 512 keys, and "
            "superblocks fold in order. Sums of exp are in 16 lanes and one tree.",
            "With a cap a score is s · (1 / cap), tanh of it, times cap, each rounded.",
            "A block that a row sees nothing of is skipped for it; masking selects, so unwritten "
            "slots never count.",
        ),
        not_differentiable={
            name: "a cache that is written in place"
            if name in ("keys", "values")
            else "bookkeeping of the batch"
            for name in ("keys", "values", "spans", "pasts", "table")
        },
    )
)
