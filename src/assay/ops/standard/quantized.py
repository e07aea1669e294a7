"""Numbers of few bits and their scales: exact integers between, one rounding to nearest even at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.standard import conv, linear
from assay.ops.standard.cast import named
from assay.ops.standard.definition import FLAG, NATURAL, POSITIVE
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.registry import define
from assay.ops.standard.schema import numbered
from assay.ops.standard.site import Made, Site
from assay.ops.standard.windows import RANGES
from assay.tensor.dtype import F32, F64, I32, U8, DType

INTEGERS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
"""Bits of the integers that are quantised to."""


def bounds(dtype: DType) -> tuple[float, float]:
    """The least and the greatest integer of a type."""
    bits = INTEGERS[dtype.name]
    low = -(2 ** (bits - 1)) if dtype.name.startswith("int") else 0
    return low, low + 2**bits - 1


# QuantizeLinear, DequantizeLinear


def _scaled(site: Site) -> Sequence[Made]:
    shape, scale, axis, block = site.shape(0), site.shape(1), site["axis"], site.integer("block_size")
    rank = len(shape)
    assert isinstance(axis, int)
    fits, may_be_one = -rank <= axis < rank, len(scale) < 2 and not any(dim.differs(1) for dim in scale)
    one = may_be_one and (not fits or all(dim.constant for dim in scale))
    if not one:
        if not site.require(fits, "attribute axis out of range", want=f"{-rank} to {rank - 1}", got=axis):
            return [None]
        axis %= rank
        if block:
            _blocked(site, axis, block)
        elif site.want_rank(1, 1):
            site.agree(shape[axis], scale[0], f"scales and size along axis {axis}", 1)
    if site.has(2) and may_be_one and (one or not site.rank(2)):
        _one(site, 2)
    elif site.has(2) and site.want_rank(2, len(scale)):
        for at, (want, got) in enumerate(zip(scale, site.shape(2), strict=True)):
            site.agree(want, got, f"scales and zero points along axis {at}", 2)
    if site.definition.name == "QuantizeLinear":
        made = named(site, "output_dtype", site.dtype(2) if site.has(2) else U8)
        zero = site.dtype(2) if site.has(2) else made
        site.require(made == zero, "attribute output_dtype: not y_zero_point's", want=zero, got=made)
        number = site.integer("precision")
        known = not number or numbered(number) is not None
        site.require(known, "attribute precision: no element type", want="a type of ONNX", got=number)
    else:
        made = named(site, "output_dtype", site.dtype(1))
        zeros = site.peek(2)
        if zeros is not None and (made.name.startswith("float8") or site.dtype(0) == I32):
            site.require(
                not np.any(zeros.astype(np.float32)), "zero point that isn't 0", want="0", got=zeros, input=2
            )
    return [ValueType(made, shape)]


def _blocked(site: Site, axis: int, block: int) -> None:
    shape, scale = site.shape(0), site.shape(1)
    if site.want_rank(1, len(shape)):
        for at, (dim, many) in enumerate(zip(shape, scale, strict=True)):
            blocks = -(-dim // block) if at == axis else dim
            site.agree(blocks, many, f"scales along axis {at}", 1, f"blocks of {block} along axis {axis}")


def _spread(f: Function, x: Name, index: int) -> Name:
    """A scale or zero point for each element of the first input, or one that broadcasts to it."""
    site, shape, own = f.site, f.site.sizes(0), f.site.sizes(index)
    if prod(own) == 1 and len(own) <= 1:
        return f.reshape(x)
    axis, block = site.integer("axis") % len(shape), site.integer("block_size")
    if not block:
        return f.reshape(x, *(size if at == axis else 1 for at, size in enumerate(shape)))
    before, after = own[: axis + 1], own[axis + 1 :]
    rows = f("Expand", f.reshape(x, *before, 1, *after), f.number([*before, block, *after]))
    whole = f.reshape(rows, *before[:-1], before[-1] * block, *after)
    return whole if before[-1] * block == shape[axis] else f.slice(whole, axis, 0, shape[axis])


def saturated(f: Function, x: Name, zero: Name, dtype: DType, saturate: int = 1) -> Name:
    """x + zero as numbers of a type: integers are rounded before, and put inside the range. x is float32 or
    float64.
    """
    kind = F32
    whole = dtype.name in INTEGERS
    x = f("Round", x) if whole else x
    if zero:
        x = f("Add", x, f("CastLike", zero, x))
    if not whole:
        return f.cast(x, dtype, saturate=saturate)
    low, high = (f("CastLike", f.number(each, kind), x) for each in bounds(dtype))
    return f.cast(f("Clip", x, low, high), dtype)


def _quantise(f: Function) -> Sequence[Name]:
    site, made = f.site, f.site.made_type()
    own = site.dtype(1) if site.dtype(1).kind == "float" else F32
    precision = numbered(site.integer("precision")) or own
    scale = _spread(f, f.cast(f.input(1), precision), 1)
    zero = _spread(f, f.cast(f.input(2), F32), 2) if site.has(2) else ""
    quotient = f("Div", f.cast(f.input(0), precision), scale)
    wide = f.cast(quotient, F32) if precision.size < 4 else quotient
    return [saturated(f, wide, zero, made.dtype, site.integer("saturate"))]


def _dequantise(f: Function) -> Sequence[Name]:
    site, made = f.site, f.site.made_type()
    x = f.cast(f.input(0), F32)
    if site.has(2):
        x = f("Sub", x, _spread(f, f.cast(f.input(2), F32), 2))
    return [f.cast(f("Mul", x, _spread(f, f.cast(f.input(1), F32), 1)), made.dtype)]


CHAIN = (("elementwise.chain, in the words of Cast, Div, Round, Add, Clip and Mul", "always"),)
GRAIN = (
    "A scale, and a zero point beside it, is for the whole, for each place along axis, or for each block of "
    "block_size along it."
)
define(
    "QuantizeLinear", _scaled, function=written(_quantise), kernels=CHAIN, shapes="x's.",
    formula="y = saturate(round(x / y_scale) + y_zero_point), rounded to nearest, ties to even",
    ranges={"saturate": FLAG, "block_size": NATURAL},
    numerics=(GRAIN, "The quotient is rounded to `precision`, by default y_scale's type; the sum is "
    "float32."),
    not_differentiable={"x": "rounding has no slope", "y_scale": "rounding has no slope"},
)  # fmt: skip
define(
    "DequantizeLinear", _scaled, function=written(_dequantise), kernels=CHAIN, shapes="x's.",
    formula="y = (x − x_zero_point) · x_scale", ranges={"block_size": NATURAL},
    numerics=(GRAIN, "In float32, rounded once to the output's type."),
    not_differentiable={"x": "numbers of few bits have no gradient"},
)  # fmt: skip
define(
    "DynamicQuantizeLinear", lambda site: [ValueType(U8, site.shape(0)), ValueType.of(F32), ValueType.of(U8)],
    expand=True, kernels=(("reduce.float32 and elementwise.chain", "always"),),
    formula="y_scale = (max(x, 0) − min(x, 0)) / 255, y_zero_point = round(−min(x, 0) / y_scale), "
    "y = saturate(round(x / y_scale) + y_zero_point)", shapes="x's; scale and zero point are one number "
    "each.",
    not_differentiable={"x": "rounding has no slope"},
)  # fmt: skip


# Products


def _part(rule: Callable[[Site], Sequence[Made]], site: Site, which: Sequence[int]) -> Sequence[Made]:
    """What another operator's rule says of some of the inputs."""
    given = [index for index in which if site.has(index)]
    types, values = [site.types[index] for index in given], [site.peek(index) for index in given]
    inner = Site(site.node, site.definition, types, values, site.attributes)
    made = rule(inner)
    for problem in inner.problems:
        site.problems.append(problem._replace(input=given[problem.input] if problem.input >= 0 else -1))
    return made


