"""Reductions, and what is made of them: extremes' places, softmax, running sums, the greatest of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import cast

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.kernels.strides import KINDS
from assay.ops.operator import BITWISE, Exactness
from assay.ops.standard.compose import Composer
from assay.ops.standard.definition import AXIS, FLAG
from assay.ops.standard.emit import Emitter
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.pointwise import same
from assay.ops.standard.registry import define
from assay.ops.standard.shape import axes_of
from assay.ops.standard.site import Made, Numbers, Shape, Site
from assay.tensor.dtype import F32, F64, I64, DType
from assay.tensor.narrow import numpy_of

ORDER = "Sums are in 16 lanes (lane = place among the reduced elements mod 16), which one fixed tree folds."
SUMS = Exactness("ulp", "N / 16 + 6", "N / 16 roundings in a lane, 4 in the tree; of the magnitudes' sum")


def reduced_axes(site: Site) -> list[int] | None:
    """The axes that are reduced; None where they aren't known."""
    rank = site.rank(0)
    if site.has(1) and site.type(1).sizes != (0,):
        return axes_of(site, 1, rank)
    return [] if site["noop_with_empty_axes"] else list(range(rank))


def kept(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    """A shape without the reduced axes, or with 1 in their place."""
    one = Dim.of(1)
    return tuple(one if axis in axes else dim for axis, dim in enumerate(shape) if keep or axis not in axes)


def _reduce(site: Site) -> Sequence[Made]:
    axes = reduced_axes(site)
    if axes is None:
        return [site.open_shape(site.rank(0) if site["keepdims"] else None)]
    return [kept(site.shape(0), axes, bool(site["keepdims"]))]


def neutral(name: str, dtype: DType) -> float | int:
    """What no elements reduce to."""
    if name not in ("max", "min"):
        return 1 if name == "prod" else 0
    if dtype.kind == "float":
        return -np.inf if name == "max" else np.inf
    numpy = numpy_of(dtype)
    if numpy == np.bool_:
        return name == "min"
    info = np.iinfo(cast("np.dtype[np.integer]", numpy))
    return int(info.min if name == "max" else info.max)


def _lower(name: str, site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    rooted = name == "l2" and site.dtype(0).kind != "float"
    x, axes = composer.input(0, F64 if rooted else None), reduced_axes(site)
    assert axes is not None
    y = composer.output(x.kind.dtype)
    start = neutral(name, site.dtype(0))
    if name == "log_sum_exp":
        top = composer.reduce("max", x, axes, -np.inf)
        info = np.finfo(cast("np.dtype[np.floating]", x.kind.dtype.numpy))
        finite = composer.map("min", composer.map("max", top, float(info.min)), float(info.max))
        powers = composer.map("exp", composer.map("sub", x, finite))
        logs = composer.map("log", composer.reduce("sum", powers, axes))
        composer.map("add", logs, finite, to=y)
    elif name in ("l2", "log_sum"):
        sums = composer.reduce("sum_square" if name == "l2" else "sum", x, axes, start)
        composer.map("sqrt" if name == "l2" else "log", sums, to=y)
    else:
        composer.reduce(name, x, axes, start, to=y)


def _numpy(
    name: str, data: Numbers, axes: Numbers | None, keepdims: int, noop_with_empty_axes: int
) -> Numbers:
    every = () if noop_with_empty_axes else tuple(range(data.ndim))
    which = tuple(map(int, axes)) if axes is not None and axes.size else every
    x = data.astype(np.float64) if data.dtype.kind not in "iub" else data
    keep, whole = bool(keepdims), data.dtype if data.dtype.kind in "iu" else None
    made = {
        "sum": lambda: np.sum(x, which, whole, keepdims=keep),
        "mean": lambda: np.mean(x, which, keepdims=keep),
        "prod": lambda: np.prod(x, which, whole, keepdims=keep),
        "max": lambda: np.max(x, which, keepdims=keep, initial=neutral("max", _dtype(data))),
        "min": lambda: np.min(x, which, keepdims=keep, initial=neutral("min", _dtype(data))),
        "sum_square": lambda: np.sum(x * x, which, keepdims=keep),
        "l1": lambda: np.sum(np.abs(x), which, keepdims=keep),
        "l2": lambda: np.sqrt(np.sum(x * x, which, keepdims=keep)),
        "log_sum": lambda: np.log(np.sum(x, which, keepdims=keep)),
        "log_sum_exp": lambda: np.log(np.sum(np.exp(x), which, keepdims=keep)),
    }
    return np.asarray(cast("dict[str, Callable[[], Numbers]]", made)[name](), data.dtype)


def _dtype(data: Numbers) -> DType:
    from assay.tensor.narrow import dtype_of

    found = dtype_of(data.dtype)
    assert found
    return found


for _op, _name, _formula, _exactness in (
    ("ReduceSum", "sum", "reduced = Σ data", SUMS), ("ReduceMean", "mean", "reduced = Σ data / N", SUMS),
    ("ReduceProd", "prod", "reduced = Π data", SUMS), ("ReduceMax", "max", "reduced = max data", BITWISE),
    ("ReduceMin", "min", "reduced = min data", BITWISE),
    ("ReduceSumSquare", "sum_square", "reduced = Σ data²", SUMS),
    ("ReduceL1", "l1", "reduced = Σ |data|", SUMS), ("ReduceL2", "l2", "reduced = √Σ data²", SUMS),
    ("ReduceLogSum", "log_sum", "reduced = ln Σ data", SUMS),
    ("ReduceLogSumExp", "log_sum_exp", "reduced = ln Σ e^(data − m) + m, m = max data", SUMS),
):  # fmt: skip
    define(
        _op, _reduce, summary=f"{_op} over some axes.", formula=_formula,
        shapes="data's with 1 in place of the axes, or without them where keepdims is 0.",
        ranges={"keepdims": FLAG, "noop_with_empty_axes": FLAG},
        reference=partial(_numpy, _name), lower=partial(_lower, _name), exactness=_exactness,
        numerics=(ORDER,), kernels=(("reduce.float32, .float64 or .integer", "always"),),
    )  # fmt: skip


def _arg(site: Site) -> Sequence[Made]:
    shape = kept(site.shape(0), [site.integer("axis")], bool(site["keepdims"]))
    return [ValueType(I64, shape)]


def _lower_arg(least: int, site: Site, emitter: Emitter) -> None:
    x, dtype = emitter.widened(0)
    sizes, axis = site.sizes(0), site.integer("axis")
    outer, inner = prod(sizes[:axis]), prod(sizes[axis + 1 :])
    y, last = emitter.output(), site.integer("select_last_index")
    words = [x, y, KINDS[dtype.name], outer, sizes[axis], inner, least, last]
    emitter.call("order.arg", words, writes=[y])


def _numpy_arg(least: int, data: Numbers, axis: int, keepdims: int, select_last_index: int) -> Numbers:
    turned = np.flip(data, axis) if select_last_index else data
    found = np.expand_dims((np.argmin if least else np.argmax)(turned, axis), axis)
    found = data.shape[axis] - 1 - found if select_last_index else found
    return np.asarray(found if keepdims else np.squeeze(found, axis), np.int64)


for _op, _least in (("ArgMax", 0), ("ArgMin", 1)):
    define(
        _op, _arg, summary=f"The place of the {'least' if _least else 'greatest'} element along an axis.",
        formula=f"reduced = arg{'min' if _least else 'max'}_i data[…, i, …]; the first of equal ones, "
        f"or the last",
        shapes="data's with 1 at axis, or without it.", reference=partial(_numpy_arg, _least),
        ranges={"axis": AXIS, "keepdims": FLAG, "select_last_index": FLAG},
        lower=partial(_lower_arg, _least), kernels=(("order.arg", "always"),),
        not_differentiable={"data": "places are integers"},
    )  # fmt: skip


def _softmax_lower(log: bool, site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, axis = composer.input(0), site.integer("axis")
    y = composer.output(x.kind.dtype)
    if x.kind.dtype is F32 and axis == len(x.sizes) - 1 and not log:
        composer.call("softmax.float32", [x, y, prod(x.sizes[:-1]), x.sizes[-1]], writes=[y])
        return
    less = composer.map("sub", x, composer.reduce("max", x, [axis], -np.inf))
    powers = composer.map("exp", less)
    sums = composer.reduce("sum", powers, [axis])
    if log:
        composer.map("sub", less, composer.map("log", sums), to=y)
    else:
        composer.map("div", powers, sums, to=y)


def _numpy_softmax(log: bool, input: Numbers, axis: int) -> Numbers:
    x = input.astype(np.float64)
    d = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    sums = np.sum(np.exp(d), axis, keepdims=True)
    return np.asarray(d - np.log(sums) if log else np.exp(d) / sums, input.dtype)


def _hardmax(input: Numbers, axis: int) -> Numbers:
    y = np.zeros_like(input)
    if y.size:
        np.put_along_axis(y, np.expand_dims(np.argmax(input, axis), axis), 1, axis)
    return y


define(
    "Softmax", same, summary="Exponentials along an axis over their sum.",
    formula="output = e^(input − m) / Σ e^(input − m) along axis, m the greatest of them",
    shapes="The input's.", ranges={"axis": AXIS}, reference=partial(_numpy_softmax, False),
    lower=partial(_softmax_lower, False), numerics=("The greatest element is taken away first.", ORDER),
    exactness=Exactness("ulp", "N / 16 + 12", "a sum of exponentials within 1 ulp each, and a division"),
    kernels=(
        ("softmax.float32", "float32 and halves, along the last axis"),
        ("reduce.<type> and elementwise.chain", "always"),
    ),
)  # fmt: skip
define(
    "LogSoftmax", same, summary="The logarithm of Softmax.",
    formula="output = input − m − ln Σ e^(input − m) along axis, m the greatest of them",
    shapes="The input's.", ranges={"axis": AXIS}, reference=partial(_numpy_softmax, True),
    lower=partial(_softmax_lower, True), numerics=("The greatest element is taken away first.", ORDER),
    exactness=Exactness("ulp", "N / 16 + 12",
    "of the greatest magnitude: a sum of exponentials, a logarithm"),
    kernels=(("reduce.<type> and elementwise.chain", "always"),),
)  # fmt: skip


def _first_greatest(f: Function) -> Sequence[Name]:
    axis, sizes = f.site.integer("axis"), f.site.sizes(0)
    places = f.number(np.arange(sizes[axis]).reshape([-1 if at == axis else 1 for at in range(len(sizes))]))
    found = f("Equal", places, f("ArgMax", f.input(0), axis=axis, keepdims=1))
    return [f.cast(found, f.site.dtype(0))]


define(
    "Hardmax", same, summary="1 at the first greatest element along an axis, 0 elsewhere.",
    formula="output[i] = (i = argmax input)", shapes="The input's.", ranges={"axis": AXIS},
    reference=_hardmax, function=written(_first_greatest), kernels=(("order.arg and elementwise.chain",
    "always"),),
    not_differentiable={"input": "a choice has no slope"},
)  # fmt: skip


def per_channel(site: Site) -> Sequence[Made]:
    """The first input's batch and channels, with 1 in place of the other axes."""
    if not site.want_rank(0, 2, -1):
        return [None]
    return [(*site.shape(0)[:2], *[Dim.of(1)] * (site.rank(0) - 2))]


def _lower_global(name: str, site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x = composer.input(0)
    axes = range(2, len(x.sizes))
    composer.reduce(name, x, axes, neutral(name, site.dtype(0)), to=composer.output(x.kind.dtype))


for _op, _name in (("GlobalAveragePool", "mean"), ("GlobalMaxPool", "max")):
    define(
        _op, per_channel, summary=f"The {_name} of each channel.", formula=f"Y[n, c] = {_name} of X[n, c, …]",
        shapes="[N, C, 1, …]", lower=partial(_lower_global, _name),
        reference=lambda X, name=_name: _numpy(name, X, np.arange(2, X.ndim), 1, 0),
        exactness=SUMS if _name == "mean" else BITWISE, numerics=(ORDER,),
        kernels=(("reduce.float32 or .float64", "always"),),
    )  # fmt: skip
