"""The choice of each row's next token: greedy, or one seeded draw after temperature, top-k and top-p."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.graph.graph import ValueType
from assay.ops.operator import (
    Address,
    Argument,
    Array,
    Attributes,
    Case,
    Exactness,
    Kernel,
    Operator,
    Port,
    Relation,
    Scratch,
    Site,
)
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32, I64

BORDER = 1e-5
"""How near to a border, as a share of the candidates' weight, kernel and reference may differ: there each may
take either neighbour. A kernel's weight is off by (3|z| + 2) · 2⁻²⁴ of it (z = (logit − max) / temperature,
in three roundings, and exp has 1 ulp), on average over the weights by (3 ln V + 2) · 2⁻²⁴, and by 2⁻⁴¹
for its integer; a border is a quotient of two sums of them. For V ≤ 2²⁰ that is below 7e-6.
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


def choose(logits: Array, temperature: float, top_k: int, top_p: float, draw: float) -> tuple[int, float]:
    """One row's token, and the distance to the nearest border that decided it, as a share of the weight."""
    order = np.argsort(np.negative(logits), kind="stable")
    if temperature == 0:
        return int(order[0]), np.inf
    ordered = logits[order].astype(np.float64)
    weights = np.exp(_below_greatest(ordered) / temperature)
    sums = np.cumsum(weights[: top_k or None])
    margin = np.inf
    if top_p < 1:
        margin = np.abs(sums[:-1] / sums[-1] - top_p).min(initial=np.inf)
        sums = sums[: np.searchsorted(sums, top_p * sums[-1]) + 1]
    margin = min(margin, np.abs(sums[:-1] / sums[-1] - draw).min(initial=np.inf))
    return int(order[np.searchsorted(sums, draw * sums[-1], side="right")]), margin


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    tokens = np.full(len(inputs[0]), -1, np.int32)
    logprob = np.full(len(inputs[0]), np.nan)
    for row, (logits, temperature, top_k, top_p, seed, choice, position) in enumerate(
        zip(*inputs, strict=True)
    ):
        if np.isnan(logits).any() or not (0 <= temperature < np.inf and top_k >= 0 and top_p >= 0):
            continue
        draw = uniform(int(seed), int(choice), int(position))
        token, _ = choose(logits, float(temperature), int(top_k), float(top_p), draw)
        distance = _below_greatest(logits.astype(np.float64))
        tokens[row], logprob[row] = token, distance[token] - np.log(np.exp(distance).sum())
    return tokens, logprob


