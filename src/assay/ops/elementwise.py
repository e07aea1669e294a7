"""Elementwise operators: a table. All run in the chain kernel, alone or fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.kernels.opcodes import ADD, GELU, GELU_TANH, MUL, SCALE, SCRATCH, SILU, TANH
from assay.ops import chain
from assay.ops import operator as op
from assay.ops.registry import register
from assay.tensor.dtype import F32


@dataclass(frozen=True)
class Row:
    """One operator of the table."""

    name: str
    number: int
    ports: tuple[op.Port, ...]
    summary: str
    formula: str
    compute: Callable[..., op.Array]
    exactness: op.Exactness = op.BITWISE
    numerics: tuple[str, ...] = ()
    constant: op.Attribute | None = None


def _silu(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray([0.5 * each * math.erfc(-each / math.sqrt(2)) for each in x.flat]).reshape(x.shape)


def _gelu_tanh(a: op.Array) -> op.Array:
    x = a.astype(np.float64)
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _size(inputs: op.Arrays, attributes: op.Attributes) -> op.Arrays:
    return (np.abs(inputs[0].astype(np.float64)),)


A, B = op.Port("a", (F32,), "...", "elements"), op.Port("b", (F32,), "...", "elements")
ROWS, ROW = op.Port("a", (F32,), "T N", "rows"), op.Port("b", (F32,), "N", "added to each row")
FACTOR = op.Attribute("factor", float, "rounded to float32")
TABLE = (
    Row("add", ADD, (A, B), "Adds elements.", "y = a + b", np.add),
    Row("mul", MUL, (A, B), "Multiplies elements.", "y = a · b", np.multiply),
    Row("bias", ADD, (ROWS, ROW), "Adds a row to each row.", "y[t, n] = a[t, n] + b[n]", np.add),
    Row(
        "scale", SCALE, (A,), "Multiplies by a number.", "y = a · factor",
        lambda a, factor: a * np.float32(factor), constant=FACTOR,
    ),
    Row(
        "silu", SILU, (A,), "The sigmoid-weighted linear unit.", "y = a / (1 + exp(−a))", _silu,
        op.Exactness(
            "ulp", 4, "exp within 1 ulp, a sum and a division; below −88.72 exp is infinite and |y| < 2⁻¹²¹",
            lambda inputs, attributes: (np.maximum(np.abs(_silu(inputs[0])), 2.0**-100),),
        ),
        ("exp is Assay's own polynomial; infinity of exp gives −0 or +0.",),
    ),
    Row(
        "gelu", GELU, (A,), "The Gaussian error linear unit.", "y = a · Φ(a), Φ the normal distribution's",
        _gelu,
        op.Exactness("ulp", 4, "of |a|: the tail within 4e-7 of itself, a difference, two products", _size),
        ("2 Φ(−|a|) is Assay's own polynomial (simd/mathf.py), Φ(a) for a ≥ 0 is 1 less half of it.",),
    ),
    Row(
        "gelu_tanh", GELU_TANH, (A,), "The Gaussian error linear unit by tanh.",
        "y = a / (1 + exp(−2 √(2 / π) (a + 0.044715 a³))), which is a/2 · (1 + tanh(√(2 / π) (a + …)))",
        _gelu_tanh,
        op.Exactness("ulp", 4, "of |a|: roundings of exp's argument times it, exp, a sum, a division", _size),
        ("The cubic term is fma(a · a · 0.044715, a, a).",),
    ),
    Row(
        "tanh", TANH, (A,), "The hyperbolic tangent.", "y = tanh(a)", lambda a: np.tanh(a.astype(np.float64)),
        op.Exactness("ulp", 3, "a polynomial below 0.625, else (1 − e) / (1 + e) with e = exp(−2 |a|)"),
    ),
)  # fmt: skip


def _kernel(row: Row) -> op.Kernel:
    names = tuple(port.name for port in row.ports)
    repeated = tuple(port.name for port in row.ports if port.dims == ROW.dims)

    def arguments(site: op.Site) -> Sequence[op.Argument]:
        constant = site.number(row.constant.name) if row.constant else None
        alone = chain.Link(row.number, names, "y", repeated, constant)
        return chain.arguments(site.outputs[0].shape, [alone])

    rows = row.ports[0].dims.split()[0]
    return op.Kernel("elementwise.chain", arguments, scratch=SCRATCH, rows=rows)


def _reference(row: Row) -> op.Reference:
    return lambda inputs, attributes: (row.compute(*inputs, *attributes.values()),)


for _row in TABLE:
    register(
        op.Operator(
            name=_row.name,
            summary=_row.summary,
            formula=_row.formula,
            inputs=_row.ports,
            outputs=(op.Port("y", (F32,), _row.ports[0].dims, "elements"),),
            attributes=(_row.constant,) if _row.constant else (),
            reference=_reference(_row),
            exactness=_row.exactness,
            kernels=(_kernel(_row),),
            numerics=_row.numerics,
            pointwise=_row.number,
            constant=_row.constant.name if _row.constant else "",
        )
    )
