"""The choice of each row's next token: greedy, or one seeded draw from what the filters leave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.kernels.sizes import MOST_TOP
from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32, I32, I64

BORDER = 1e-5
"""How near to a border, as a share of the candidates' weight, kernel and reference may differ: there each may
take either neighbour. A kernel's weight is off by (3|z| + 2) · 2⁻²⁴ of it (z = (logit − max) / temperature,
in three roundings, and exp has 1 ulp), on average over the weights by (3 ln V + 2) · 2⁻²⁴, and by 2⁻⁴¹
for its integer; a border is a quotient of two sums of them. For V ≤ 2²⁰ that is below 7e-6. Distances of
typical are off by 4 · 2⁻²⁴ of the two numbers whose difference they are, and compared with their sum.
"""
_MULTIPLIERS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
_WEYL = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}


def philox(counter: Sequence[int], key: Sequence[int], bits: int = 32) -> tuple[int, int, int, int]:
    """Philox4x32-10 (or 4x64-10) of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    word = (1 << bits) - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = c0 * _MULTIPLIERS[bits][0], c2 * _MULTIPLIERS[bits][1]
        c0, c1, c2, c3 = (right >> bits) ^ c1 ^ k0, right & word, (left >> bits) ^ c3 ^ k1, left & word
        k0, k1 = k0 + _WEYL[bits][0] & word, k1 + _WEYL[bits][1] & word
    return c0, c1, c2, c3


def uniform(seed: int, choice: int, position: int) -> float:
    """The draw of one (seed, choice index, absolute position), in [0, 1)."""
    word = 0xFFFFFFFF
    low, high, _, _ = philox((position & word, choice & word, 0, 0), (seed & word, seed >> 32 & word))
    return (high << 32 | low) * 2.0**-64


