"""Operators whose elements depend on elements: a line each. All run in the chain kernel, alone or fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import cast

import numpy as np

from assay.graph.dim import Dim, greatest, least
from assay.graph.graph import ValueType
from assay.ops import chain
from assay.ops.operator import BITWISE, Exactness
from assay.ops.standard.definition import FLAG, Reference, one_of
from assay.ops.standard.emit import bits_of
from assay.ops.standard.function import Function, written
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Numbers, Site
from assay.tensor.dtype import BF16, F16, F32, F64, DType

Links = Sequence[chain.Link]
Operand = tuple[str, ValueType]


def stretched(site: Site) -> Sequence[Made]:
    """All inputs broadcast together."""
    return [site.broadcast(*(site.shape(index) for index in range(len(site.types)) if site.has(index)))]


def same(site: Site) -> Sequence[Made]:
    """Every output has the first input's shape."""
    return [site.shape(0)] * len(site.node.outputs)


def operands(site: Site) -> list[Operand]:
    """The inputs that are given."""
    return [(name, site.type(index)) for index, name in enumerate(site.node.inputs) if name]


def links(site: Site, *steps: tuple[str, Sequence[Operand | float]]) -> Links:
    """Operations one after the other: each a block function's stem, and what it takes behind the result of
    the one before; the first takes the node's first input.
    """
    made = site.made_type()
    found: list[chain.Link] = []
    name, kind = site.node.inputs[0], site.type(0)
    for number, (stem, others) in enumerate(steps, start=1):
        last = number == len(steps)
        result = made if last else ValueType(kind.dtype, made.shape)
        target = site.node.outputs[0] if last else f"{site.node.outputs[0]}~{number}"
        values = [each for each in others if isinstance(each, tuple)]
        numbers = [bits_of(each, kind.dtype) for each in others if not isinstance(each, tuple)]
        found.append(chain.pointwise(stem, [(name, kind), *values], (target, result), numbers))
        name, kind = target, result
    return found


def one(stem: str, site: Site) -> Links:
    """The block function on the node's inputs."""
    return links(site, (stem, operands(site)[1:]))


def folded(stem: str, site: Site) -> Links:
    """The block function over any number of inputs, two at a time."""
    first, *others = operands(site)
    alone = [("max", [first])]  # of one with itself: that one
    return links(site, *([(stem, [each]) for each in others] or alone))


