"""The sampler against its definition: candidates sorted, integers summed one by one, in Python."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from assay.kernels.call import call
from assay.ops import registry
from assay.ops.sample import BORDER, PARAMETERS, choose, philox, uniform
from every_op.cases import cases

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
GUARD = 64
NAN_BITS = 0x7FC00000


def scratch_bytes(vocabulary: int) -> int:
    return -(-(16 * 256 + 8 * vocabulary + 2 * -(-vocabulary // 16) * 64) // 64) * 64


def sample(
    logits: Floats,
    temperature: ArrayLike = 1.0,
    top_k: ArrayLike = 0,
    top_p: ArrayLike = 1.0,
    seed: ArrayLike = 0,
    choice: ArrayLike = 0,
    position: ArrayLike = 0,
    threads: int = 1,
    **more: ArrayLike,
) -> tuple[Ints, Floats]:
    """Tokens and their log-probabilities; a parameter is a number, or one for each row."""
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "choice": choice}
    return run(logits, None, threads, position=position, **given, **more)[:2]


def run(
    logits: Floats, adjusted: Floats | None = None, threads: int = 1, **given: ArrayLike
) -> tuple[Ints, Floats, Ints, Floats]:
    """Run the kernel. What it may not write is guarded."""
    rows, vocabulary = logits.shape
    values = {"source": -1, "typical_p": 1.0, "top_p": 1.0, "temperature": 1.0, **given}
    parameters = [np.full(rows, values.get(name, 0), kind.numpy) for name, kind in PARAMETERS.items()]
    if adjusted is None:
        adjusted = np.zeros((0, vocabulary), np.float32)
    kinds = (np.int32, rows), (np.float32, rows), (np.int32, rows * 20), (np.float32, rows * 20)
    outputs = [np.full(count + 2 * GUARD, 77, kind) for kind, count in kinds]
    size = scratch_bytes(vocabulary)
    scratch = np.full(threads * size + 2 * GUARD, 0xA5, np.uint8)
    before = logits.copy(), adjusted.copy()
    for thread in range(threads):
        inside = [output[GUARD:-GUARD] for output in outputs]
        words = rows, vocabulary, scratch[GUARD:-GUARD], size
        call("sample.sample", logits, adjusted, *parameters, *inside, *words, tid=thread, nthreads=threads)
    for array, poison in (*((output, 77) for output in outputs), (scratch, 0xA5)):
        assert (array[:GUARD] == poison).all() and (array[-GUARD:] == poison).all()
    np.testing.assert_array_equal(logits, before[0])
    np.testing.assert_array_equal(adjusted, before[1])
    tokens, logprob, top_tokens, top_logprobs = (output[GUARD:-GUARD] for output in outputs)
    return tokens, logprob, top_tokens.reshape(rows, 20), top_logprobs.reshape(rows, 20)


def integers(logits: Floats, temperature: float) -> tuple[Floats, Floats]:
    """Each logit's z and float32 weight: our exp, which has tests of its own, and else IEEE float32."""
    greatest, inverse = logits.max(), np.float32(1) / np.float32(temperature)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        z = np.where(logits == greatest, np.float32(0), (logits - greatest) * inverse).astype(np.float32)
    padded = np.resize(z, -(-z.size // 16) * 16)
    weights = np.empty_like(padded)
    call("simd.mathf_kernels:exps", padded, weights, padded.size)
    return z, weights[: z.size]


def fixed(number: float) -> int:
    """A multiple of 2^-40, to nearest even."""
    return round(Fraction(float(number)) * 2**40)


def defined(
    logits: Floats,
    temperature: float,
    top_k: int,
    top_p: float,
    random: int,
    min_p: float = 0.0,
    typical_p: float = 1.0,
) -> int:
    """The token by definition; `random` has 64 bits."""
    z, floats = integers(logits, temperature)
    weights = [fixed(weight) for weight in floats]
    order = sorted(range(len(weights)), key=lambda i: (-logits[i], i))[: top_k or None]
    order = [i for i in order if floats[i] >= np.float32(min_p)]
    if typical_p < 1:
        order = typical(z, floats, weights, [i for i in order if floats[i] > 0], typical_p)
    sums = list(accumulate(weights[i] for i in order))
    if top_p < 1:
        wanted = Fraction(float(np.float32(top_p))) * sums[-1]
        sums = sums[: next(i for i, total in enumerate(sums) if total >= wanted and total > 0) + 1]
    return next(order[i] for i, total in enumerate(sums) if total > random * sums[-1] >> 64)


def typical(z: Floats, floats: Floats, weights: list[int], order: list[int], typical_p: float) -> list[int]:
    """Those of `order` that typical leaves, by definition."""
    below = sum(fixed(floats[i] * -z[i]) for i in order if np.isfinite(z[i]))
    mean = np.float32(float(below) / float(sum(weights[i] for i in order)))
    with np.errstate(over="ignore"):
        distance = {i: abs(z[i] + mean) for i in order}
    wanted = Fraction(float(np.float32(typical_p))) * sum(weights[i] for i in order)
    taken, bound = 0, np.float32(0)
    for i in sorted(order, key=lambda i: distance[i]):
        taken, bound = taken + weights[i], distance[i]
        if taken >= wanted and taken > 0:
            break
    return [i for i in order if distance[i] <= bound]


def bits_of(seed: int, choice: int, position: int) -> int:
    low, high, _, _ = philox((position, choice, 0, 0), (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
    return high << 32 | low


def rows_of_all_kinds(rng: np.random.Generator, vocabulary: int) -> Iterator[NDArray[np.float64]]:
    yield rng.normal(0, 3, vocabulary)
    yield rng.normal(9, 0.3, vocabulary)
    yield rng.normal(-50, 20, vocabulary)
    yield rng.integers(-3, 4, vocabulary) / 4
    yield np.zeros(vocabulary)
    yield np.where(rng.random(vocabulary) < 0.5, -0.0, 0.0)
    yield rng.normal(0, 1e-39, vocabulary)
    yield np.where(rng.random(vocabulary) < 0.7, -np.inf, rng.normal(0, 2, vocabulary))
    yield np.full(vocabulary, -np.inf)
    yield np.where(rng.random(vocabulary) < 0.2, np.inf, rng.normal(0, 2, vocabulary))
    yield rng.normal(0, 1e37, vocabulary)
    # Neighbouring floats: many bits of the logits agree.
    yield 3 + rng.integers(0, 5, vocabulary) * float(np.spacing(np.float32(3)))


@pytest.mark.parametrize("vocabulary", [1, 2, 15, 16, 17, 100, 4099])
def test_every_draw_is_the_defined_one(vocabulary: int) -> None:
    rng = np.random.default_rng(vocabulary)
    logits = np.stack(list(rows_of_all_kinds(rng, vocabulary))).astype(np.float32)
    rows = len(logits)
    for _ in range(4 if vocabulary > 1000 else 25):
        temperature = (2.0 ** rng.uniform(-8, 4, rows)).astype(np.float32)
        temperature[rng.random(rows) < 0.3] = 1
        top_k = np.where(rng.random(rows) < 0.5, 0, rng.integers(1, 2 * vocabulary + 2, rows))
        top_p = np.where(rng.random(rows) < 0.5, 1, rng.random(rows)).astype(np.float32)
        min_p = np.where(rng.random(rows) < 0.5, 0, 2.0 ** rng.uniform(-20, 0, rows)).astype(np.float32)
        typical_p = np.where(rng.random(rows) < 0.5, 1, rng.random(rows)).astype(np.float32)
        seed, choice = rng.integers(-(2**63), 2**63, rows), rng.integers(0, 9, rows)
        position = rng.integers(0, 2**31, rows)
        more = {"min_p": min_p, "typical_p": typical_p}
        tokens, _ = sample(logits, temperature, top_k, top_p, seed, choice, position, **more)
        for row in range(rows):
            random = bits_of(int(seed[row]), int(choice[row]), int(position[row]))
            given = temperature[row], int(top_k[row]), top_p[row], random, min_p[row], typical_p[row]
            assert tokens[row] == defined(logits[row], *given), (row, given)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40),
    st.floats(2.0**-120, 2.0**100, width=32),
    st.integers(0, 50),
    st.floats(2.0**-29, 2, width=32),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(0, 1, width=32),
    st.floats(2.0**-29, 2, width=32),
)
def test_any_floats(
    values: list[float], temperature: float, top_k: int, top_p: float, seed: int, min_p: float, near: float
) -> None:
    logits = np.array([values], np.float32)
    expected = defined(logits[0], temperature, top_k, top_p, bits_of(seed, 1, 2), min_p, near)
    found = sample(logits, temperature, top_k, top_p, seed, 1, 2, min_p=min_p, typical_p=near)
    assert found[0][0] == expected


def test_large_vocabulary() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 3, (2, 49152)).astype(np.float32)
    for temperature, top_k, top_p in ((1.0, 0, 1.0), (1.0, 0, 0.9), (5.0, 30000, 0.99)):
        tokens, _ = sample(logits, temperature, top_k, top_p, 3, 0, np.arange(2))
        for row, token in enumerate(tokens):
            assert token == defined(logits[row], temperature, top_k, top_p, bits_of(3, 0, row))


def test_the_reference_agrees_but_at_borders() -> None:
    """The float64 reference draws the same token unless the draw is within BORDER of a border."""
    rng = np.random.default_rng(6)
    logits = rng.normal(0, 3, (300, 1000)).astype(np.float32)
    temperature, top_p = float(np.float32(0.8)), float(np.float32(0.97))
    tokens, logprob = sample(logits, temperature, 200, top_p, 5, 0, np.arange(300))
    apart = 0
    for row in range(300):
        token, margin = choose(logits[row], temperature, 200, 0.0, 1.0, top_p, draw=uniform(5, 0, row))
        assert token == tokens[row] or margin < BORDER
        apart += margin > BORDER
    assert apart > 280
    exact = logits.astype(float)
    expected = exact[np.arange(300), tokens] - np.log(np.exp(exact).sum(1))
    # Below 32 in size, so rounding is 2^-20 at most; the error of the sum is below 2^-20 too.
    np.testing.assert_allclose(logprob, expected, rtol=0, atol=2.0**-19)


def test_the_operators_cases() -> None:
    operator = registry.get("sample")
    for case in cases(operator, 0):
        expected = operator.reference(*case.inputs, **case.attributes)
        logits, adjusted, *values = case.inputs
        found = run(logits, adjusted, **dict(zip(PARAMETERS, values, strict=True)))
        for here, there in zip(found[::2], expected[::2], strict=True):
            np.testing.assert_array_equal(here, there, case.name)
        for here, there in zip(found[1::2], expected[1::2], strict=True):
            np.testing.assert_allclose(here, there, rtol=0, atol=2.0**-19, err_msg=case.name)


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    logits = np.zeros((3, 50), np.float32)
    logits[0, [30, 31]] = 2
    logits[1, ::2] = -0.0
    logits[2] = -np.inf
    tokens, logprob = sample(logits, 0.0)
    assert tokens.tolist() == [30, 0, 0]
    np.testing.assert_allclose(logprob[1:], -np.log(50), rtol=1e-6)


def test_nan_and_parameters_out_of_range_are_marked() -> None:
    logits = np.random.default_rng(1).normal(0, 1, (9, 33)).astype(np.float32)
    logits[0, 32] = np.nan
    temperature = [0, -1, np.nan, np.inf, 1, 1, 1, 1, 0]
    top_k, top_p = [0, 0, 0, 0, -1, 0, 0, 0, 0], [1, 1, 1, 1, 1, -0.5, np.nan, 1, 1]
    tokens, logprob = sample(logits, temperature, top_k, top_p)
    assert (tokens[:7] == -1).all() and (tokens[7:] >= 0).all()
    assert (logprob[:7].view(np.uint32) == NAN_BITS).all() and np.isfinite(logprob[7:]).all()


def test_infinities() -> None:
    logits = np.random.default_rng(2).normal(0, 1, (200, 20)).astype(np.float32)
    logits[:100, [3, 8]] = np.inf
    logits[100:, 1:] = -np.inf
    tokens, logprob = sample(logits, 1.3, position=np.arange(200))
    assert set(tokens[:100]) == {3, 8} and set(tokens[100:]) == {0}
    np.testing.assert_allclose(logprob[:100], -np.log(2), rtol=1e-6)
    assert (logprob[100:] == 0).all()


def test_truncation_is_exact_at_ties_and_borders() -> None:
    logits = np.array([[1, 3, 3, 3, 0, 3]], np.float32).repeat(500, 0)
    position = np.arange(500)
    assert set(sample(logits, 1.0, 2, position=position)[0]) == {1, 2}
    assert set(sample(logits, 1.0, 10**6, position=position)[0]) == {0, 1, 2, 3, 4, 5}
    # Four equal candidates of top_k: half of their weight is exactly two of them, a little more is three.
    assert set(sample(logits, 1.0, 4, 0.5, position=position)[0]) == {1, 2}
    more = np.nextafter(np.float32(0.5), np.float32(1))
    assert set(sample(logits, 1.0, 4, more, position=position)[0]) == {1, 2, 3}
    for top_p in (0.0, 1e-45, 1e-9, 0.01):
        assert set(sample(logits, 1.0, 0, top_p, position=position)[0]) == {1}
    for top_p in (1.0, 1.5, np.inf):
        assert set(sample(logits, 1.0, 0, top_p, position=position)[0]) == {0, 1, 2, 3, 4, 5}


def test_rows_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    rows = 13
    logits = rng.normal(0, 3, (rows, 777)).astype(np.float32)
    temperature = rng.choice([0, 0.5, 1, 2], rows)
    top_k, top_p = rng.choice([0, 1, 30, 5000], rows), rng.choice([0.1, 0.9, 1], rows)
    seed, choice, position = (
        rng.integers(0, 2**63, rows),
        rng.integers(0, 4, rows),
        rng.integers(0, 4096, rows),
    )
    parameters = temperature, top_k, top_p, seed, choice, position
    tokens, logprob = sample(logits, *parameters)
    for threads in (2, 3, 4, 20):
        again = sample(logits, *parameters, threads=threads)
        np.testing.assert_array_equal(again[0], tokens)
        np.testing.assert_array_equal(again[1].view(np.uint32), logprob.view(np.uint32))
    for row in range(rows):
        token, alone = sample(logits[row : row + 1].copy(), *(array[row] for array in parameters))
        assert (token[0], alone[0]) == (tokens[row], logprob[row])


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.8)])
def test_the_draws_have_the_right_distribution(top_k: int, top_p: float) -> None:
    """Chi-square over 20,000 positions of one seed, against the quantile that chance passes 1 in 1,000."""
    count, temperature = 20_000, 1.5
    logits = np.array([2.0, 0.5, -1, 1.5, 0, 0.25, -2, 1], np.float32)
    probabilities = np.exp(logits.astype(float) / temperature)
    probabilities /= probabilities.sum()
    kept = np.argsort(-logits)[: top_k or 8]
    if top_p < 1:
        kept = kept[: np.searchsorted(np.cumsum(probabilities[kept]), top_p) + 1]
    tokens, _ = sample(np.tile(logits, (count, 1)), temperature, top_k, top_p, 42, 0, np.arange(count))
    found = np.bincount(tokens, minlength=8)
    assert found.sum() == found[kept].sum()
    expected = probabilities[kept] / probabilities[kept].sum() * count
    chi_square = ((found[kept] - expected) ** 2 / expected).sum()
    quantiles = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32}
    assert chi_square < quantiles[len(kept) - 1]


def test_seed_choice_and_position_all_count() -> None:
    logits = np.zeros((1, 30_000), np.float32)
    drawn = [
        sample(logits, seed=seed, choice=choice, position=position)[0][0]
        for seed in (0, 1, 2**32, -1)
        for choice in (0, 1)
        for position in (0, 1)
    ]
    assert len(set(drawn)) == 16
