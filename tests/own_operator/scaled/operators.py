"""Operators of a package's own, for ONNX graphs."""

from __future__ import annotations

import numpy as np

from assay.ops.standard.pointwise import links, operands
from assay.ops.standard.registry import define
from assay.ops.standard.schema import Attribute, Port, Schema

FLOAT = frozenset({"tensor(float)"})
X, Y = Port("X", FLOAT, "T"), Port("Y", FLOAT, "T")
FACTOR = Attribute("factor", "float", default=2.0, doc="What X is multiplied by.")


def same(site):
    """The rule: Y has X's shape, which must have an axis."""
    site.want_rank(0, 1, -1)
    return [site.shape(0)]


define(
    "com.example.Scale",
    same,
    given=Schema("com.example.Scale", 1, (X,), (Y,), {"factor": FACTOR}),
    summary="A tensor times a number.",
    formula="Y = X · factor",
    shapes="X's.",
    reference=lambda X, factor: X * np.float32(factor),
    pointwise=lambda site: links(site, ("mul", [*operands(site)[1:], site.number("factor")])),
    kernels=(("elementwise.chain with blocks.mul_float32", "always"),),
)


def alternate(site, emitter):
    """One call of the kernel: addresses of X and Y, and the number of elements."""
    x, y, (count,) = emitter.input(0), emitter.output(0), site.sizes(0)
    emitter.call("scaled.kernels:alternate", [x, y, count], reads=[x], writes=[y])


def row(site):
    """The rule: X is one row."""
    site.want_rank(0, 1)
    return [site.shape(0)]


define(
    "com.example.Alternate",
    row,
    given=Schema("com.example.Alternate", 1, (X,), (Y,), {}),
    summary="Every second element with the other sign.",
    formula="Y[i] = (−1)^i · X[i]",
    shapes="X's.",
    reference=lambda X: np.where(np.arange(len(X)) % 2, -X, X),
    lower=alternate,
    kernels=(("scaled.kernels:alternate", "always"),),
)