def _one(site: Site, index: int, dim: Dim | None = None) -> None:
    """A scale or zero point is one number, or one for each of `dim`."""
    if not site.has(index) or not site.want_rank(index, 0, 1):
        return
    for size in site.shape(index):
        good = not size.differs(1) or (dim is not None and not size.differs(dim))
        rule, want = "several scales or zero points", f"1 or {dim}" if dim else "1"
        site.require(good, rule, want=want, got=size, input=index, dim=size)


def _each(site: Site, index: int, of: int, axis: int) -> None:
    """One for each row (axis −2) or column (−1) of the matrices in another input, or one number."""
    if site.has(index):
        if site.rank(index) < 2:
            _one(site, index, site.shape(of)[axis] if site.rank(of) > 1 else None)
        elif site.want_rank(index, site.rank(of)):
            for at, (want, got) in enumerate(zip(site.shape(of), site.shape(index), strict=True)):
                other = at - site.rank(of) not in (axis,) and at >= site.rank(of) - 2
                site.agree(Dim.of(1) if other else want, got, f"sizes along axis {at}", index)


def _matrices(site: Site, a: int, b: int, kind: DType | None) -> Sequence[Made]:
    (made,) = _part(linear._matmul, site, (a, b))
    assert made is None or isinstance(made, tuple)
    return [made if made is None or kind is None else ValueType(kind, made)]


