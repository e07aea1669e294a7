"""Perplexity and divergence, against their definitions in mpmath and in plain loops."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import assay
from assay.audit.evaluation import Evaluation, Logits, evaluate, kullback_leibler, log_softmax, windows
from assay.errors import PrecisionOverflow
from llm import tiny


class Fixed:
    """Logits that are given, whatever the tokens."""

    def __init__(self, logits: np.ndarray) -> None:
        self.given = logits

    def __call__(self, tokens: list[int]) -> np.ndarray:
        return self.given[: len(tokens)]


def run(models: list[Logits], cut: list[list[int]]) -> Evaluation:
    return evaluate(models, cut, lambda done, total: None)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 3e4])
def test_logarithms_and_divergence_are_mpmaths(scale: float) -> None:
    random = np.random.default_rng(int(scale))
    p, q = (random.normal(0, scale, (3, 50)).astype(np.float32) for _ in range(2))
    logs = [log_softmax(each) for each in (p, q)]
    with mpmath.workdps(50):
        exact = []
        for rows in (p, q):
            numbers = [[mpmath.mpf(float(x)) for x in row] for row in rows]
            sums = [mpmath.log(mpmath.fsum(mpmath.e**x for x in row)) for row in numbers]
            exact.append([[x - total for x in row] for row, total in zip(numbers, sums, strict=True)])
        for ours, wanted in zip(logs, exact, strict=True):
            # The logarithm of a sum of 50 and a difference: some roundings of the largest number.
            assert np.abs(ours - np.array(wanted, float)).max() <= 1e-15 * max(1, 10 * np.abs(ours).max())
        for row in range(3):
            terms = [mpmath.e**a * (a - b) for a, b in zip(exact[0][row], exact[1][row], strict=True)]
            error = abs(kullback_leibler(*logs)[row] - float(mpmath.fsum(terms)))
            assert error <= 1e-12 * max(1, scale)


def test_divergence_of_known_distributions() -> None:
    """KL((½, ½) ‖ (¼, ¾)) = ½ ln 2 + ½ ln (2/3); a constant added to all logits changes nothing."""
    p, q = np.array([[3.0, 3.0]], np.float32), np.log(np.array([[0.25, 0.75]])).astype(np.float32)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    # float32 logits: a rounding of 2⁻²⁴ relative in each.
    assert abs(kullback_leibler(log_softmax(p), log_softmax(q))[0] - expected) < 1e-6
    assert kullback_leibler(log_softmax(p), log_softmax(p + 7))[0] == 0
    assert math.isnan(kullback_leibler(log_softmax(p), log_softmax(p * np.nan))[0])


def test_windows_lie_side_by_side() -> None:
    assert windows(range(10), 4, None) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert windows(range(8), 4, 99) == [[99, 1, 2, 3], [99, 5, 6, 7]]
    assert windows(range(3), 4, None) == []


def test_the_second_half_of_each_window_is_scored() -> None:
    """Equal logits: each token costs ln V. Window of 8: tokens 5, 6 and 7, after the logits at 4, 5 and 6."""
    found = run([Fixed(np.zeros((8, 20), np.float32))], windows(range(16), 8, None))
    assert found.position.tolist() == [5, 6, 7, 13, 14, 15]
    assert found.perplexity == pytest.approx([20], rel=1e-14)


def test_a_comparison_is_the_formula_token_by_token() -> None:
    random = np.random.default_rng(3)
    # More rows than are in memory at once.
    mine, other = (random.normal(0, 2, (100, 30)).astype(np.float32) for _ in range(2))
    tokens = random.integers(0, 30, 100).tolist()
    found = run([Fixed(mine), Fixed(other)], [tokens])
    p, q = (np.exp(each.astype(float)) for each in (other, mine))
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    at = np.arange(50, 99)
    wanted = [math.exp(-sum(math.log(each[i, tokens[i + 1]]) for i in at) / 49) for each in (q, p)]
    assert found.perplexity == pytest.approx(wanted, rel=1e-13)
    divergence = [sum(p[i] * np.log(p[i] / q[i])) for i in at]
    assert found.divergence == pytest.approx(divergence, rel=1e-11)
    assert found.agreement == np.mean(mine[at].argmax(1) == other[at].argmax(1))


def test_perplexity_is_the_same_alone_and_beside_others() -> None:
    """To the last bit: a mean whose order of summing depends on the shape has other last digits."""
    random = np.random.default_rng(4)
    for _ in range(20):
        models = [Fixed(random.normal(0, 2, (600, 30)).astype(np.float32)) for _ in range(2)]
        cut = windows(random.integers(0, 30, 1200).tolist(), 600, None)
        alone = [run([model], cut).perplexity[0] for model in models]
        assert run(models, cut).perplexity == alone


def test_logits_that_are_no_numbers_are_no_figures() -> None:
    bad = np.zeros((8, 4), np.float32)
    bad[5, 2] = np.nan
    with pytest.raises(PrecisionOverflow):
        run([Fixed(bad)], [[0] * 8])


def test_a_model_itself(tmp_path) -> None:
    """Each window is what `logits` gives for it alone; a model is as far from itself as 0."""
    with assay.load(tiny.write(tmp_path / "tiny.gguf"), threads=1) as lm:
        tokens = np.random.default_rng(1).integers(3, 32, 48).tolist()
        cut = windows(tokens, 16, 1)
        found = run([lm.logits, lm.logits], cut)
        logs = np.concatenate([log_softmax(lm.logits(window))[8:15] for window in cut])
        followed = np.concatenate([window[9:16] for window in cut])
        assert found.surprise[0] == pytest.approx(-logs[np.arange(21), followed], rel=1e-15)
        assert not found.divergence.any() and found.agreement == 1
