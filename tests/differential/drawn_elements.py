"""Operators on single elements, reductions, products and windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import helper

from differential.draw import Bound, Call, Draw, Known, most
from differential.families import family, vector

# Element by element


@family(
    "Add Sub Mul And Or Xor BitwiseAnd BitwiseOr BitwiseXor Equal Less LessOrEqual Greater GreaterOrEqual"
)
def binary(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape()
    pair = [d.data(shape, dtype), d.data(d.stretch(shape), dtype)]
    return Call(pair[:: d.pick(1, -1)] if d.op not in ("Sub",) else pair)


@family("Div Mod")
def divided(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape()
    floats = dtype.kind == "f"
    other = d.data(d.stretch(shape), dtype) if floats else d.data(d.stretch(shape), dtype, low=1, high=20)
    if dtype.kind == "i":
        other = other * np.where(d.random.random(other.shape) < 0.3, -1, 1).astype(dtype)
        other = np.asarray(np.where(other == -1, 1, other)).astype(dtype)  # the least by −1 has no quotient
    attributes = {} if d.op == "Div" else {"fmod": 1 if floats else d.pick(0, 1)}
    return Call([d.data(shape, dtype), other], attributes)


@family("Min Max Sum Mean")
def several(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape()
    values = [
        d.data(d.stretch(shape) if n and d.version >= 8 else shape, dtype) for n in range(d.integer(1, 4))
    ]
    total = d.op in ("Sum", "Mean")
    return Call(values, bound=Bound(8 if total else 0, most(*values) if total else 0, True))


@family("Where")
def where(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape()
    values = [d.data(d.stretch(shape), dtype) for _ in "XY"]
    return Call([d.data(d.stretch(shape), np.bool_), *values], bound=Bound(zeros=True))


@family("Pow")
def power(d: Draw) -> Call:
    shape = d.shape()
    base, other = d.type("T"), d.type("T1" if d.version >= 12 else "T")
    if d.version < 12:
        other = base
    y = d.data(d.stretch(shape), other, low=0 if base.kind != "f" else -4, high=4)
    if base.kind != "f":  # what an integer type can't hold is anything
        x, y = d.data(shape, base, low=1, high=9), np.abs(y)
    else:
        x = d.data(shape, base)
    return Call([x, y], bound=Bound(8))


@family("BitShift")
def shift(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape()
    many = d.data(d.stretch(shape), dtype, low=0, high=8 * dtype.itemsize - 1)
    return Call([d.data(shape, dtype), many], {"direction": d.pick("LEFT", "RIGHT")})


@family("Abs Neg Sign Floor Ceil Round Sqrt Reciprocal Relu Not BitwiseNot IsNaN Identity")
def unary(d: Draw) -> Call:
    dtype = d.type("X" if d.op == "Sqrt_" else "T")
    if d.op == "IsNaN":
        dtype = d.type("T1")
    return Call(
        [d.data(d.shape(), dtype)],
        bound=Bound(1 if d.op in ("Reciprocal", "Sqrt") else 0, zeros=d.op in ("Relu", "Sign")),
    )


@family("IsInf")
def infinite(d: Draw) -> Call:
    attributes = {f"detect_{side}": d.pick(0, 1) for side in ("positive", "negative") if d.chance(0.5)}
    return Call([d.data(d.shape(), d.type("T1"))], attributes)


ABSOLUTE = "Tanh Erf Sigmoid Sin Cos Softplus Log Asinh Acosh Atanh Tan Acos Mish HardSwish"
"""Functions of which ONNX Runtime's kernels are off by ulps of 1, not of the result."""


@family("Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid Softplus Erf"
        " Softsign Mish HardSwish")  # fmt: skip
def function(d: Draw) -> Call:
    x = d.data(d.shape(), d.type("T", "f"), d.pick(0.3, 3.0, 30.0))
    return Call([x], bound=Bound(16, d.op in ABSOLUTE.split()))


