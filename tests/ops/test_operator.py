"""Which value is at which port, where nodes have too few or too many names or empty ones; what helps to
declare operators.
"""

from __future__ import annotations

import numpy as np

from assay.graph.graph import Node
from assay.ops.operator import Array, Kernel, of_magnitudes
from assay.tensor.dtype import F16, F32
from toys import TOP, WRITE


def test_values_by_port() -> None:
    node = Node("toy_write", ("c", "x", "s"), ("c'1",))
    assert WRITE.named(node) == {"cache": "c", "x": "x", "slots": "s", "changed": "c'1"}
    assert list(WRITE.named(node)) == ["cache", "x", "slots", "changed"]
    assert TOP.named(Node("toy_top", ("x",), ("v", "i"))) == {"x": "x", "values": "v", "indices": "i"}


def test_ports_without_a_value_are_left_out() -> None:
    assert WRITE.named(Node("toy_write", ("c", "", "s"), ("",))) == {"cache": "c", "slots": "s"}
    assert WRITE.named(Node("toy_write", ("c",), ())) == {"cache": "c"}
    assert TOP.named(Node("toy_top", ("x", "more"), ("v",))) == {"x": "x", "values": "v"}


def test_magnitudes_are_of_the_inputs_that_are_named() -> None:
    """And the attributes come along."""

    def reference(a: Array, b: Array, factor: float) -> Array:
        return np.asarray((a - b) * factor)

    terms = of_magnitudes(reference, 1)
    assert terms(np.array([-3.0]), np.array([-2.0]), factor=10.0) == np.array([-50.0])


def test_a_kernel_for_each_dtype_or_choice() -> None:
    made = Kernel("gemm.{}", "x w", scratch=64, rows="T").each("w", (F32, F16))
    assert made == (
        Kernel("gemm.float32", "x w", ("w", F32), 64, "T"),
        Kernel("gemm.float16", "x w", ("w", F16), 64, "T"),
    )
    assert [kernel.when for kernel in Kernel("{}", "x").each("mode", ("up", "down"))] == [
        "mode is up", "mode is down"
    ]  # fmt: skip