def _matmul_integer(site: Site) -> Sequence[Made]:
    if site.rank(0) and site.rank(1):
        _each(site, 2, 0, -2)
        _each(site, 3, 1, -1)
    return _matrices(site, 0, 1, I32)


def _qlinear_matmul(site: Site) -> Sequence[Made]:
    for index in (1, 2):
        _each(site, index, 0, -2)
        _each(site, index + 3, 3, -1)
    for index in (6, 7):
        _one(site, index)
    return _matrices(site, 0, 3, site.dtype(7))


def _rows(f: Function, x: Name, index: int, of: int) -> Name:
    """Numbers for each row of a matrix, or one."""
    sizes = f.site.sizes(index)
    return f.reshape(x, sizes[0], 1) if len(sizes) == 1 and len(f.site.sizes(of)) > 1 else x


def _centred(f: Function, x: Name, zero: Name, dtype: DType = I32) -> Name:
    """x − zero."""
    return f("Sub", f.cast(x, dtype), zero) if zero else f.cast(x, dtype)


def _int_matmul(f: Function) -> Sequence[Name]:
    a_zero, b_zero = (f.cast(f.input(index), I32) if f.site.has(index) else "" for index in (2, 3))
    a_zero = _rows(f, a_zero, 2, 0) if a_zero else ""
    return [f("MatMul", _centred(f, f.input(0), a_zero), _centred(f, f.input(1), b_zero))]


def _quantised_matmul(f: Function) -> Sequence[Name]:
    # Products of float8 are exact in float32, those of integers in int32; sums of integers wrap.
    kind = I32 if all(f.site.dtype(index).name in INTEGERS for index in (0, 3)) else F64
    a_zero, a_scale = (_rows(f, f.cast(f.input(at), t), at, 0) for at, t in ((2, kind), (1, F64)))
    a, b = _centred(f, f.input(0), a_zero, kind), _centred(f, f.input(3), f.cast(f.input(5), kind), kind)
    scales = f("Div", f("Mul", a_scale, f.cast(f.input(4), F64)), _single(f, 6))
    product = f("Mul", f.cast(f("MatMul", a, b), F64), scales)
    return [saturated(f, product, _single(f, 7), f.site.dtype(7))]


def _single(f: Function, index: int) -> Name:
    return f.reshape(f.cast(f.input(index), F64))


EXACT = "Sums of integers are exact, and wrap around beyond 32 bits."
SCALED = "The sum is scaled in float64, rounded to nearest, ties to even; then the zero point is added."
WEAK = {"x": "integers have no gradient", "A": "integers have no gradient", "a": "integers have no gradient"}
define(
    "MatMulInteger", _matmul_integer, function=written(_int_matmul), numerics=(EXACT,),
    formula="Y = (A − a_zero_point) · (B − b_zero_point)", shapes="As MatMul's.",
    kernels=(("matmul.int32", "always"),), not_differentiable={"A": WEAK["A"], "B": WEAK["A"]},
)  # fmt: skip
define(
    "QLinearMatMul", _qlinear_matmul, function=written(_quantised_matmul), numerics=(EXACT, SCALED),
    shapes="As MatMul's.",
    formula="y = saturate(round((a − a_zero_point) · (b − b_zero_point) · a_scale · b_scale / y_scale) + "
    "y_zero_point)", kernels=(("matmul.int32", "integers"), ("matmul.float64", "float8")),
    not_differentiable={"a": WEAK["a"], "b": WEAK["a"]},
)  # fmt: skip


