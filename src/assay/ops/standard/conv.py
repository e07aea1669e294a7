"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from assay.graph.dim import Dim
from assay.kernels.conv_sizes import Convolution, Spatial, convolution, scratch, transposed
from assay.kernels.conv_sizes import Window as WindowCall
from assay.kernels.conv_sizes import window as window_call
from assay.ops.operator import Exactness
from assay.ops.standard.definition import POSITIVE
from assay.ops.standard.emit import Emitter, whole
from assay.ops.standard.linear import product_kind
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site
from assay.ops.standard.windows import RANGES, Window, lists, weights_window, window
from assay.tensor.dtype import F32

ORDER = (
    "Each output element is one chain of fma over blocks of 16 channels, then the window, then the "
    "channels of "
    "the block; the bias is added last.",
    "Taps in the padding add nothing, whatever their weights.",
)
EXACTNESS = Exactness("ulp", "C * 128 + 2", "one rounding for each term of the window and channel")


def window_of(site: Site) -> Window | None:
    """The window of a convolution."""
    size = weights_window(site)
    return window(site, site.shape(0)[2:], size) if size else None


def _conv(site: Site) -> Sequence[Made]:
    found = window_of(site)
    if found is None:
        return [None if site.problems else (site.shape(0)[0], site.shape(1)[0], *_open(site))]
    x, w, group = site.shape(0), site.shape(1), site.integer("group")
    hint = "the weights are [filters, channels / group, …]"
    site.agree(x[1], w[1] * group, "channels", 1, hint)
    site.multiple(w[0], group, "filters that groups don't divide", 1)
    site.match(2, w[0], what="filters and biases")
    return [(x[0], w[0], *found.output)]


def _open(site: Site) -> list[Dim]:
    return [site.unknown(str(axis)) for axis in range(2, site.rank(0))]


def emit(site: Site, emitter: Emitter, calls: Sequence[Convolution], filters: int) -> None:
    """Convolutions that write parts of one output."""
    kind = product_kind(site.dtype(0))
    size = 8 if kind == "float64" else 4
    x, w, y = emitter.floats(0), emitter.floats(1), emitter.narrowed(whole(site.dtype(0)))
    bias = emitter.floats(2) if site.has(2) else None
    arranged = emitter.temporary(size * max((each.end for each in calls), default=0))
    for each in calls:
        emitter.call(f"conv.arrange{8 * size}", [w, arranged, *each.arranged], writes=[arranged])
    for each in calls:
        words = [x, arranged, bias or 0, y, "scratch", *each.words]
        emitter.call(f"conv.{kind}", words, writes=[y], scratch=scratch(filters, size))


def _thin(space: Spatial) -> Spatial:
    """Without the dimensions along which nothing moves: rows of one element would be packed one by one."""
    axes = list(zip(*space, strict=True))
    moving = [axis for axis in axes if axis != (1, 1, axis[2], axis[3], 0, 1)] or axes[:1]
    return Spatial(*zip(*moving, strict=True))


def _lower_conv(site: Site, emitter: Emitter) -> None:
    found = window_of(site)
    assert found is not None
    x, w, group = site.sizes(0), site.sizes(1), site.integer("group")
    if w[1] == 1 < group and product_kind(site.dtype(0)) == "float32" and prod(w[2:]) > 1:
        _depthwise(site, emitter, window_call(x[0], group, w[0] // group, _thin(found.spatial(x[2:]))))
        return
    call = convolution(x[0], group, w[1], w[0] // group, _thin(found.spatial(x[2:])))
    emit(site, emitter, [call], w[0] // group)


def _depthwise(site: Site, emitter: Emitter, call: WindowCall) -> None:
    """A window over each channel by itself."""
    given = [emitter.floats(index) for index in range(len(site.types)) if site.has(index)]
    bias = given[2] if len(given) > 2 else 0
    y = emitter.narrowed(F32)
    words = [given[0], given[1], bias, y, "scratch", *call.words]
    emitter.call("window.depthwise", words, writes=[y], scratch=call.scratch)


define(
    "Conv", _conv,
    formula="Y[n, f, …] = B[f] + Σ_c Σ_window X[n, c, … · strides + window · dilations − pads] · W[f, "
    "c, window]",
    shapes="[N, filters, floor((size + pads − dilations · (window − 1) − 1) / strides) + 1, …]",
    ranges={**RANGES, "group": POSITIVE}, lower=_lower_conv, exactness=EXACTNESS, numerics=ORDER,
    kernels=(
        ("window.depthwise", "float32 and halves, several groups of one channel"),
        ("conv.<type>", "always; the weights are rearranged first, once if they are constant"),
    ),
)  # fmt: skip


def _transposed_window(site: Site) -> Window | None:
    sizes = weights_window(site)
    if sizes is None:
        return None
    x, dims, given = site.shape(0), len(sizes), lists(site, len(sizes))
    added = site.integers("output_padding") or (0,) * dims
    wanted = site.integers("output_shape")
    for key, found in (("output_padding", added), ("output_shape", wanted)):
        good = found is None or len(found) in (dims, len(x) if found is wanted else dims)
        site.require(good, f"attribute {key}: wrong length", want=dims, got=found)
    if given is None or site.problems:
        return None
    mode = site.text("auto_pad")
    before, after, output = list[Dim](), list[Dim](), list[Dim]()
    for axis, dim in enumerate(x[2:]):
        stride = given["strides"][axis]
        reach = given["dilations"][axis] * (sizes[axis] - 1) + 1
        whole = (dim - 1) * stride + reach + added[axis]
        low, high = (Dim.of(given["pads"][axis + side] if mode == "NOTSET" else 0) for side in (0, dims))
        if wanted is not None or mode in ("SAME_UPPER", "SAME_LOWER"):
            count = Dim.of(wanted[-dims:][axis]) if wanted is not None else dim * stride
            total = whole - count
            less = total // 2
            low, high = (less, total - less) if mode == "SAME_UPPER" else (total - less, less)
        else:
            count = whole - low - high
        before.append(low)
        after.append(high)
        output.append(count)
    site.natural(0, output)
    return Window(sizes, given["strides"], given["dilations"], tuple(before), tuple(after), tuple(output))


def _conv_transpose(site: Site) -> Sequence[Made]:
    found = _transposed_window(site)
    if site.problems:
        return [None]
    x, w, group = site.shape(0), site.shape(1), site.integer("group")
    site.multiple(x[1], group, "channels that groups don't divide", 0)
    site.agree(x[1], w[0], "channels", 1, "the weights are [channels, filters / group, …]")
    site.match(2, w[1] * group, what="filters and biases")
    return [(x[0], w[1] * group, *(found.output if found else _open(site)))]


def _lower_transposed(site: Site, emitter: Emitter) -> None:
    found = _transposed_window(site)
    assert found is not None
    x, w, group = site.sizes(0), site.sizes(1), site.integer("group")
    calls = transposed(x[0], group, x[1] // group, w[1], found.spatial(x[2:]))
    emit(site, emitter, calls, w[1])


define(
    "ConvTranspose", _conv_transpose,
    formula="Y[n, f, i · strides + window · dilations − pads] += X[n, c, i] · W[c, f, window], then B[f]",
    shapes="[N, filters, strides · (size − 1) + output_padding + dilations · (window − 1) + 1 − pads, …]",
    ranges={**RANGES, "group": POSITIVE}, lower=_lower_transposed, exactness=EXACTNESS, numerics=ORDER,
    kernels=(("conv.<type>", "always: one call for each remainder of an output's place by the strides"),),
)  # fmt: skip
