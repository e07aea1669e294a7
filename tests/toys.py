"""Toy operators: the contracts' machinery is tested apart from the real families."""

from __future__ import annotations

from assay.graph.graph import AttributeValue
from assay.ops.operator import (
    BITWISE,
    Array,
    Attribute,
    Exactness,
    Kernel,
    Operator,
    Port,
    Relation,
)
from assay.tensor.dtype import F16, F32, I32, I64


def _reference(*inputs: Array, **attributes: AttributeValue) -> Array:
    return inputs[0]


def toy(name: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...], **fields: object) -> Operator:
    given: dict[str, object] = {
        "summary": f"The toy {name}.",
        "formula": "y = f(x)",
        "reference": _reference,
        "exactness": BITWISE,
        "kernels": (Kernel(f"toy_{name}", inputs[0].name),),
    }
    given |= fields
    return Operator(name=name, inputs=inputs, outputs=outputs, **given)  # type: ignore[arg-type]


FLOATS = (F32, F16)

MATMUL = toy(
    "toy_matmul",
    (Port("x", FLOATS, "T K", "rows"), Port("w", FLOATS, "N K", "weights, a row per output", like="x")),
    (Port("y", FLOATS, "T N", "products", like="x"),),
    relations=(
        Relation(
            "K % 32 == 0",
            lambda site: (site.dims["K"].constant or 0) % 32 == 0,
            "pad the rows of both inputs",
        ),
    ),
    numerics=("Sums run along K.",),
    exactness=Exactness("ulp", 4.0, "K additions in float32"),
)
NORM = toy(
    "toy_norm",
    (Port("x", FLOATS, "... N", "rows"), Port("w", (F32,), "N", "one factor per column")),
    (Port("y", FLOATS, "... N", "scaled rows", like="x"),),
    attributes=(Attribute("eps", float, "added to the mean square", 1e-5, low=0.0, high=1.0),),
)
ADD = toy(
    "toy_add",
    (Port("a", FLOATS, "...", "left"), Port("b", FLOATS, "...", "right", like="a")),
    (Port("y", FLOATS, "...", "sum", like="a"),),
)
SPLIT = toy(
    "toy_split",
    (
        Port("x", FLOATS, "T heads*head_dim", "all heads side by side"),
        Port("w", (F32,), "head_dim", "factors"),
    ),
    (Port("y", FLOATS, "T heads head_dim", "a head per row", like="x"),),
    attributes=(Attribute("heads", int, "number of heads", low=1, high=64),),
)
TOP = toy(
    "toy_top",
    (Port("x", (F32,), "T N", "rows"),),
    (Port("values", (F32,), "T k", "largest"), Port("indices", (I64,), "T k", "their columns")),
    attributes=(
        Attribute("k", int, "how many", low=1),
        Attribute("mode", str, "order", "descending", choices=("descending", "ascending")),
        Attribute("stable", bool, "ties keep their order", True),
    ),
    not_differentiable={"x": "the choice is discrete"},
)
WRITE = toy(
    "toy_write",
    (
        Port("cache", (F16,), "P D", "slots"),
        Port("x", (F32,), "T D", "new rows"),
        Port("slots", (I32,), "T", "where each row goes"),
    ),
    (Port("changed", (F16,), "P D", "the cache with the rows", like="cache"),),
    in_place={"changed": "cache"},
    not_differentiable={"slots": "integers"},
)
ATTEND = toy(
    "toy_attend",
    (Port("x", (F32,), "T D", "queries"), Port("cache", (F16,), "P D", "keys")),
    (Port("y", (F32,), "T D", "mixture"),),
)
TOYS = (MATMUL, NORM, ADD, SPLIT, TOP, WRITE, ATTEND)
