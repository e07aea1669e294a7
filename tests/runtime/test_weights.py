"""Weights on their way from a source to a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.graph.graph import Graph
from assay.ops.builder import Builder
from assay.runtime import weights
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import BF16, F16, F32, Q4_0, Q4_1, Q8_0, DType


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(1, capacity=1 << 26)
    yield made
    made.close()


class Bytes:
    """So many zeros for each weight."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    def raw(self, name: str) -> NDArray[np.uint8]:
        return np.zeros(self.sizes[name], np.uint8)


def normed_map(dtype: DType) -> Graph:
    """A norm, whose weight stays in rows, and a map, whose weight goes into panels."""
    b = Builder("g")
    x = b.input("x", F32, "T", 64)
    x = b.op("rms_norm", x, b.weight("n", F32, 64), epsilon=1e-5)
    b.output(b.op("linear", x, b.weight("w", dtype, 40, 64)))
    return b.graph()


@pytest.mark.parametrize("dtype", [F32, F16, BF16, Q4_0, Q4_1, Q8_0], ids=str)
def test_bytes_that_do_not_fill_a_weight_reach_no_kernel(
    device: Cpu, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel reads as many as the shape says, whatever there is."""
    graph = normed_map(dtype)
    right = {name: graph.types[name].nbytes({}) for name in graph.weights}
    assert weights.load(graph, Bytes(right), device).keys() == {"n", "w"}
    monkeypatch.setattr(device, "call_all", lambda *call: pytest.fail(f"a kernel ran: {call}"))
    for name, size in right.items():
        for wrong in (0, size - 1, size + 1, size // 2, 2 * size):
            with pytest.raises(FormatError) as caught:
                weights.load(graph, Bytes(right | {name: wrong}), device)
            assert caught.value.place == f"tensor {name}"
            assert caught.value.want == f"{size} bytes for {graph.types[name]}"
            assert caught.value.got == f"{wrong} bytes"