def _below_greatest(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each logit less the greatest; 0 for the greatest even if it is infinite."""
    difference = np.zeros_like(logits)
    np.subtract(logits, logits.max(), out=difference, where=logits != logits.max())
    return difference


def choose(
    logits: op.Array,
    temperature: float,
    top_k: int,
    min_p: float,
    typical_p: float,
    top_p: float,
    *,
    draw: float,
) -> tuple[int, float]:
    """One row's token, and the distance to the nearest border that decided it, as a share of the weight."""
    order = np.argsort(np.negative(logits), kind="stable")
    if temperature == 0:
        return int(order[0]), np.inf
    z = _below_greatest(logits[order].astype(np.float64)) / temperature
    weights = np.exp(z)
    margin = np.inf
    if min_p > 0:
        margin = np.abs(weights / min_p - 1).min()
        weights[weights < min_p] = 0
    if top_k:
        weights[top_k:] = 0
    if typical_p < 1:
        margin = min(margin, _keep_typical(z, weights, typical_p))
    sums = np.cumsum(weights)
    if top_p < 1:
        margin = min(margin, np.abs(sums[:-1] / sums[-1] - top_p).min(initial=np.inf))
        sums = sums[: np.searchsorted(sums, top_p * sums[-1]) + 1]
    margin = min(margin, np.abs(sums[:-1] / sums[-1] - draw).min(initial=np.inf))
    return int(order[np.searchsorted(sums, draw * sums[-1], side="right")]), margin


def _keep_typical(z: NDArray[np.float64], weights: NDArray[np.float64], typical_p: float) -> float:
    """Zero the weights of those that aren't typical; the distance to the nearest border."""
    kept = weights > 0
    mean = (weights[kept] * z[kept]).sum() / weights.sum()
    distance = np.where(kept, np.abs(z - mean), np.inf)
    nearest = np.argsort(distance, kind="stable")
    sums = np.cumsum(weights[nearest]) / weights.sum()
    last = nearest[np.searchsorted(sums, typical_p)]
    others = distance[z != z[last]]
    weights[distance > distance[last]] = 0
    gap = (np.abs(others - distance[last]) / (np.abs(mean) + np.abs(z[last]) + 1)).min(initial=np.inf)
    return float(min(gap, np.abs(sums[:-1] - typical_p).min(initial=np.inf)))


def _reference(*inputs: op.Array) -> tuple[op.Array, ...]:
    rows = len(inputs[0])
    tokens, logprob = np.full(rows, -1, np.int32), np.full(rows, np.nan)
    top_tokens, top_logprobs = np.full((rows, MOST_TOP), -1, np.int32), np.full((rows, MOST_TOP), np.nan)
    for row, (temperature, top_k, min_p, typical_p, top_p, *_, top_n) in enumerate(
        zip(*inputs[3:], strict=True)
    ):
        fit = 0 <= temperature < np.inf and top_k >= 0 and 0 <= min_p <= 1 and 0 <= top_n <= MOST_TOP
        fit = fit and typical_p >= 0 and top_p >= 0 and not np.isnan(inputs[0][row]).any()
        token = drawn(inputs, row)[0] if fit else -1
        if token < 0:
            continue
        tokens[row] = token
        distance = _below_greatest(inputs[0][row].astype(np.float64))
        logprobs = distance - np.log(np.exp(distance).sum())
        logprob[row] = logprobs[token]
        first = np.argsort(np.negative(inputs[0][row]), kind="stable")[:top_n]
        top_tokens[row, : len(first)], top_logprobs[row, : len(first)] = first, logprobs[first]
    return tokens, logprob, top_tokens, top_logprobs


def drawn(inputs: Sequence[op.Array], row: int) -> tuple[int, float]:
    """The row's token, and how near its draw is to a border; see `choose`."""
    source, *settings, seed, choice, position, _ = (values[row].item() for values in inputs[2:])
    logits: op.Array = inputs[0][row] if source < 0 else inputs[1][source]
    if np.isnan(logits).any():
        return -1, np.inf
    return choose(logits, *settings, draw=uniform(seed, choice, position))


def _magnitudes(*inputs: op.Array) -> tuple[op.Array, ...]:
    tokens, logprob, top_tokens, top_logprobs = _reference(*inputs)
    return tokens, 1 + np.abs(logprob), top_tokens, 1 + np.abs(top_logprobs)


PARAMETERS = {
    "source": I32, "temperature": F32, "top_k": I32, "min_p": F32, "typical_p": F32, "top_p": F32,
    "seed": I64, "choice": I32, "position": I32, "top_n": I32,
}  # fmt: skip
"""One for each row, after `logits` and `adjusted`."""


def _bytes(vocabulary: int) -> int:
    """Scratch of one thread: the table of a digit, the candidates of a band, weights and distances in whole
    vectors.
    """
    return 16 * 256 + 8 * vocabulary + 2 * -(-vocabulary // 16) * 64


def _scratch(site: op.Site) -> int:
    return -(-_bytes(site.most("V")) // 64) * 64


def _arguments(site: op.Site) -> Sequence[op.Argument]:
    names = ("logits", "adjusted", *PARAMETERS, "tokens", "logprob", "top_tokens", "top_logprobs")
    return *map(op.Address, names), site.dims["R"], site.dims["V"], op.Scratch(), _scratch(site)


define(
    name="sample",
    summary="Chooses each row's next token, and gives its log-probability.",
    formula=(
        "candidates by (logit descending, id ascending), z = (logit − max) / temperature, weight = "
        "exp(z); the first top_k; of those whose weight is at least min_p; of those the nearest to their "
        "mean z, where their entropy is, with at least typical_p of their weight; of those the fewest "
        "with at least top_p of their weight; of those the first whose cumulative weight exceeds u times "
        "their weight. logprob = ln softmax(logits)[token]"
    ),
    inputs=(
        op.Port("logits", (F32,), "R V", "a NaN among them gives token −1"),
        op.Port("adjusted", (F32,), "A V", "what rows with a source choose from instead"),
        op.Port("source", (I32,), "R", "the row's number in adjusted, below A; −1: its own logits"),
        op.Port("temperature", (F32,), "R", "finite and ≥ 0; 0 takes the greatest logit, lowest id first"),
        op.Port("top_k", (I32,), "R", "≥ 0; 0 is off"),
        op.Port("min_p", (F32,), "R", "0 to 1, of the greatest weight; 0 is off"),
        op.Port("typical_p", (F32,), "R", "≥ 0; 1 or more is off"),
        op.Port("top_p", (F32,), "R", "≥ 0; 1 or more is off"),
        op.Port("seed", (I64,), "R", "the request's seed"),
        op.Port("choice", (I32,), "R", "which of the request's answers this is"),
        op.Port("position", (I32,), "R", "the chosen token's absolute position"),
        op.Port("top_n", (I32,), "R", f"how many alternatives are wanted, 0 to {MOST_TOP}"),
    ),
    outputs=(
        op.Port("tokens", (I32,), "R", "chosen ids; −1 for a NaN or a parameter out of its range"),
        op.Port("logprob", (F32,), "R", "the token's, at temperature 1, nothing cut off; NaN beside −1"),
        op.Port("top_tokens", (I32,), f"R {MOST_TOP}", "the first top_n candidates of logits, then −1"),
        op.Port("top_logprobs", (F32,), f"R {MOST_TOP}", "their log-probabilities, then NaN"),
    ),
    relations=(
        op.Relation(
            "1 ≤ V ≤ 2²²",
            lambda site: 1 <= (site.dims["V"].constant or 1) <= 2**22,
            "sums of weights would leave 62 bits",
        ),
    ),
    reference=_reference,
    exactness=op.Exactness(
        "seeded",
        9,
        "tokens are equal unless a draw is within BORDER of a border (the cases' draws are not); the sum "
        "in logprob is within (ln V + 2) · 2⁻²⁴, and it is rounded once",
        _magnitudes,
    ),
    kernels=(op.Kernel("sample.sample", _arguments, scratch=_scratch, rows="R"),),
    numerics=(
        "A weight is float32 exp((logit − max) · (1 / temperature)), each operation rounded, and 1 for "
        "the greatest logit even if infinite; then a multiple of 2⁻⁴⁰, nearest even. A −∞ is never "
        "chosen unless all are.",
        "Weights are integers and their sums exact: the cumulative sums are those in candidate order, "
        "and the total is one number, whatever the order of adding.",
        "u = (2³² word1 + word0) / 2⁶⁴ of Philox4x32-10, key (seed low, seed high), counter (position, "
        "choice, 0, 0). top_p · total is rounded up, u · total down, to integers.",
        "top_p takes candidates up to the first whose cumulative weight is at least top_p · total.",
        "typical: the mean is float32 −S / total, S the sum of float32 weight · −z in multiples of 2⁻⁴⁰; "
        "a distance is float32 |z − mean|, and whoever is as near as the last one taken is taken too.",
        "The order, and how others do it: vLLM cuts by min-p before top-k and top-p, with the same "
        "result but for top-k's share; Hugging Face has temperature, top-k, top-p, min-p, typical; "
        "llama.cpp has top-k, typical, top-p, min-p, temperature. Here what refers to the greatest "
        "weight comes first, while it is there, and top-p's share last.",
    ),
    not_differentiable=dict.fromkeys(("logits", "adjusted", *PARAMETERS), "the output is an id"),
)
