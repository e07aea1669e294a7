"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.operator import Exactness
from assay.ops.standard.compose import Composer, Value
from assay.ops.standard.definition import AXIS, FLAG, POSITIVE, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.pointwise import same
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Numbers, Site
from assay.tensor.dtype import BOOL, F32

ORDER = "Sums are in 16 lanes (lane = place in the row mod 16), which one fixed tree folds; squares by fma."
ROWS = Exactness(
    "ulp",
    "N / 16 + 16",
    "of the greatest |x| over the deviation, times |scale|, and |bias|: the mean's roundings stay",
)


def _channels(site: Site, *which: int) -> Dim:
    """Hold vectors against the channels of the first input."""
    channels = site.shape(0)[1] if site.rank(0) > 1 else Dim.of(1)
    for index in which:
        site.match(index, channels, what="channels")
    return channels


def _batch(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 1, -1):
        return [None]
    channels = _channels(site, 1, 2, 3, 4)
    if len(site.node.outputs) > 1:
        site.require(bool(site["training_mode"]), "statistics are outputs in training only",
        want="one output, or "
                     "training_mode = 1", got=f"{len(site.node.outputs)} outputs")  # fmt: skip
    return [site.shape(0), *[ValueType(site.dtype(3), (channels,))] * (len(site.node.outputs) - 1)]


def _per_channel(value: Value, rank: int) -> Value:
    return value.shaped(value.sizes[0], *[1] * max(0, rank - 2))


