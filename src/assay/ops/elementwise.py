"""Elementwise operators: a table. All run in the chain kernel, alone or fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import ADD, CHAIN_SCRATCH, MUL, SILU
from assay.ops import chain
from assay.ops.operator import (
    BITWISE,
    Argument,
    Array,
    Attributes,
    Case,
    Exactness,
    Kernel,
    Operator,
    Port,
    Site,
)  # fmt: skip
from assay.ops.registry import register
from assay.tensor.dtype import F32


@dataclass(frozen=True)
class Row:
    """One operator of the table."""

    name: str
    number: int
    arity: int
    summary: str
    formula: str
    compute: Callable[..., Array]
    exactness: Exactness = BITWISE
    numerics: tuple[str, ...] = ()


def _silu(a: Array) -> Array:
    x = a.astype(np.float64)
    return np.asarray(x / (1 + np.exp(-x)))


TABLE = (
    Row("add", ADD, 2, "Adds elements.", "y = a + b", np.add),
    Row("mul", MUL, 2, "Multiplies elements.", "y = a · b", np.multiply),
    Row(
        "silu", SILU, 1, "The sigmoid-weighted linear unit.", "y = a / (1 + exp(−a))", _silu,
        Exactness(
            "ulp", 4, "exp within 1 ulp, a sum and a division; below −88.72 exp is infinite and |y| < 2⁻¹²¹",
            lambda inputs, attributes: (np.maximum(np.abs(_silu(inputs[0])), 2.0**-100),),
        ),
        ("exp is Assay's own polynomial; infinity of exp gives −0 or +0.",),
    ),
)  # fmt: skip


def _kernel(row: Row) -> Kernel:
    alone = chain.Link(row.number, tuple("ab"[: row.arity]), "y")

    def arguments(site: Site) -> Sequence[Argument]:
        return chain.arguments(site.outputs[0].shape, [alone])

    return Kernel("elementwise.chain", arguments, scratch=lambda site: CHAIN_SCRATCH, rows="...")


def _cases(row: Row) -> Callable[[np.random.Generator], Sequence[Case]]:
    def cases(rng: np.random.Generator) -> Sequence[Case]:
        made = []
        for shape in ((1,), (3, 7), (2, 300), (33, 64)):
            arrays = [rng.normal(0, 4, shape).astype(np.float32) for _ in range(row.arity)]
            arrays[0].flat[0] = -100.0
            made.append(Case(tuple(arrays), (ValueType.of(F32, *shape),) * row.arity, name=str(shape)))
        return made

    return cases


def _reference(row: Row) -> Callable[[Sequence[Array], Attributes], tuple[Array, ...]]:
    return lambda inputs, attributes: (row.compute(*inputs),)


for _row in TABLE:
    register(
        Operator(
            name=_row.name,
            since=1,
            summary=_row.summary,
            formula=_row.formula,
            inputs=tuple(Port(name, (F32,), "...", "elements") for name in "ab"[: _row.arity]),
            outputs=(Port("y", (F32,), "...", "elements"),),
            reference=_reference(_row),
            exactness=_row.exactness,
            kernels=(_kernel(_row),),
            cases=_cases(_row),
            numerics=_row.numerics,
            pointwise=_row.number,
        )
    )
