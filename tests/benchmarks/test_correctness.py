from __future__ import annotations

import math

import numpy as np
from benchmarks.correctness import PREFIXES, Agreement, kullback_leibler


def test_divergence_of_known_distributions() -> None:
    """KL((½, ½) ‖ (¼, ¾)) = ½ ln 2 + ½ ln (2/3); a constant added to all logits changes nothing."""
    p = np.array([[3.0, 3.0]], np.float32)
    q = np.log(np.array([[0.25, 0.75]])).astype(np.float32)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    # float32 logits: a rounding of 2⁻²⁴ relative in each.
    assert abs(kullback_leibler(p, q)[0] - expected) < 1e-6
    assert kullback_leibler(p, p + 7)[0] == 0


def test_a_nan_is_no_agreement() -> None:
    bad = kullback_leibler(np.zeros((1, 2), np.float32), np.array([[np.nan, 0]], np.float32))
    assert not Agreement(float(bad.mean()), float(bad.max()), PREFIXES).good
    assert Agreement(0.002, 0.02, PREFIXES).good
    assert not Agreement(None, None, PREFIXES // 2).good