def _lower_batch(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, scale, bias, mean, variance = (composer.input(index) for index in range(5))
    rank = len(x.sizes)
    if site["training_mode"]:
        axes = [axis for axis in range(rank) if axis != 1]
        count = (x.sizes[1] if rank > 1 else 1,)
        current = composer.reduce("mean", x, axes).shaped(*count)
        apart = composer.map("sub", x, _per_channel(current, rank))
        spread = composer.reduce("mean", composer.map("mul", apart, apart), axes).shaped(*count)
        momentum = site.number("momentum")
        for index, before, now in ((1, mean, current), (2, variance, spread)):
            if index < len(site.node.outputs) and site.node.outputs[index]:
                old, new = composer.map("mul", before, momentum), composer.map("mul", now, 1 - momentum)
                composer.map("add", old, new, to=composer.output(before.kind.dtype, index))
        mean, variance = current, spread
    root = composer.map("sqrt", composer.map("add", variance, site.number("epsilon")))
    factor = composer.map("div", scale, root)
    shift = composer.map("sub", bias, composer.map("mul", mean, factor))
    product = composer.map("mul", x, _per_channel(factor, rank))
    composer.map("add", product, _per_channel(shift, rank), to=composer.output(x.kind.dtype))


def _by_statistics(f: Function) -> Sequence[Name] | None:
    """With given statistics: what depends on them alone, then a product and a sum, which chains take in."""
    site, (x, scale, bias, mean, variance) = f.site, f.inputs
    dtype = site.dtype(0)
    if site["training_mode"] or any(site.dtype(index) != dtype for index in range(5)):
        return None
    factor = f("Div", scale, f("Sqrt", f("Add", variance, f.number(site.number("epsilon"), dtype))))
    shift = f("Sub", bias, f("Mul", mean, factor))
    shape = -1, *[1] * max(0, site.rank(0) - 2)
    return [f("Add", f("Mul", x, f.reshape(factor, *shape)), f.reshape(shift, *shape))]


def _numpy_batch(
    X: Numbers, scale: Numbers, B: Numbers, input_mean: Numbers, input_var: Numbers, epsilon: float,
    momentum: float, training_mode: int,
) -> tuple[Numbers, ...]:  # fmt: skip
    shape = (1, -1, *[1] * (X.ndim - 2)) if X.ndim > 1 else (1,)
    axes = tuple(axis for axis in range(X.ndim) if axis != 1)
    wide = X.astype(np.float64)
    mean, var = (wide.mean(axes), wide.var(axes)) if training_mode else (input_mean, input_var)
    y = (wide - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + epsilon) * scale.reshape(
        shape
    ) + B.reshape(shape)
    running = (input_mean * momentum + mean * (1 - momentum), input_var * momentum + var * (1 - momentum))
    return (y.astype(X.dtype), *(each.astype(input_mean.dtype) for each in running))


define(
    "BatchNormalization", _batch, summary="Each channel moved and scaled by its statistics.",
    formula="Y = X · f + (B − mean · f) with f = scale / √(var + epsilon), for each channel",
    shapes="X's; the statistics [C].", reference=_numpy_batch, lower=_lower_batch,
    function=written(_by_statistics, sized=False), exactness=ROWS,
    ranges={"training_mode": FLAG},
    numerics=("f and B − mean · f are rounded, then the product with X, then the sum.",),
    kernels=(("elementwise.chain", "always; what depends on constants is computed once"),),
)  # fmt: skip


def _rows_rule(site: Site) -> Sequence[Made]:
    shape, axis = site.shape(0), site.integer("axis")
    for index in (1, 2):
        if site.has(index) and site.want_rank(index, 0, len(shape)):
            site.stretches(index, site.shape(index), shape, "doesn't fit the rows")
    small = (*shape[:axis], *[Dim.of(1)] * (len(shape) - axis))
    statistics = ValueType(F32 if site.definition.name == "LayerNormalization" else site.dtype(0), small)
    return [shape, *[statistics] * (len(site.node.outputs) - 1)]


def _lower_layer(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, axis = composer.input(0), site.integer("axis")
    sizes = x.sizes
    n, rows = prod(sizes[axis:]), prod(sizes[:axis])
    weights = [composer.input(index) if site.has(index) else None for index in (1, 2)]
    statistics = [
        composer.output(x.kind.dtype, index)
        if len(site.node.outputs) > index and site.node.outputs[index]
        else None
        for index in (1, 2)
    ]
    plain = all(w is None or prod(w.sizes) == n for w in weights) and x.kind.dtype is F32
    y = composer.output(x.kind.dtype)
    if plain:
        numbers = [rows, n, 1, 1 if any(weights) else n, site.number("epsilon")]
        composer.call("norm.standardise", [x, *weights, y, *statistics, *numbers], writes=[y, *statistics])
        return
    apart, root = _apart(composer, x, range(axis, len(sizes)), statistics[0])
    normal = composer.map("mul", apart, composer.map("reciprocal", root, to=statistics[1]))
    scale, bias = weights
    assert scale
    if bias:
        composer.map("add", composer.map("mul", normal, scale), bias, to=y)
    else:
        composer.map("mul", normal, scale, to=y)


def _apart(
    composer: Composer, x: Value, axes: Sequence[int], mean: Value | None = None
) -> tuple[Value, Value]:
    """How far numbers are from their mean over axes, and their deviation; `mean` is where that is written."""
    apart = composer.map("sub", x, composer.reduce("mean", x, axes, to=mean))
    spread = composer.reduce("mean", composer.map("mul", apart, apart), axes)
    return apart, composer.map("sqrt", composer.map("add", spread, composer.site.number("epsilon")))


def _numpy_layer(
    X: Numbers, Scale: Numbers, B: Numbers | None, axis: int, epsilon: float, stash_type: int
) -> tuple[Numbers, ...]:
    axes = tuple(range(axis, X.ndim))
    wide = X.astype(np.float64)
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    y = (wide - mean) * inverse * Scale
    return (y + (0 if B is None else B)).astype(X.dtype), mean.astype(np.float32), inverse.astype(np.float32)


define(
    "LayerNormalization", _rows_rule, summary="Rows moved and scaled by their own mean and deviation.",
    formula="Y = (X − Mean) · InvStdDev · Scale + B, InvStdDev = 1 / √(variance + epsilon), over the "
    "axes from axis",
    shapes="X's; the statistics with 1 from axis on.",
    ranges={"axis": AXIS, "stash_type": one_of(1, 10, 16, 11)},
    reference=_numpy_layer, lower=_lower_layer, exactness=ROWS, numerics=(ORDER,),
    kernels=(("norm.standardise", "float32 and halves, Scale and B of a row's size"),
             ("reduce.<type> and elementwise.chain", "always")),
)  # fmt: skip


def _lower_rms(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, scale = composer.input(0), composer.input(1)
    axes = range(site.integer("axis"), len(x.sizes))
    squares = composer.reduce("mean", composer.map("mul", x, x), axes)
    root = composer.map("sqrt", composer.map("add", squares, site.number("epsilon")))
    composer.map("mul", composer.map("div", x, root), scale, to=composer.output(x.kind.dtype))


def _numpy_rms(X: Numbers, scale: Numbers, axis: int, epsilon: float, stash_type: int) -> Numbers:
    wide = X.astype(np.float64)
    mean = np.mean(wide * wide, tuple(range(axis, X.ndim)), keepdims=True)
    return np.asarray(wide / np.sqrt(mean + epsilon) * scale).astype(X.dtype)


define(
    "RMSNormalization", _rows_rule, summary="Rows divided by their root mean square.",
    formula="Y = X / √(mean X² + epsilon) · scale, the mean over the axes from axis", shapes="X's.",
    ranges={"axis": AXIS}, reference=_numpy_rms, lower=_lower_rms, exactness=ROWS, numerics=(ORDER,),
    kernels=(("reduce.<type> and elementwise.chain", "always"),),
)  # fmt: skip


def _grouped(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 3 if site.definition.name == "InstanceNormalization" else 2, -1):
        return [None]
    groups = site.integer("num_groups") if "num_groups" in site.attributes else 1
    site.multiple(_channels(site, 1, 2), groups, "groups don't divide the channels", 0)
    return [site.shape(0)]


def _lower_grouped(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, scale, bias = (composer.input(index) for index in range(3))
    y = composer.output(x.kind.dtype)
    batch, channels, *rest = x.sizes
    groups = site.integer("num_groups") if "num_groups" in site.attributes else channels
    pixels = prod(rest)
    n = channels // max(groups, 1) * pixels
    if x.kind.dtype is F32:
        words = [x, scale, bias, y, 0, 0, batch * groups, n, groups, pixels, site.number("epsilon")]
        composer.call("norm.standardise", words, writes=[y])
        return
    rows = x.shaped(batch, groups, n)
    normal = composer.map("div", *_apart(composer, rows, [2])).shaped(batch, channels, pixels)
    scaled = composer.map("mul", normal, scale.shaped(channels, 1))
    composer.map("add", scaled, bias.shaped(channels, 1), to=Value(y.name, scaled.kind))


def _numpy_grouped(
    X: Numbers,
    scale: Numbers,
    bias: Numbers,
    epsilon: float,
    num_groups: int | None = None,
    stash_type: int = 1,
) -> Numbers:
    rows = X.astype(np.float64).reshape(X.shape[0], num_groups or X.shape[1], -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + epsilon)
    shape = (1, -1, *[1] * (X.ndim - 2))
    return np.asarray(normal.reshape(X.shape) * scale.reshape(shape) + bias.reshape(shape)).astype(X.dtype)


define(
    "InstanceNormalization", _grouped, summary="Each channel of each instance by its own mean and deviation.",
    formula="output = scale · (input − mean) / √(variance + epsilon) + B, over the axes from 2 on",
    shapes="The input's.", lower=_lower_grouped, exactness=ROWS, numerics=(ORDER,),
    reference=lambda input, scale, B, epsilon: _numpy_grouped(input, scale, B, epsilon),
    kernels=(("norm.standardise", "float32 and halves"), ("reduce.<type> and elementwise.chain", "always")),
)  # fmt: skip
define(
    "GroupNormalization", _grouped, summary="Groups of channels by their own mean and deviation.",
    formula="y = scale · (x − mean) / √(variance + epsilon) + bias, over each group of channels",
    shapes="X's.", ranges={"num_groups": POSITIVE}, reference=_numpy_grouped, lower=_lower_grouped,
    exactness=ROWS,
    numerics=(ORDER,),
    kernels=(("norm.standardise", "float32 and halves"), ("reduce.<type> and elementwise.chain", "always")),
)  # fmt: skip
define(
    "MeanVarianceNormalization", same, summary="Moved and scaled by mean and deviation over some axes.",
    formula="Y = (X − E X) / (√(E X² − (E X)²) + 1e-9)", shapes="X's.", expand=True, exactness=ROWS,
    kernels=(("the standard's function", "always"),),
)  # fmt: skip


def _lower_lp(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, axis = composer.input(0), site.integer("axis")
    if site["p"] == 1:
        size = composer.reduce("l1", x, [axis])
    else:
        size = composer.map("sqrt", composer.reduce("sum_square", x, [axis]))
    zero = composer.map("mul", size, 0.0)
    empty = Value(emitter.temporary(prod(size.sizes)).name, ValueType(BOOL, size.kind.shape))
    composer.map("equal", size, zero, to=empty)
    quotient = composer.map("div", x, size)
    where = [empty, composer.map("mul", x, 0.0), quotient]
    composer.map("where", *where, to=composer.output(x.kind.dtype))


def _numpy_lp(input: Numbers, axis: int, p: int) -> Numbers:
    wide = input.astype(np.float64)
    size = np.sum(np.abs(wide) ** p, axis, keepdims=True) ** (1 / p)
    return np.asarray(np.where(size == 0, 0, wide / np.where(size == 0, 1, size))).astype(input.dtype)


define(
    "LpNormalization", same, summary="Divided by the p-norm along an axis.",
    formula="output = input / (Σ |input|^p)^(1/p); 0 where that is 0", shapes="The input's.",
    ranges={"axis": AXIS, "p": one_of(1, 2)}, reference=_numpy_lp, lower=_lower_lp, exactness=ROWS,
    numerics=(ORDER,),
    kernels=(("reduce.<type> and elementwise.chain", "always"),),
)  # fmt: skip


def _lrn(X: Numbers, alpha: float, beta: float, bias: float, size: int) -> Numbers:
    wide = X.astype(np.float64) ** 2
    sums = np.zeros_like(wide)
    for c in range(X.shape[1]):
        sums[:, c] = wide[:, max(0, c - (size - 1) // 2) : c + -(-(size - 1) // 2) + 1].sum(1)
    return np.asarray(X / (bias + alpha / size * sums) ** beta).astype(X.dtype)


def _lower_lrn(site: Site, emitter: Emitter) -> None:
    composer = Composer(site, emitter)
    x, size = composer.input(0), site.integer("size")
    batch, channels, *rest = x.sizes
    most = max(channels - 1, 0)  # others are zeros
    before, after = min((size - 1) // 2, most), min(-(-(size - 1) // 2), most)
    squares = composer.map("mul", x, x)
    padded = composer.new(x.kind.dtype, batch, channels + before + after, *rest)
    composer.padded(squares, padded, 1, before)
    sums = composer.slid(padded, 1, 0, channels)
    for shift in range(1, before + after + 1):
        sums = composer.map("add", sums, composer.slid(padded, 1, shift, channels))
    scaled = composer.map("mul", sums, site.number("alpha") / size)
    power = composer.map("pow", composer.map("add", scaled, site.number("bias")), site.number("beta"))
    composer.map("div", x, power, to=composer.output(x.kind.dtype))


define(
    "LRN", lambda site: [site.shape(0)] if site.want_rank(0, 3, -1) else [None],
    summary="Divided by a power of the neighbouring channels' squares.",
    formula="Y = X / (bias + alpha / size · Σ X²)^beta, the sum over size channels around", shapes="X's.",
    ranges={"size": POSITIVE}, reference=_lrn, lower=_lower_lrn, exactness=ROWS,
    numerics=("Squares are added by channel in ascending order, from zero outside.",),
    kernels=(("elementwise.chain", "always"),),
)  # fmt: skip