def _magnitudes(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    tokens, logprob = _reference(inputs, attributes)
    return tokens, 1 + np.abs(logprob)


_INPUTS = ("logits", "temperature", "top_k", "top_p", "seed", "choice", "position")


def _bytes(vocabulary: int) -> int:
    """Scratch of one thread: the table of a digit, the candidates of a band, and weights in whole vectors."""
    return 16 * 256 + 8 * vocabulary + -(-vocabulary // 16) * 64


def _scratch(site: Site) -> int:
    return -(-_bytes(site.most("V")) // 64) * 64


def _arguments(site: Site) -> Sequence[Argument]:
    ports = tuple(map(Address, (*_INPUTS, "tokens", "logprob")))
    return *ports, site.dims["R"], site.dims["V"], Scratch(), _scratch(site)


def _case(
    rng: np.random.Generator, name: str, logits: Array, temperature: float, top_k: int, top_p: float
) -> Case:
    """Rows with these parameters and random draws that are farther than BORDER from every border."""
    rows, vocabulary = logits.shape
    seeds = rng.integers(-(2**63), 2**63, rows)
    choices = rng.integers(0, 8, rows, dtype=np.int32)
    positions = rng.integers(0, 2**20, rows, dtype=np.int32)
    for row in np.flatnonzero(~np.isnan(logits).any(axis=1)):
        while True:
            draw = uniform(int(seeds[row]), int(choices[row]), int(positions[row]))
            if choose(logits[row], temperature, top_k, top_p, draw)[1] > BORDER:
                break
            seeds[row] += 1
    inputs = (
        logits, np.full(rows, temperature, np.float32), np.full(rows, top_k, np.int32),
        np.full(rows, top_p, np.float32), seeds, choices, positions,
    )  # fmt: skip
    types = (
        ValueType.of(F32, rows, vocabulary),
        *(ValueType.of(t, rows) for t in (F32, I32, F32, I64, I32, I32)),
    )
    return Case(inputs, types, name=f"{name}, {rows}×{vocabulary}")


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for rows, vocabulary in ((1, 1), (3, 16), (5, 100), (4, 1003)):
        logits = rng.normal(0, 4, (rows, vocabulary)).astype(np.float32)
        for name, temperature, top_k, top_p in (
            ("greedy", 0.0, 0, 1.0),
            ("temperature", 1.0, 0, 1.0),
            ("hot", 1.5, 0, 1.0),
            ("top-k", 0.7, 5, 1.0),
            ("top-p", 1.0, 0, 0.9),
            ("all", 0.8, 40, 0.95),
            ("top-k over V", 1.0, 10**6, 1.0),
        ):
            cases.append(_case(rng, name, logits, temperature, top_k, top_p))
    edges = rng.normal(0, 1, (4, 40)).astype(np.float32)
    edges[0, 7], edges[1, [3, 20]], edges[2, ::2], edges[3] = np.nan, np.inf, -np.inf, -np.inf
    ties = rng.integers(-2, 3, (4, 40)).astype(np.float32)
    for temperature in (0.0, 1.0):
        cases.append(_case(rng, f"NaN and infinities at {temperature}", edges, temperature, 0, 1.0))
        cases.append(_case(rng, f"ties at {temperature}", ties, temperature, 17, 1.0))
    return cases


register(
    Operator(
        name="sample",
        since=1,
        summary="Chooses each row's next token, and gives its log-probability.",
        formula=(
            "candidates by (logit descending, id ascending), weight = exp((logit − max) / temperature); the "
            "first top_k of them; of those the fewest with at least top_p of their weight; of those the "
            "first whose cumulative weight exceeds u times their weight. "
            "logprob = ln softmax(logits)[token]"
        ),
        inputs=(
            Port("logits", (F32,), "R V", "a NaN among them gives token −1"),
            Port(
                "temperature",
                (F32,),
                "R",
                "finite and ≥ 0; 0 takes the greatest logit, of equals the lowest id",
            ),
            Port("top_k", (I32,), "R", "≥ 0; 0 is off"),
            Port("top_p", (F32,), "R", "≥ 0; 1 or more is off"),
            Port("seed", (I64,), "R", "the request's seed"),
            Port("choice", (I32,), "R", "which of the request's answers this is"),
            Port("position", (I32,), "R", "the chosen token's absolute position"),
        ),
        outputs=(
            Port(
                "tokens",
                (I32,),
                "R",
                "chosen ids; −1 where a logit is NaN or a parameter out of its range",
            ),
            Port(
                "logprob", (F32,), "R", "of the chosen token at temperature 1, nothing cut off; NaN beside −1"
            ),
        ),
        relations=(
            Relation(
                "1 ≤ V ≤ 2²²",
                lambda dims, attributes: 1 <= (dims["V"].constant or 1) <= 2**22,
                "sums of weights would leave 62 bits",
            ),
        ),
        reference=_reference,
        exactness=Exactness(
            "seeded",
            9,
            "tokens are equal unless a draw is within BORDER of a border (the cases' draws are not); the sum "
            "in logprob is within (ln V + 2) · 2⁻²⁴, and it is rounded once",
            _magnitudes,
        ),
        kernels=(Kernel("sample.sample", _arguments, scratch=_scratch, rows="R"),),
        cases=_cases,
        numerics=(
            "A weight is float32 exp((logit − max) · (1 / temperature)), each operation rounded, and 1 for "
            "the greatest logit even if infinite; then a multiple of 2⁻⁴⁰, nearest even. A −∞ is never "
            "chosen unless all are.",
            "Weights are integers and their sums exact: the cumulative sums are those in candidate order, "
            "and the total is one number, whatever the order of adding.",
            "u = (2³² word1 + word0) / 2⁶⁴ of Philox4x32-10, key (seed low, seed high), counter (position, "
            "choice, 0, 0). top_p · total is rounded up, u · total down, to integers.",
            "top_p takes candidates up to the first whose cumulative weight is at least top_p · total.",
        ),
        not_differentiable=dict.fromkeys(_INPUTS, "the output is an id"),
    )
)
