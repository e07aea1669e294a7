from __future__ import annotations

from fractions import Fraction

import numpy as np

from assay.kernels.call import call

RNG = np.random.default_rng(7)


def test_fractions_become_integers_and_sum_exactly() -> None:
    x = (2.0 ** RNG.uniform(-60, 0, 4096)).astype(np.float32)
    x[:8] = [
        0,
        1,
        2**-40,
        2**-41,
        1.5 * 2**-40,
        2.5 * 2**-40,
        2**-42,
        np.nextafter(np.float32(1), np.float32(0)),
    ]
    each, total = np.empty(4096, np.int64), np.zeros(1, np.int64)
    call("simd.fixed_kernels:sums", x, x.size, each, total)
    # `round` of a Fraction is to nearest, ties to even.
    assert each.tolist() == [round(Fraction(value) * 2**40) for value in x.tolist()]
    assert total[0] == sum(each.tolist())


def test_lanes_of_a_mask() -> None:
    for _ in range(50):
        x = RNG.normal(0, 1, 16).astype(np.float32)
        x[RNG.integers(16)] = 1
        mask, ends = np.zeros(1, np.int64), np.zeros(2, np.int64)
        call("simd.fixed_kernels:positives", x, mask, ends)
        assert mask[0] == sum(1 << lane for lane in range(16) if x[lane] > 0)
        assert ends.tolist() == np.flatnonzero(x > 0)[[0, -1]].tolist()