# Convolutions


def _conv_integer(site: Site) -> Sequence[Made]:
    (made,) = _part(conv._conv, site, (0, 1))
    _one(site, 2)
    _one(site, 3, site.shape(1)[0] if site.rank(1) else None)
    assert made is None or isinstance(made, tuple)
    return [made and ValueType(I32, made)]


def _qlinear_conv(site: Site) -> Sequence[Made]:
    (made,) = _part(conv._conv, site, (0, 3, 8))
    filters = site.shape(3)[0] if site.rank(3) else None
    for index, dim in ((1, None), (2, None), (4, filters), (5, filters), (6, None), (7, None)):
        _one(site, index, dim)
    assert made is None or isinstance(made, tuple)
    return [made and ValueType(site.dtype(7), made)]


def _filters(f: Function, x: Name, index: int, before: int) -> Name:
    """Numbers for each filter, or one, where the filters' axis is the one behind so many."""
    count = prod(f.site.sizes(index))
    return f.reshape(x, *[1] * before, count, *[1] * (len(f.site.sizes(0)) - before - 1))


def _sums(f: Function, w: int, x_zero: int, w_zero: int) -> Name:
    """A convolution of integers, as numbers of a float type that holds all its sums exactly."""
    kind = F32 if prod(f.site.sizes(w)[1:]) * 255**2 <= 2**24 else F64
    zeros = [f.cast(f.input(at), kind) if f.site.has(at) else "" for at in (x_zero, w_zero)]
    x = _centred(f, f.input(0), zeros[0] and f.reshape(zeros[0]), kind)
    filters = _centred(f, f.input(w), zeros[1] and _filters(f, zeros[1], w_zero, 0), kind)
    given = {key: value for key, value in f.site.attributes.items() if value is not None}
    return f("Conv", x, filters, **given)


def _int_conv(f: Function) -> Sequence[Name]:
    from assay.tensor.dtype import I64

    return [f.cast(f.cast(_sums(f, 1, 2, 3), I64), I32)]


def _quantised_conv(f: Function) -> Sequence[Name]:
    sums = f.cast(_sums(f, 3, 2, 5), F64)
    if f.site.has(8):
        sums = f("Add", sums, _filters(f, f.cast(f.input(8), F64), 8, 1))
    scales = f("Mul", _single(f, 1), _filters(f, f.cast(f.input(4), F64), 4, 1))
    scaled = f("Mul", sums, f("Div", scales, _single(f, 6)))
    return [saturated(f, scaled, _single(f, 7), f.site.dtype(7))]


INSIDE = (
    "conv.float32", "where the sums of one filter stay below 2²⁴, exactly"
), ("conv.float64", "always, exactly")  # fmt: skip
define(
    "ConvInteger", _conv_integer, function=written(_int_conv), kernels=INSIDE, numerics=(EXACT,),
    shapes="As Conv's.",
    formula="y = Conv(x − x_zero_point, w − w_zero_point)", ranges={**RANGES, "group": POSITIVE},
    not_differentiable={"x": WEAK["x"], "w": WEAK["x"]},
)  # fmt: skip
define(
    "QLinearConv", _qlinear_conv, function=written(_quantised_conv), kernels=INSIDE, numerics=(SCALED,),
    formula="y = saturate(round((Conv(x − x_zero_point, w − w_zero_point) + B) · x_scale · w_scale / "
    "y_scale) + "
    "y_zero_point)", shapes="As Conv's.", ranges={**RANGES, "group": POSITIVE},
    not_differentiable={"x": WEAK["x"], "w": WEAK["x"]},
)  # fmt: skip
