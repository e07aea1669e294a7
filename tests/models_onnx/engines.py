"""Engines that run a graph: named arrays in, named arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from assay.runtime.model import Model

Run = Callable[[Mapping[str, NDArray[np.generic]]], dict[str, NDArray[np.generic]]]
ERRORS_ONLY = 3


def onnx_runtime(path: Path) -> Run:
    """ONNX Runtime, in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def assay(path: Path) -> Run:
    """This engine, in two threads."""
    return Model.load(path, 2).run


ENGINES: dict[str, Callable[[Path], Run]] = {"onnxruntime": onnx_runtime, "assay": assay}
"""What the tests run on."""
