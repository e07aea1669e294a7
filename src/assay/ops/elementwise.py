"""Elementwise operators: a line or a few for each. All run in the chain kernel, alone or fused."""

from __future__ import annotations

import math

import numpy as np

from assay.kernels.sizes import CHAIN_SCRATCH
from assay.ops import chain
from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F32


def _alone(site: op.Site) -> tuple[op.Argument, ...]:
    ports = tuple(port.name for port in site.operator.inputs)
    return chain.arguments(*chain.rows(site.outputs[0].shape), [chain.link(site, ports, "y")])


def elementwise(
    name: str,
    stem: str,
    ports: tuple[op.Port, ...],
    summary: str,
    formula: str,
    reference: op.Reference,
    exactness: op.Exactness = op.BITWISE,
    numerics: tuple[str, ...] = (),
    constant: op.Attribute | None = None,
) -> op.Operator:
    """An operator whose elements the block functions `stem` make of its ports', and of its `constant`."""
    dims = ports[0].dims
    return define(
        name=name,
        summary=summary,
        formula=formula,
        inputs=ports,
        outputs=(op.Port("y", (F32,), dims, "elements"),),
        attributes=(constant,) if constant else (),
        reference=reference,
        exactness=exactness,
        kernels=(op.Kernel("elementwise.chain", _alone, scratch=CHAIN_SCRATCH, rows=dims.split()[0]),),
        numerics=numerics,
        pointwise=stem,
        constant=constant.name if constant else "",
    )


def _silu(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray([0.5 * each * math.erfc(-each / math.sqrt(2)) for each in x.flat]).reshape(x.shape)


def _gelu_tanh(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


_SIZE = op.of_magnitudes(lambda a: a.astype(np.float64), 0)
A, B = op.Port("a", (F32,), "...", "elements"), op.Port("b", (F32,), "...", "elements")
ROWS, ROW = op.Port("a", (F32,), "T N", "rows"), op.Port("b", (F32,), "N", "added to each row")

elementwise("add", "add", (A, B), "Adds elements.", "y = a + b", np.add)
elementwise("mul", "mul", (A, B), "Multiplies elements.", "y = a · b", np.multiply)
elementwise("bias", "add", (ROWS, ROW), "Adds a row to each row.", "y[t, n] = a[t, n] + b[n]", np.add)
elementwise(
    "scale", "mul", (A,), "Multiplies by a number.", "y = a · factor",
    lambda a, factor: a * np.float32(factor), constant=op.Attribute("factor", float, "rounded to float32"),
)  # fmt: skip
elementwise(
    "silu", "silu", (A,), "The sigmoid-weighted linear unit.", "y = a / (1 + exp(−a))", _silu,
    op.Exactness(
        "ulp", 4, "exp within 1 ulp, a sum and a division; below −88.72 exp is infinite and |y| < 2⁻¹²¹",
        lambda a: np.maximum(np.abs(_silu(a)), 2.0**-100),
    ),
    ("exp is Assay's own polynomial; infinity of exp gives −0 or +0.",),
)  # fmt: skip
elementwise(
    "gelu", "gelu", (A,), "The Gaussian error linear unit.", "y = a · Φ(a), Φ the normal distribution's",
    _gelu,
    op.Exactness("ulp", 4, "of |a|: the tail within 4e-7 of itself, a difference, two products", _SIZE),
    ("2 Φ(−|a|) is Assay's own polynomial (simd/mathf.py), Φ(a) for a ≥ 0 is 1 less half of it.",),
)  # fmt: skip
elementwise(
    "gelu_tanh", "gelu_tanh", (A,), "The Gaussian error linear unit by tanh.",
    "y = a / (1 + exp(−2 √(2 / π) (a + 0.044715 a³))), which is a/2 · (1 + tanh(√(2 / π) (a + …)))",
    _gelu_tanh,
    op.Exactness("ulp", 4, "of |a|: roundings of exp's argument times it, exp, a sum, a division", _SIZE),
    ("The cubic term is fma(a · a · 0.044715, a, a).",),
)  # fmt: skip
elementwise(
    "tanh", "tanh", (A,), "The hyperbolic tangent.", "y = tanh(a)", lambda a: np.tanh(a.astype(np.float64)),
    op.Exactness("ulp", 3, "a polynomial below 0.625, else (1 − e) / (1 + e) with e = exp(−2 |a|)"),
)  # fmt: skip
