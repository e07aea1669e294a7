"""Attention and its kin: the standard's functions, on kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.operator import Exactness
from assay.ops.standard.definition import FLAG, NATURAL, POSITIVE, Range, one_of
from assay.ops.standard.pointwise import stretched
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site

FUNCTION = (("the standard's function", "always"),)
GROUPS = "heads of K don't divide those of Q"
EXACTNESS = Exactness("ulp", "(K + N) / 8 + 512", "of the greatest |V|: two products and a softmax")


def _heads(site: Site, index: int, key: str) -> tuple[Dim, Dim, Dim, Dim] | None:
    """Batch, heads, length and head size of an input of rank 4, or 3 with all heads in the last axis."""
    shape = site.shape(index)
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    count = site[key]
    rule, want, hint = f"attribute {key} missing", "the number of heads", "inputs of rank 3 don't say it"
    if not site.require(bool(count), rule, want=want, got="nothing", hint=hint):
        return None
    assert isinstance(count, int)
    site.multiple(shape[2], count, "heads don't divide the last axis", index)
    return shape[0], Dim.of(count), shape[1], shape[2] // count


def _attention(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 3, 4) & site.want_rank(1, 3, 4) & site.want_rank(2, 3, 4)):
        return [None]
    q, k, v = (
        _heads(site, at, key) for at, key in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    if q is None or k is None or v is None:
        return [None]
    site.multiple(q[1], k[1], GROUPS, 1)
    site.agree(q[0], k[0], "sizes of the batch", 1)
    site.agree(q[3], k[3], "head sizes", 1)
    for axis, what in ((0, "sizes of the batch"), (1, "heads"), (2, "lengths of K and V")):
        site.agree(k[axis], v[axis], what, 2)
    past = site.shape(4)[2] if site.has(4) and site.want_rank(4, 4) else Dim.of(0)
    site.require(
        site.has(4) == site.has(5), "one of past_key and past_value", want="both or none", got="one", input=4
    )
    rule, both = "a past and nonpad_kv_seqlen", site.has(6) and site.has(4)
    site.require(not both, rule, want="one of them", got="both", input=6)
    site.match(4, k[0], k[1], past, k[3])
    site.match(5, k[0], k[1], past, v[3])
    site.match(6, q[0])
    total = past + k[2]
    if site.has(3):
        site.stretches(3, site.shape(3)[:-1], q[:3], "the mask doesn't fit the scores")
        if site.rank(3):
            site.fits(3, site.shape(3)[-1], total, "the mask is longer than the keys")
    flat = site.rank(0) == 3
    y = (q[0], q[2], q[1] * v[3]) if flat else (q[0], q[1], q[2], v[3])
    key, value = ((k[0], k[1], total, each) for each in (k[3], v[3]))
    return [y, ValueType(site.dtype(1), key), ValueType(site.dtype(2), value), (q[0], q[1], q[2], total)]


define(
    "Attention", _attention, expand=True, exactness=EXACTNESS, kernels=FUNCTION,
    formula="Y = softmax(softcap(scale · Q · Kᵀ + mask)) · V for each head, K and V behind the past ones; "
    "softcap(s) = "
    "softcap · tanh(s / softcap)",
    shapes="Y [B, heads, length, V's head size], or of rank 3 as Q; present_key and present_value with the "
    "past's "
    "length more.",
    ranges={"is_causal": FLAG, "qk_matmul_output_mode": one_of(0, 1, 2, 3), "softcap": Range(low=0),
            "q_num_heads": POSITIVE, "kv_num_heads": POSITIVE, "left_window_size": Range(low=-1),
            "right_window_size": Range(low=-1), "softmax_precision": one_of(1, 10, 11, 16)},
    numerics=("Q and K are each multiplied by √scale; the products as MatMul's, the softmax as Softmax's.",),
)  # fmt: skip


def _rotary(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 3, 4):
        return [None]
    x = _heads(site, 0, "num_heads")
    if x is None:
        return [None]
    part = site.integer("rotary_embedding_dim")
    turned = Dim.of(part) if part else x[3]
    site.fits(0, turned, x[3], "rotary_embedding_dim above the head size")
    site.multiple(turned, 2, "halves of an odd number of elements", 0)
    half = turned // 2
    for index in (1, 2):
        if site.has(3):
            site.match(index, site.shape(index)[0] if site.rank(index) else Dim.of(0), half)
        else:
            site.match(index, x[0], x[2], half)
    site.match(3, x[0], x[2])
    return [site.shape(0)]


define(
    "RotaryEmbedding", _rotary, expand=True, kernels=FUNCTION, shapes="X's.",
    formula="Y = (x1 cos − x2 sin, x1 sin + x2 cos) of the halves of each head (interleaved: of "
    "neighbours), of its "
    "first rotary_embedding_dim elements; cos and sin by position_ids",
    ranges={"interleaved": FLAG, "num_heads": NATURAL, "rotary_embedding_dim": NATURAL},
    exactness=Exactness("ulp", 2, "of the greater element: two products, each rounded, and a sum"),
    not_differentiable={"position_ids": "places are integers"},
)  # fmt: skip


def _linear(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 3) & site.want_rank(1, 3) & site.want_rank(2, 3)):
        return [None]
    q, k, v = (
        _heads(site, at, key) for at, key in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    assert q and k and v
    site.multiple(q[1], k[1], GROUPS, 1)
    site.match(1, q[0], q[2], k[1] * q[3])
    site.match(2, q[0], q[2], v[1] * v[3])
    site.match(3, q[0], k[1], k[3], v[3])
    for index, key in ((4, "gated"), (5, "delta")):
        way = site.text("update_rule")
        rule, good = f"{way} needs an input that isn't there", site.has(index) or key not in way
        site.require(good, rule, want="a value", got="nothing", input=index)
        if site.has(index) and site.want_rank(index, 3):
            site.match(index, q[0], q[2], site.shape(index)[2])
    state = site.dtype(3) if site.has(3) else site.dtype(0)
    return [(q[0], q[2], q[1] * v[3]), ValueType(state, (q[0], k[1], k[3], v[3]))]


define(
    "LinearAttention", _linear, expand=True, kernels=FUNCTION,
    formula="S = e^decay · S + key ⊗ beta · (value − Sᵀ key) (without decay or beta where update_rule has "
    "none), "
    "output = scale · Sᵀ query, step by step", shapes="[B, length, heads · V's head size]; the state [B, "
    "heads, K, V].",
    ranges={"update_rule": one_of("linear", "gated", "delta", "gated_delta"), "q_num_heads": POSITIVE,
            "kv_num_heads": POSITIVE, "chunk_size": POSITIVE},
    exactness=Exactness("ulp", 4096, "of magnitudes: errors go from step to step"),
    numerics=("Steps are in float32, in order; chunk_size changes nothing.",),
)  # fmt: skip


def _causal(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 3) & site.want_rank(1, 3)):
        return [None]
    (batch, channels, _), w = site.shape(0), site.shape(1)
    site.match(1, channels, Dim.of(1), w[2])
    site.match(2, channels)
    site.match(3, batch, channels, w[2] - 1)
    return [site.shape(0), (batch, channels, w[2] - 1)]


define(
    "CausalConvWithState", _causal, expand=True, kernels=FUNCTION,
    shapes="input's; the state [B, C, window − 1].",
    formula="output[b, c, t] = activation(bias[c] + Σ_j weight[c, 0, j] · x[b, c, t + j]), x the past state "
    "and input",
    ranges={"activation": one_of("none", "silu", "swish")},
    exactness=Exactness("ulp", "K * 128 + 8", "as Conv's, then x · sigmoid x"),
)  # fmt: skip
define(
    "SwiGLU", stretched, expand=True, formula="Y = A / (1 + e^(−alpha · A)) · B",
    shapes="Both are broadcast.", exactness=Exactness("ulp", 8,
    "each step of the standard's function is rounded"),
    kernels=(("elementwise.chain", "always"),),
)  # fmt: skip


# Losses


def _loss(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 2, -1) or not site.want_rank(1, site.rank(0) - 1):
        return [None]
    x = site.shape(0)
    wanted = (x[0], *x[2:])
    site.match(1, *wanted)
    site.match(2, x[1])
    found, classes = site.peek(1), x[1].constant
    if found is not None and classes is not None:
        numbers = found.astype(np.int64)
        bad = numbers[((numbers < 0) | (numbers >= classes)) & (numbers != site["ignore_index"])]
        site.require(
            not bad.size, "class out of range", want=f"0 to {classes - 1}", got=bad[:4].tolist(), input=1
        )
    loss = wanted if site["reduction"] == "none" else ()
    return [loss, x]


for _op, _scores, _targets in (
    ("NegativeLogLikelihoodLoss", "−input", "target"),
    ("SoftmaxCrossEntropyLoss", "−log softmax(scores)", "labels"),
):  # fmt: skip
    define(
        _op, _loss, expand=True, ranges={"reduction": one_of("mean", "sum", "none")},
        formula=f"loss[n, d] = {_scores}[n, c, d] · weight[c] with c = {_targets}[n, d], 0 where c is "
        f"ignore_index; then "
        "their sum, or the sum over that of the weights (mean)", shapes="[], or with reduction none [N, d…].",
        exactness=Exactness("ulp", "N / 16 + 32", "of the magnitudes' sum: as LogSoftmax's, then sums in "
        "lanes"),
        kernels=(("reduce.<type>, index.gather and elementwise.chain", "always"),),
        not_differentiable={_targets: "classes are integers"},
    )  # fmt: skip
