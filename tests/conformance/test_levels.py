"""The same bits at every level of processors: some cases of the operators that do most of the arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from conformance.bits import some
from conformance.cases import Case
from every_op.levels import digests, runs

MODULES = (
    "averagepool", "conv", "convtranspose", "cumsum", "erf", "exp", "gemm", "gru", "layernormalization",
    "lrn", "lstm", "matmul", "pow", "reduce_log_sum_exp", "reducesumsquare", "resize", "scatternd", "softmax",
    "tanh", "topk",
)  # fmt: skip
"""Modules of cases; all others were tried by hand, which takes minutes of the compiler."""
LEVELS = ("avx2", "baseline")
CHILD = str(Path(__file__).with_name("levels_child.py"))


def written(case: Case, folder: Path) -> bool:
    """Write a case, where all its inputs are tensors."""
    inputs = case.data[0][0]
    tensors = all(info.type.HasField("tensor_type") for info in case.model.graph.input)
    if not tensors or not all(
        isinstance(each, np.ndarray | np.generic) and each.dtype.kind not in "OUS" for each in inputs
    ):
        return False
    data = folder / case.name / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model, data.parent / "model.onnx")
    for number, each in enumerate(inputs):
        raw = numpy_helper.from_array(np.asarray(each)).SerializeToString()
        (data / f"input_{number}.pb").write_bytes(raw)
    return True


def test_every_width_gives_the_same_bits(tmp_path: Path) -> None:
    levels = [level for level in LEVELS if runs(level)]
    if not levels:
        pytest.skip("levels are x86-64's; this is another machine")
    cases = [case for module in MODULES for case in some(module, 1)]
    assert sum(written(case, tmp_path) for case in cases) == len(MODULES)
    here = digests("host", "-W", "ignore", CHILD, str(tmp_path))
    for level in levels:
        found = digests(level, "-W", "ignore", CHILD, str(tmp_path))
        assert [name for name in here if found[name] != here[name]] == [], level
