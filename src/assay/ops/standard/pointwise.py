"""Operators whose elements depend on elements: a line each. All run in the chain kernel, alone or fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from assay.graph.dim import Dim
from assay.ops import chain
from assay.ops.operator import BITWISE, Argument, Exactness
from assay.ops.standard.definition import Reference
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site

Numbers = Callable[[Site], Sequence[Argument]]
"""The parameters of a block function, from a node's attributes."""


def stretched(site: Site) -> Sequence[Made]:
    """All inputs broadcast together."""
    return [site.broadcast(*(site.shape(index) for index in range(len(site.types)) if site.has(index)))]


def same(site: Site) -> Sequence[Made]:
    """Every output has the first input's shape."""
    return [site.shape(0)] * len(site.node.outputs)


def link(stem: str, numbers: Numbers, site: Site) -> chain.Link:
    """The node as an operation of a chain."""
    reads = [(name, site.type(index)) for index, name in enumerate(site.node.inputs) if name]
    made = site.outputs[0]
    assert made is not None
    return chain.pointwise(stem, reads, (site.node.outputs[0], made), numbers(site))


def none(site: Site) -> Sequence[Argument]:
    return ()


def pointwise(
    name: str,
    stem: str,
    formula: str,
    reference: Reference | None,
    exactness: Exactness = BITWISE,
    numbers: Numbers = none,
    summary: str = "",
    **more: object,
) -> None:
    """Define an operator that is one block function (kernels/blocks.py)."""
    define(
        name,
        stretched,
        summary=summary or f"{name}, element by element.",
        formula=formula,
        shapes="All inputs are broadcast together.",
        reference=reference,
        pointwise=partial(link, stem, numbers),
        exactness=exactness,
        kernels=((f"elementwise.chain with blocks.{stem}_<dtype>", "always"),),
        **more,
    )


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype == object:
        return np.array([x // y for x, y in np.broadcast(a, b)], object).reshape(np.broadcast(a, b).shape)
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    whole = np.where(b == 0, 1, b)
    found = np.floor_divide(np.abs(a), np.abs(whole)) * np.sign(a) * np.sign(whole)
    return np.asarray(np.where(b == 0, 0, found)).astype(a.dtype)


def _compare(name: str, decide: Callable[[Dim, Dim], bool | None], numpy: Callable[..., Array]) -> Reference:
    """A comparison that also knows sizes; one that depends on them can't be told."""

    def reference(a: Array, b: Array) -> Array:
        if object not in (a.dtype, b.dtype) or any(isinstance(each, str) for each in (*a.flat, *b.flat)):
            return numpy(a, b)
        pairs = np.broadcast(a, b)
        found = [decide(Dim.of(x), Dim.of(y)) for x, y in pairs]
        if None in found:
            raise ValueError(f"{name} depends on sizes")
        return np.array(found, np.bool_).reshape(pairs.shape)

    return reference


def _below(a: Dim, b: Dim) -> bool | None:
    sign = (a - b).sign
    return None if sign is None else sign < 0


def _not_above(a: Dim, b: Dim) -> bool | None:
    sign = (a - b).sign
    return None if sign is None else sign <= 0


for _name, _stem, _formula, _numpy in (
    ("Add", "add", "C = A + B", np.add), ("Sub", "sub", "C = A − B", np.subtract),
    ("Mul", "mul", "C = A · B", np.multiply), ("Div", "div", "C = A / B", _quotient),
):  # fmt: skip
    pointwise(_name, _stem, _formula, _numpy, sizes=True)

for _name, _stem, _formula, _reference in (
    ("Equal", "equal", "C = (A = B)", _compare("Equal", lambda a, b: a.equals(b), np.equal)),
    ("Less", "less", "C = (A < B)", _compare("Less", _below, np.less)),
    ("LessOrEqual", "less_equal", "C = (A ≤ B)", _compare("LessOrEqual", _not_above, np.less_equal)),
    ("Greater", "greater", "C = (A > B)", _compare("Greater", lambda a, b: _below(b, a), np.greater)),
    ("GreaterOrEqual", "greater_equal", "C = (A ≥ B)",
     _compare("GreaterOrEqual", lambda a, b: _not_above(b, a), np.greater_equal)),
):  # fmt: skip
    pointwise(_name, _stem, _formula, _reference, sizes=True)

pointwise("Relu", "relu", "Y = max(X, 0)", lambda X: np.maximum(X, X.dtype.type(0)))
pointwise("Sqrt", "sqrt", "Y = √X", np.sqrt)
pointwise("Neg", "neg", "Y = −X", np.negative)
pointwise("Abs", "abs", "Y = |X|", np.abs)
pointwise("Not", "not", "Y = ¬X", np.logical_not)
pointwise("Where", "where", "output = condition ? X : Y", np.where, sizes=True)
pointwise(
    "Exp", "exp", "output = e^input", np.exp,
    Exactness("ulp", 1, "a polynomial of degree 6 after exact reduction"),
)  # fmt: skip
pointwise(
    "Tanh", "tanh", "output = tanh(input)", np.tanh,
    Exactness("ulp", 3, "a polynomial below 0.625, else (1 − e) / (1 + e) with e = exp(−2 |x|)"),
)  # fmt: skip