def pointwise(
    name: str,
    stem: str | Callable[[Site], Links],
    formula: str,
    reference: Reference | None,
    exactness: Exactness = BITWISE,
    **more: object,
) -> None:
    """Define an operator that is one block function (kernels/blocks.py), or several in a chain."""
    how = f"blocks.{stem}_<type>" if isinstance(stem, str) else "several block functions"
    define(
        name,
        more.pop("rule", stretched),
        summary=more.pop("summary", f"{name}, element by element."),
        formula=formula,
        shapes="All inputs are broadcast together.",
        reference=reference,
        pointwise=partial(one, stem) if isinstance(stem, str) else stem,
        exactness=exactness,
        kernels=((f"elementwise.chain with {how}", "always"),),
        **more,
    )


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    if a.dtype == object:
        return np.array([x // y for x, y in np.broadcast(a, b)], object).reshape(np.broadcast(a, b).shape)
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    whole = np.where(b == 0, 1, b)
    found = np.floor_divide(np.abs(a), np.abs(whole)) * np.sign(a) * np.sign(whole)
    return np.asarray(np.where(b == 0, 0, found)).astype(a.dtype)


def _compare(
    name: str, decide: Callable[[Dim, Dim], bool | None], numpy: Callable[..., Numbers]
) -> Reference:
    """A comparison that also knows sizes; one that depends on them can't be told."""

    def reference(a: Numbers, b: Numbers) -> Numbers:
        if object not in (a.dtype, b.dtype) or any(isinstance(each, str) for each in (*a.flat, *b.flat)):
            return numpy(a, b)
        pairs = np.broadcast(a, b)
        found = [decide(Dim.of(x), Dim.of(y)) for x, y in pairs]
        if None in found:
            raise ValueError(f"{name} depends on sizes")
        return cast(Numbers, np.array(found, np.bool_).reshape(pairs.shape))

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
    _more = ("Integers are cut towards zero; divided by zero they are 0.",) if _name == "Div" else ()
    pointwise(_name, _stem, _formula, _numpy, sizes=True, numerics=_more)

for _name, _stem, _formula, _reference in (
    ("Equal", "equal", "C = (A = B)", _compare("Equal", lambda a, b: a.equals(b), np.equal)),
    ("Less", "less", "C = (A < B)", _compare("Less", _below, np.less)),
    ("LessOrEqual", "less_equal", "C = (A ≤ B)", _compare("LessOrEqual", _not_above, np.less_equal)),
    ("Greater", "greater", "C = (A > B)", _compare("Greater", lambda a, b: _below(b, a), np.greater)),
    ("GreaterOrEqual", "greater_equal", "C = (A ≥ B)",
     _compare("GreaterOrEqual", lambda a, b: _not_above(b, a), np.greater_equal)),
):  # fmt: skip
    pointwise(_name, _stem, _formula, _reference, sizes=True)

for _name, _stem, _formula, _reference in (
    ("Abs", "abs", "Y = |X|", np.abs), ("Neg", "neg", "Y = −X", np.negative),
    ("Sign", "sign", "output = −1, 0 or 1 as input is below, at or above 0", np.sign),
    ("Floor", "floor", "Y = ⌊X⌋", np.floor), ("Ceil", "ceil", "Y = ⌈X⌉", np.ceil),
    ("Round", "round", "Y = X to the nearest integer, ties to even", np.rint),
    ("Sqrt", "sqrt", "Y = √X", np.sqrt),
    ("Reciprocal", "reciprocal", "Y = 1 / X", lambda X: X.dtype.type(1) / X),
    ("Relu", "relu", "Y = max(X, 0)", lambda X: np.where(X < 0, X.dtype.type(0), X)),
    ("Not", "not", "Y = ¬X", np.logical_not), ("BitwiseNot", "not", "Y = ~X", np.invert),
    ("IsNaN", "isnan", "Y = (X is not a number)", np.isnan),
    ("And", "and", "C = A ∧ B", np.logical_and), ("Or", "or", "C = A ∨ B", np.logical_or),
    ("Xor", "xor", "C = A ⊕ B", np.logical_xor),
    ("BitwiseAnd", "and", "C = A & B", np.bitwise_and), ("BitwiseOr", "or", "C = A | B", np.bitwise_or),
    ("BitwiseXor", "xor", "C = A ^ B", np.bitwise_xor),
):  # fmt: skip
    pointwise(_name, _stem, _formula, _reference)
pointwise("Where", "where", "output = condition ? X : Y", np.where, sizes=True)


def _bound(numpy: Callable[..., Numbers], sized: Callable[..., Dim]) -> Reference:
    def reference(*data: Numbers) -> Numbers:
        if object in [each.dtype for each in data]:
            pairs = np.broadcast(*data)
            return np.array([sized(*each) for each in pairs], object).reshape(pairs.shape)
        return reduce(numpy, data)

    return reference


pointwise(
    "Min", partial(folded, "min"), "min = the least of the inputs", _bound(np.minimum, least), sizes=True
)
pointwise(
    "Max",
    partial(folded, "max"),
    "max = the greatest of the inputs",
    _bound(np.maximum, greatest),
    sizes=True,
)
pointwise(
    "Sum", partial(folded, "add"), "sum = the sum of the inputs, in order", lambda *data: reduce(np.add, data)
)


def _mean(site: Site) -> Links:
    others = operands(site)[1:]
    return links(site, *[("add", [each]) for each in others], ("div", [float(len(others) + 1)]))


pointwise("Mean", _mean, "mean = the sum of the inputs, in order, over their number",
          lambda *data: reduce(np.add, data) / data[0].dtype.type(len(data)))  # fmt: skip


def _clip_rule(site: Site) -> Sequence[Made]:
    for index in (1, 2):
        site.want_rank(index, 0)
    return [site.shape(0)]


def _clip(site: Site) -> Links:
    given = operands(site)
    steps = [(stem, [(site.node.inputs[index], site.type(index))])
             for index, stem in ((1, "max"), (2, "min")) if site.has(index)]  # fmt: skip
    return links(site, *(steps or [("min", [given[0]])]))


def _clipped(input: Numbers, min: Numbers | None = None, max: Numbers | None = None) -> Numbers:
    low = input if min is None else np.maximum(input, min)
    return low if max is None else np.asarray(np.minimum(low, max))


pointwise("Clip", _clip, "output = min(max(input, min), max)", _clipped, rule=_clip_rule)


def _isinf(site: Site) -> Links:
    high, low = site["detect_positive"], site["detect_negative"]
    if not (high or low):
        return links(site, ("less", [operands(site)[0]]))  # false, for NaN too
    return one("isinf" if high and low else "isposinf" if high else "isneginf", site)


pointwise(
    "IsInf", _isinf, "Y = (X is +∞ and detect_positive, or −∞ and detect_negative)",
    lambda X, detect_negative, detect_positive: (
        np.isinf(X) & np.asarray(np.where(X > 0, detect_positive, detect_negative), bool)
    ),
    ranges={"detect_negative": FLAG, "detect_positive": FLAG},
)  # fmt: skip
pointwise(
    "BitShift", lambda site: one(f"shift_{site.text('direction').lower()}", site),
    "Z = X << Y or X >> Y; 0 for a Y of the type's bits or more",
    lambda X, Y, direction: np.left_shift(X, Y) if direction == "LEFT" else np.right_shift(X, Y),
    ranges={"direction": one_of("LEFT", "RIGHT")},
)  # fmt: skip


pointwise(
    "Mod", lambda site: one("fmod" if site["fmod"] else "mod", site),
    "C = A mod B with the sign of B, or with fmod that of A",
    lambda A, B, fmod: np.fmod(A, B) if fmod else np.mod(A, B), ranges={"fmod": FLAG},
)  # fmt: skip


def _pow(site: Site) -> Links:
    """In X's type, unless Y has more to say: by way of a type that holds both."""
    x, y = site.dtype(0), site.dtype(1)
    common = x if y.kind != "float" or (y in (x, F16, BF16) and x.kind == "float") else _wider(x, y)
    made, output = site.made_type(), site.node.outputs[0]
    whole, found, read = ValueType(common, made.shape), list[chain.Link](), list[Operand]()
    for letter, (name, kind) in zip("xy", operands(site), strict=True):
        if kind.dtype != common:
            found.append(chain.pointwise("cast", [(name, kind)], (f"{output}~{letter}", whole)))
            name, kind = f"{output}~{letter}", whole
        read.append((name, kind))
    power = output if common == x else f"{output}~z"
    found.append(chain.pointwise("pow", read, (power, whole)))
    if common != x:
        found.append(chain.pointwise("cast", [(power, whole)], (output, made)))
    return found


def _wider(x: DType, y: DType) -> DType:
    return F64 if F64 in (x, y) or x.kind != "float" else F32


pointwise("Pow", _pow, "Z = X ^ Y, in X's type", lambda X, Y: np.power(X, Y).astype(X.dtype),
          Exactness("ulp", 2, "log2 in two parts, the product in two parts, exp2"))  # fmt: skip

_FUNCTIONS: tuple[tuple[str, str, str, Reference | None, int], ...] = (
    ("Exp", "exp", "output = e^input", np.exp, 1), ("Log", "log", "output = ln input", np.log, 2),
    ("Sin", "sin", "output = sin input", np.sin, 2), ("Cos", "cos", "output = cos input", np.cos, 2),
    ("Tan", "tan", "output = tan input", np.tan, 2), ("Asin", "asin", "output = asin input", np.arcsin, 2),
    ("Acos", "acos", "output = acos input", np.arccos, 2),
    ("Atan", "atan", "output = atan input", np.arctan, 2),
    ("Sinh", "sinh", "output = sinh input", np.sinh, 2), ("Cosh", "cosh", "output = cosh input", np.cosh, 2),
    ("Tanh", "tanh", "output = tanh input", np.tanh, 3),
    ("Asinh", "asinh", "output = asinh input", np.arcsinh, 2),
    ("Acosh", "acosh", "output = acosh input", np.arccosh, 2),
    ("Atanh", "atanh", "output = atanh input", np.arctanh, 2),
    ("Sigmoid", "sigmoid", "Y = 1 / (1 + e^−X)",
    lambda X: (1 / (1 + np.exp(-X.astype(np.float64)))).astype(X.dtype), 3),
    ("Softplus", "softplus", "Y = ln(1 + e^X)",
    lambda X: np.logaddexp(0, X.astype(np.float64)).astype(X.dtype), 3),
    ("Erf", "erf", "output = erf input", None, 2),
)  # fmt: skip
for _name, _stem, _formula, _function, _ulp in _FUNCTIONS:
    _why = "a polynomial of our own (simd/mathf.py)"
    pointwise(_name, _stem, _formula, _function, Exactness("ulp", _ulp, _why))

pointwise(
    "Gelu", lambda site: one("gelu_tanh" if site["approximate"] == "tanh" else "gelu", site),
    "Y = X · Φ(X), or with approximate = tanh 0.5 X (1 + tanh(√(2/π) (X + 0.044715 X³)))", None,
    Exactness("ulp", 4, "of |X|: the tail within 4e-7 of itself, a difference, two products"),
    ranges={"approximate": one_of("none", "tanh")}, numerics=("NaN at −infinity, as −∞ · 0 is.",),
)  # fmt: skip


def _activated(f: Function) -> Sequence[str] | None:
    """Halves in float32, and only the end is rounded."""
    dtype = f.site.dtype(0)
    if dtype not in (F16, BF16):
        return _shrunk(f) if f.site.definition.name == "Shrink" and dtype.kind != "float" else None
    wide = [name and f.cast(name, F32) for name in f.inputs]
    return [f.cast(f(f.site.node.op, *wide, **f.site.node.attributes), dtype)]


def _shrunk(f: Function) -> Sequence[str]:
    """Integers by the formula as it is read; the standard's function cuts its numbers to integers first."""
    dtype = f.site.dtype(0)
    x, lambd, bias = f.cast(f.input(0), F64), f.site.number("lambd"), f.site.number("bias")

    def moved(op: str) -> str:
        if bias.is_integer() and abs(bias) < 1 << 53:
            return f(op, f.input(0), f.number(int(bias), dtype))
        return f.cast(f(op, x, f.number(bias, F64)), dtype)

    above, below = f("Greater", x, f.number(lambd, F64)), f("Less", x, f.number(-lambd, F64))
    return [f("Where", below, moved("Add"), f("Where", above, moved("Sub"), f.number(0, dtype)))]


_NUMERICS = {
    "HardSwish": ("1 / 6 is the nearest number of float32, in float64 too.",),
    "Shrink": (
        "Integers wrap around where bias is a whole number; else the result is float64's, cut towards zero.",
    ),
}
for _name, _formula in (
    ("LeakyRelu", "Y = X < 0 ? alpha · X : X"), ("PRelu", "Y = X < 0 ? slope · X : X"),
    ("Elu", "Y = X < 0 ? alpha · (e^X − 1) : X"), ("Selu", "Y = gamma · (X ≤ 0 ? alpha · (e^X − 1) : X)"),
    ("Celu", "Y = max(0, X) + min(0, alpha · (e^(X / alpha) − 1))"),
    ("ThresholdedRelu", "Y = X > alpha ? X : 0"), ("HardSigmoid", "Y = max(0, min(1, alpha · X + beta))"),
    ("HardSwish", "Y = X · max(0, min(1, X / 6 + 0.5))"), ("Mish", "Y = X · tanh(ln(1 + e^X))"),
    ("Softsign", "output = input / (1 + |input|)"), ("Swish", "Y = X / (1 + e^(−alpha · X))"),
    ("Shrink", "y = x < −lambd ? x + bias : x > lambd ? x − bias : 0"),
):  # fmt: skip
    define(
        _name,
        same if _name != "PRelu" else stretched,
        summary=f"{_name}, element by element.",
        formula=_formula,
        shapes="The input's.",
        expand=True,
        function=written(_activated, sized=False),
        numerics=_NUMERICS.get(_name, ()),
        exactness=Exactness(
            "ulp", 8, "each step of the standard's function is rounded to float32, halves at its end"
        ),
        kernels=(("the standard's function, its steps fused in one elementwise.chain", "always"),),
    )
