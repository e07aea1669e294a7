from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.call import call
from assay.ops import registry
from every_op.cases import cases


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_gather_rows_moves_every_bit(threads: int) -> None:
    operator = registry.get("gather_rows")
    for case in cases(operator, threads):
        x, rows = case.inputs
        x[0, 0] = np.array(0x7F812345, np.uint32).view(np.float32)  # a NaN with a payload
        expected = operator.reference(*case.inputs, **case.attributes)
        y = np.full((len(rows) + 2, x.shape[1]), 77, np.float32)
        sizes = x.shape[0], len(rows), x.shape[1]
        for thread in range(threads):
            call("move.gather_rows", x, rows, y[1:-1], *sizes, tid=thread, nthreads=threads)
        assert (y[[0, -1]] == 77).all()
        np.testing.assert_array_equal(y[1:-1].view(np.uint32), expected.view(np.uint32), case.name)
