from __future__ import annotations

import math

from benchmarks.correctness import PREFIXES, Agreement


def test_a_nan_is_no_agreement() -> None:
    assert not Agreement(math.nan, math.nan, PREFIXES).good
    assert Agreement(0.002, 0.02, PREFIXES).good
    assert not Agreement(None, None, PREFIXES // 2).good