PARAMETERS = {
    "LeakyRelu": {"alpha": (-1, 1)}, "Elu": {"alpha": (-1, 3)}, "Celu": {"alpha": (0.5, 3)},
    "Selu": {"alpha": (0.5, 2), "gamma": (1.01, 2)}, "ThresholdedRelu": {"alpha": (-2, 2)},
    "HardSigmoid": {"alpha": (-0.5, 0.5), "beta": (-1, 1)}, "Swish": {"alpha": (-2, 2)},
    "Shrink": {"lambd": (-1, 2), "bias": (-1, 1)},
}  # fmt: skip


@family(" ".join(PARAMETERS))
def parametric(d: Draw) -> Call:
    ranges = PARAMETERS[d.op]
    attributes = {
        key: float(np.float32(d.random.uniform(*ends))) for key, ends in ranges.items() if d.chance(0.6)
    }
    x = d.data(d.shape(), d.type("T"))
    return Call([x], attributes, bound=Bound(16, max(1.0, most(x)) if d.op != "LeakyRelu" else 0, True))


@family("Gelu")
def gelu(d: Draw) -> Call:
    x = d.data(d.shape(), d.type())
    return Call([x], {"approximate": d.pick("none", "tanh")}, bound=Bound(16, 1, True))


@family("PRelu")
def slope(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape(1)
    slope = (1,) * (len(shape) - 1) if d.chance(0.3) else d.stretch(shape)
    return Call([d.data(shape, dtype), d.data(slope, dtype)], bound=Bound(zeros=True))


@family("Clip")
def clip(d: Draw) -> Call:
    dtype = d.type()
    low, high = sorted(d.data((2,), dtype, low=0, high=5))
    if dtype.kind == "f" and d.chance(0.5):
        low = dtype.type(-low)
    if d.version < 11:
        bounds = {"min": float(low), "max": float(high)}
        return Call(
            [d.data(d.shape(), dtype)],
            {key: bounds[key] for key in bounds if d.chance(0.7)},
            bound=Bound(zeros=True),
        )
    ends = [Known(np.array(each, dtype)) if d.chance(0.7) else None for each in (low, high)]
    return Call([d.data(d.shape(), dtype), *ends], bound=Bound(zeros=True))


@family("Cast CastLike")
def cast(d: Draw) -> Call:
    source, target = d.type("T1"), d.type("T2", "fiub")
    x = d.data(d.shape(), source, d.pick(3.0, 300.0))
    if source.kind == "f" and target.kind in "iu":  # beyond the type's ends nothing is said
        ends = np.iinfo(target)
        x = d.data(x.shape, source, low=max(ends.min, -1000), high=min(ends.max, 1000))
    if d.op == "CastLike":
        return Call([x, np.zeros((1,), target)])
    return Call([x], {"to": helper.np_dtype_to_tensor_dtype(target)})


# Reductions


@family("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
        " ReduceSumSquare")  # fmt: skip
def reduction(d: Draw) -> Call:
    dtype, shape = d.type(), d.shape(0 if d.version >= 13 else 1)
    positive = d.op == "ReduceLogSum"
    x = d.data(shape, dtype, low=0 if positive else -3 if dtype.kind in "if" else 0, high=3)
    if (dtype.kind == "f" and not positive and d.special) or d.op in ("ReduceMax", "ReduceMin"):
        x = d.data(shape, dtype)
    attributes: dict[str, object] = {"keepdims": d.pick(0, 1)} if d.chance(0.7) else {}
    axes, inputs = d.axes(len(shape), 1), [x]
    if d.version >= (13 if d.op == "ReduceSum" else 18):
        if d.chance(0.8):
            inputs = [x, vector(axes if d.chance(0.9) else [])]
        if d.chance(0.4):
            attributes["noop_with_empty_axes"] = d.pick(0, 1)
    elif axes and d.chance(0.8):
        attributes["axes"] = axes
    count = max(1, prod(shape))
    size = {"ReduceSum": count * most(x), "ReduceSumSquare": 0, "ReduceMean": most(x)}.get(d.op, 0)
    if d.op in ("ReduceLogSum", "ReduceLogSumExp"):
        size = 1 + most(x)
    exact = d.op in ("ReduceMax", "ReduceMin")
    return Call(inputs, attributes, bound=Bound() if exact else Bound(8 + count / 4, size, True))


@family("ArgMax ArgMin")
def place(d: Draw) -> Call:
    shape = d.shape(1, 4, 1)
    attributes: dict[str, object] = {
        "axis": d.axis(len(shape)) if d.version >= 11 else d.integer(0, len(shape) - 1)
    }
    if d.chance(0.5):
        attributes["keepdims"] = d.pick(0, 1)
    if d.version >= 12 and d.chance(0.6):
        attributes["select_last_index"] = d.pick(0, 1)
    return Call([np.round(d.data(shape, d.type()))], attributes)


@family("Softmax LogSoftmax Hardmax")
def softmax(d: Draw) -> Call:
    shape = d.shape(1)
    rank = len(shape)
    x = d.data(shape, d.type("T", "f"), d.pick(1.0, 20.0))
    attributes = (
        {"axis": d.axis(rank) if d.version >= 11 else d.integer(0, rank - 1)} if d.chance(0.8) else {}
    )
    if not attributes and d.version < 13 and rank < 2:
        attributes = {"axis": 0}
    exact = d.op == "Hardmax"
    least = most(x) if d.op == "LogSoftmax" else 1e-30  # ONNX Runtime's e^x has no subnormals
    return Call([x], attributes, bound=Bound() if exact else Bound(32, least))


# Products


@family("MatMul")
def matmul(d: Draw) -> Call:
    dtype = d.type()
    n, k, m = d.size(), d.size(), d.size()
    batch = d.shape(0, 2)
    left = (k,) if d.chance(0.15) else (*d.stretch(batch), n, k)
    right = (k,) if d.chance(0.15) else (*batch, k, m)
    a, b = (
        d.data(s, dtype, low=-4, high=4)
        if dtype.kind == "i"
        else d.data(s, dtype, low=0 if dtype.kind == "u" else None, high=4 if dtype.kind == "u" else None)
        for s in (left, right)
    )
    return Call([a, Known(b) if d.chance(0.5) else b], bound=Bound(4 + k, k * most(a) * most(b), True))


@family("Gemm")
def gemm(d: Draw) -> Call:
    dtype = d.type("T")
    n, k, m = d.size(), d.size(), d.size()
    transposed = d.pick(0, 1), d.pick(0, 1)
    a = d.data((k, n) if transposed[0] else (n, k), dtype, 3.0)
    b = d.data((m, k) if transposed[1] else (k, m), dtype, 3.0)
    shape = d.pick((n, m), (m,), (1, m), (n, 1), (), (1,), (1, 1))
    c = d.data(shape, dtype) if d.version < 11 or d.chance(0.8) else None
    attributes: dict[str, object] = {"transA": transposed[0], "transB": transposed[1]}
    attributes |= {key: float(d.pick(0.0, 1.0, 0.5, -1.5)) for key in ("alpha", "beta") if d.chance(0.5)}
    if d.version < 7 and c is not None and c.ndim < 2:
        attributes["broadcast"] = 1
    return Call(
        [a, Known(b), c], attributes, bound=Bound(8 + k, 1.5 * (k * most(a) * most(b) + most(c)), True)
    )


def window(
    d: Draw, dims: int, sizes: Sequence[int], dilated: bool = True
) -> tuple[list[int], dict[str, object]]:
    """A kernel's shape, and the attributes of a window that fits into these sizes when padded."""
    kernel = [d.integer(1, min(3, max(1, size))) for size in sizes]
    attributes: dict[str, object] = {}
    dilations = [1] * dims
    if dilated and d.chance(0.4):
        dilations = [d.integer(1, 2) for _ in range(dims)]
        attributes["dilations"] = dilations
    if d.chance(0.6):
        attributes["strides"] = [d.integer(1, 3) for _ in range(dims)]
    if d.chance(0.3):
        attributes["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif d.chance(0.6):
        attributes["pads"] = [d.integer(0, size - 1) for size in (*kernel, *kernel)]
    return kernel, attributes


@family("Conv ConvInteger")
def conv(d: Draw) -> Call:
    dims, groups = d.integer(1, 3), d.pick(1, 1, 2, 3)
    sizes = [d.integer(3, 8) for _ in range(dims)]
    kernel, attributes = window(d, dims, sizes)
    inner, outer, batch = d.integer(1, 3), d.integer(1, 3) * groups, d.pick(0, 1, 1, 2, 3)
    attributes |= {"group": groups} if groups > 1 else {}
    attributes |= {"kernel_shape": kernel} if d.chance(0.5) else {}
    shapes = (batch, inner * groups, *sizes), (outer, inner, *kernel)
    if d.op == "ConvInteger":
        x, w = (d.data(shape, d.type(f"T{at}"), low=0, high=20) for at, shape in enumerate(shapes, 1))
        zero = np.array(d.integer(0, 9), x.dtype) if d.chance(0.6) else None
        return Call([x, Known(w), zero], attributes)
    dtype = d.type()
    x, w = (d.data(shape, dtype) for shape in shapes)
    b = Known(d.data((outer,), dtype)) if d.chance(0.6) else None
    terms = inner * prod(kernel)
    return Call(
        [x, Known(w), b], attributes, bound=Bound(4 + terms, terms * most(x) * most(w) + most(b), True)
    )


@family("ConvTranspose")
def conv_transpose(d: Draw) -> Call:
    dims, groups, dtype = d.integer(1, 3), d.pick(1, 1, 2), d.type()
    sizes = [d.integer(2, 6) for _ in range(dims)]
    kernel, attributes = window(d, dims, sizes)
    strides = attributes.get("strides", [1] * dims)
    if "auto_pad" in attributes and d.chance(0.5):
        attributes["output_shape"] = [a * b for a, b in zip(sizes, strides, strict=True)]
    elif d.chance(0.3):
        attributes["output_padding"] = [d.integer(0, each - 1) for each in strides]
    inner, outer, batch = d.integer(1, 3) * groups, d.integer(1, 3), d.pick(1, 1, 2)
    attributes |= {"group": groups} if groups > 1 else {}
    x, w = d.data((batch, inner, *sizes), dtype), d.data((inner, outer, *kernel), dtype)
    b = Known(d.data((outer * groups,), dtype)) if d.chance(0.6) else None
    terms = inner * prod(kernel)
    return Call(
        [x, Known(w), b], attributes, bound=Bound(4 + terms, terms * most(x) * most(w) + most(b), True)
    )


@family("MaxPool AveragePool LpPool")
def pool(d: Draw) -> Call:
    dims = d.integer(1, 3)
    sizes = [d.integer(3, 8) for _ in range(dims)]
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[d.op]
    kernel, attributes = window(d, dims, sizes, d.version >= since)
    attributes["kernel_shape"] = kernel
    dtype = d.type("T")
    if d.version >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[d.op] and d.chance(0.4):
        attributes["ceil_mode"] = 1
    if d.op == "LpPool" and d.chance(0.6):
        attributes["p"] = d.integer(1, 3)
    if d.op == "AveragePool" and d.version >= 7 and d.chance(0.5):
        attributes["count_include_pad"] = d.pick(0, 1)
    outputs = 2 if d.op == "MaxPool" and d.version >= 8 and d.chance(0.5) else 1
    if outputs == 2 and d.chance(0.4):
        attributes["storage_order"] = 1
    x = d.data((d.pick(1, 2), d.integer(1, 3), *sizes), dtype)
    exact = d.op == "MaxPool"
    return Call(
        [x], attributes, outputs, Bound(zeros=True) if exact else Bound(16 + prod(kernel), most(x), True)
    )


@family("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def whole_pool(d: Draw) -> Call:
    x = d.data((d.size(), d.size(), *d.shape(1, 3, 1)), d.type())
    attributes = {"p": d.integer(1, 3)} if d.op == "GlobalLpPool" and d.chance(0.6) else {}
    exact = d.op == "GlobalMaxPool"
    return Call([x], attributes, bound=Bound(zeros=True) if exact else Bound(16 + x.size / 4, most(x), True))


@family("MaxUnpool")
def unpool(d: Draw) -> Call:
    sizes = [d.integer(1, 4) for _ in range(d.integer(1, 3))]
    shape = (d.pick(1, 2), d.integer(1, 2), *sizes)
    whole = [2 * size for size in sizes]
    indices = d.random.permutation(prod(shape[:2]) * prod(whole))[: prod(shape)].reshape(shape)
    attributes = {"kernel_shape": [2] * len(sizes), "strides": [2] * len(sizes)}
    return Call([d.data(shape, np.float32), indices.astype(np.int64)], attributes)
