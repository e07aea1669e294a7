"""Pools: what a window holds becomes one number, channel by channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.kernels import conv_sizes
from assay.ops.operator import BITWISE, Exactness
from assay.ops.standard.compose import Composer, Value
from assay.ops.standard.definition import FLAG, POSITIVE
from assay.ops.standard.emit import Emitter
from assay.ops.standard.reduce import per_channel
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Numbers, Site
from assay.ops.standard.windows import RANGES, Window, lists, window
from assay.tensor.dtype import F32, F64, I64

SUMS = Exactness("ulp", "W + 2", "one rounding for each tap of the window, in order, and a division")


def _window(site: Site) -> Window | None:
    size = site.integers("kernel_shape")
    if not site.want_rank(0, 3, -1) or size is None:
        return None
    return window(site, site.shape(0)[2:], size, bool(site["ceil_mode"]))


def _pool(site: Site) -> Sequence[Made]:
    found = _window(site)
    if found is None:
        return [None]
    shape = (*site.shape(0)[:2], *found.output)
    return [shape, *[ValueType(I64, shape)] * (len(site.node.outputs) - 1)]


def _begun(site: Site, emitter: Emitter) -> tuple[Composer, Value, Value, Window]:
    """What a pool reads, as float32, which holds small integers, or float64 if it is that; and writes."""
    composer, found = Composer(site, emitter), _window(site)
    assert found is not None
    x = composer.input(0, F64 if site.dtype(0) == F64 else F32)
    return composer, x, composer.output(x.kind.dtype), found


def _emit(
    composer: Composer,
    kernel: str,
    x: Value,
    y: Value,
    found: Window,
    counted: Sequence[tuple[int, int]] = (),
) -> tuple[int, ...]:
    """A pool's call; its words behind the scratch."""
    batch, channels, *sizes = x.sizes
    call = conv_sizes.window(batch, channels, 1, found.spatial(sizes), counted, x.kind.dtype.size)
    words = [x, 0, 0, y, "scratch", *call.words]
    composer.call(_kernel(kernel, x), words, writes=[y], scratch=call.scratch)
    return call.words


def _kernel(name: str, x: Value) -> str:
    return f"window.{name}_f64" if x.kind.dtype is F64 else f"window.{name}"


def _lower_max(site: Site, emitter: Emitter) -> None:
    composer, x, y, found = _begun(site, emitter)
    words = _emit(composer, "greatest", x, y, found)
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        places = emitter.output(1)
        arguments = [x.address, y.address, places, site.integer("storage_order"), *words]
        emitter.call(_kernel("places", x), arguments, writes=[places])


define(
    "MaxPool", _pool, summary="The greatest number in a window, and its place.",
    formula="Y[n, c, …] = max of X[n, c, … · strides + window · dilations − pads]; Indices its place in X",
    shapes="[N, C, ⌊(size + pads − dilations · (window − 1) − 1) / strides⌋ + 1, …], rounded up with "
    "ceil_mode",
    ranges={**RANGES, "ceil_mode": FLAG, "storage_order": FLAG}, lower=_lower_max, exactness=BITWISE,
    numerics=("Of NaN and a number NaN is kept; padding is −∞.",),
    kernels=(("window.greatest", "always; float64 has its own, other types go by way of float32"),
    ("window.places", "Indices are wanted")),
)  # fmt: skip


def _lower_average(site: Site, emitter: Emitter) -> None:
    composer, x, y, found = _begun(site, emitter)
    counted = [(0, size) for size in x.sizes[2:]]
    if site["count_include_pad"]:
        pads = zip(found.before, x.sizes[2:], found.after, strict=True)
        counted = [(-(low.constant or 0), size + (high.constant or 0)) for low, size, high in pads]
    _emit(composer, "total", x, y, found, counted)


define(
    "AveragePool", _pool, summary="The mean of what is in a window.",
    formula="Y[n, c, …] = Σ X[n, c, … · strides + window · dilations − pads] / taps that count",
    shapes="As MaxPool's.", ranges={**RANGES, "ceil_mode": FLAG, "count_include_pad": FLAG},
    lower=_lower_average,
    exactness=SUMS, numerics=("Taps are added in order, from zero; taps in the padding only count.",),
    kernels=(("window.total", "always; float64 has its own, other types go by way of float32"),),
)  # fmt: skip


