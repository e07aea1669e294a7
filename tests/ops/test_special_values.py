"""What functions of one element make of infinities, NaN, zeros and the greatest numbers: what their formulas
say in IEEE arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model

Array = NDArray[np.float64]
Formula = Callable[[Array], Array]
ROOT = np.sqrt(2 / np.pi)
erfs = np.vectorize(erf, otypes=[np.float64])
ANGLES = "sin", "cos", "tan", "sinh", "cosh", "tanh"
FORMULAS: tuple[tuple[str, dict[str, object], Formula], ...] = (
    ("LeakyRelu", {"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
    ("Elu", {"alpha": 0.5}, lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    ("Selu", {"alpha": 1.5, "gamma": 1.25}, lambda x: 1.25 * np.where(x <= 0, 1.5 * np.expm1(x), x)),
    ("Celu", {"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
    ("ThresholdedRelu", {"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    ("HardSigmoid", {"alpha": 0.25}, lambda x: np.maximum(0, np.minimum(1, 0.25 * x + 0.5))),
    ("HardSwish", {}, lambda x: x * np.maximum(0, np.minimum(1, x * float(np.float32(1 / 6)) + 0.5))),
    ("Mish", {}, lambda x: x * np.tanh(np.logaddexp(0, x))),
    ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("Swish", {}, lambda x: x / (1 + np.exp(-x))),
    ("Shrink", {"bias": 0.25}, lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0))),
    ("Gelu", {}, lambda x: 0.5 * x * (1 + erfs(x / np.sqrt(2)))),
    ("Gelu", {"approximate": "tanh"}, lambda x: 0.5 * x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3)))),
    ("Sigmoid", {}, lambda x: 1 / (1 + np.exp(-x))),
    ("Softplus", {}, lambda x: np.logaddexp(0, x)),
    ("Relu", {}, lambda x: np.where(x < 0, 0, x)),
    ("Erf", {}, erfs),
    *((name.capitalize(), {}, getattr(np, name)) for name in (*ANGLES, "exp", "log", "sqrt")),
    *((f"A{name}", {}, getattr(np, f"arc{name}")) for name in ANGLES),
)  # fmt: skip
TYPES = {"float32": 1, "float64": 11}


def made(dtype: str, x: NDArray[np.generic], chosen: list[int]) -> dict[int, NDArray[np.generic]]:
    """By this engine, all in one graph."""
    nodes = [helper.make_node(FORMULAS[n][0], ["x"], [f"y{n}"], **FORMULAS[n][1]) for n in chosen]
    spec = helper.make_tensor_value_info
    outputs = [spec(f"y{n}", TYPES[dtype], x.shape) for n in chosen]
    graph = helper.make_graph(nodes, "special", [spec("x", TYPES[dtype], x.shape)], outputs)
    with Model(from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])), 1) as model:
        found = model.run({"x": x})
    return {n: found[f"y{n}"] for n in chosen}


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_are_the_formulas(dtype: str) -> None:
    """In float64 of Gelu alone, whose formula there is another."""
    double = [n for n, (name, _, _) in enumerate(FORMULAS) if name == "Gelu"]
    limits = np.finfo(dtype)
    parts = np.array([np.inf, float(limits.max), 0, 1000, 88, 20, 5, 1, 0.5, 0.25])
    x = np.concatenate([parts, -parts, [np.nan]]).astype(dtype)
    found = made(dtype, x, double if dtype == "float64" else list(range(len(FORMULAS))))
    for number, got in found.items():
        name, attributes, formula = FORMULAS[number]
        with np.errstate(all="ignore"):
            want = formula(x.astype(np.float64)).astype(dtype)
            # Formulas of a difference from 1 lose that much themselves.
            size = np.maximum(np.abs(want), np.minimum(np.abs(x), 1))
            near = np.abs(got - want) <= 8 * limits.eps * size
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | near
        assert same.all(), (name, attributes, x[~same], got[~same], want[~same])