def _power(composer: Composer, x: Value, p: int) -> Value:
    if p == 2:
        return composer.map("mul", x, x)
    size = composer.map("abs", x)
    return size if p == 1 else composer.map("pow", size, float(p))


def _root(composer: Composer, sums: Value, p: int, to: Value) -> None:
    if p == 2:
        composer.map("sqrt", sums, to=to)
    else:
        composer.map("pow", sums, 1 / p, to=to)


def _lower_lp(site: Site, emitter: Emitter) -> None:
    (composer, x, y, found), p = _begun(site, emitter), site.integer("p")
    sums = composer.new(x.kind.dtype, *y.sizes)
    _emit(composer, "total", _power(composer, x, p), sums, found)
    _root(composer, sums, p, y)


define(
    "LpPool", _pool, summary="The p-norm of what is in a window.",
    formula="Y[n, c, …] = (Σ |X[n, c, … · strides + window · dilations − pads]|^p)^(1/p)",
    shapes="As MaxPool's.",
    ranges={**RANGES, "ceil_mode": FLAG, "p": POSITIVE}, lower=_lower_lp, exactness=SUMS,
    numerics=("Taps are added in order, from zero.",),
    kernels=(("window.total", "always; float64 has its own, other types go by way of float32"),),
)  # fmt: skip


def _lower_global(site: Site, emitter: Emitter) -> None:
    composer, p = Composer(site, emitter), site.integer("p")
    x = composer.input(0)
    y = composer.output(x.kind.dtype)
    sums = composer.reduce("sum", _power(composer, x, p), range(2, len(x.sizes)))
    _root(composer, sums, p, y)


define(
    "GlobalLpPool", per_channel, summary="The p-norm of each channel.",
    formula="Y[n, c] = (Σ |X[n, c, …]|^p)^(1/p)",
    shapes="[N, C, 1, …]", ranges={"p": POSITIVE}, lower=_lower_global, exactness=SUMS,
    kernels=(("reduce.<type> and elementwise.chain", "always"),),
)  # fmt: skip


def _unpool(site: Site) -> Sequence[Made]:
    size = site.integers("kernel_shape")
    dims = site.rank(0) - 2
    if size is None or not site.require(
        len(size) == dims, "window of another rank", want=f"{dims}", got=len(size)
    ):
        return [None]
    if lists(site, dims) is None:
        return [None]
    site.match(1, *site.shape(0), what="X and I")
    if site.has(2):
        wanted = site.dims(2)
        return [tuple(wanted) if wanted else None]
    known = [dim.constant for dim in site.shape(0)]
    return [None] if None in known else [tuple(map(Dim.of, _unpooled(site, known)))]  # type: ignore[arg-type]


def _numpy_unpool(
    x: Numbers, places: Numbers, output_shape: Numbers | None, site: Site, **attributes: object
) -> Numbers:
    small = _unpooled(site, x.shape)
    y = np.zeros(small, x.dtype)
    y.reshape(-1)[places.reshape(-1)] = x.reshape(-1)
    if output_shape is None:
        return y
    whole = np.zeros([int(each) for each in output_shape], x.dtype)
    whole[tuple(slice(0, each) for each in small)] = y
    return whole


def _unpooled(site: Site, sizes: Sequence[int]) -> list[int]:
    """Sizes before a pool made these."""
    dims = len(sizes) - 2
    given, window = lists(site, dims), site.integers("kernel_shape")
    assert given and window
    ends = zip(given["pads"][:dims], given["pads"][dims:], strict=True)
    axes = zip(sizes[2:], given["strides"], window, ends, strict=True)
    return [*sizes[:2], *((size - 1) * step + wide - sum(around) for size, step, wide, around in axes)]


define(
    "MaxUnpool", _unpool, summary="Puts numbers back to the places that MaxPool found them at.",
    formula="output[I[i]] = X[i], 0 elsewhere",
    shapes="strides · (size − 1) + window − pads, or output_shape",
    reference=_numpy_unpool, informed=True,
)  # fmt: skip
