"""Sizes of convolutions as conv.py's kernels take them, from those of the operators. Needs no compiler."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from assay.kernels.panels import DEPTH, PANEL, ROW_BLOCK

CHANNELS = 16
"""Channels of a block of K (numerics.md, rule 10)."""
RUN = 4
"""The most panels of pixels that one piece of work takes."""

STRIP = 8192
"""About as many numbers of x are laid out at a time for a window."""
COLUMNS = 1024
"""The most columns of such a strip."""

Sizes = Sequence[int]


class Spatial(NamedTuple):
    """A window that moves over 1 to 3 dimensions, a number for each of these in every field."""

    size: Sizes
    window: Sizes
    strides: Sizes
    dilations: Sizes
    pads: Sizes
    """In front. What is read behind x is padding too."""
    output: Sizes


class Convolution(NamedTuple):
    """A call of `conv.<dtype>` and the call that makes its weights."""

    words: tuple[int, ...]
    """Those after the addresses of x, w, bias and y, the scratch and its stride."""
    arranged: tuple[int, ...]
    """Those of `conv.arrange32` or `arrange64` after the addresses of w as it was and as it will be."""

    @property
    def end(self) -> int:
        """Where the numbers that it arranges end: rows of K, each with one more behind it."""
        begin, groups, filters, channels, _, _, _, taps = self.arranged[:8]
        return begin + groups * filters * (channels * taps + 1)


class Window(NamedTuple):
    """A call of window.py's kernels."""

    words: tuple[int, ...]
    """Those after the addresses of x, w, bias and y, the scratch and its stride."""
    scratch: int
    """Bytes for each thread."""


class Axis(NamedTuple):
    """One dimension: output places `start`, `start` + `step`, …, `grid` of them, read x at i · `stride` +
    offset.
    """

    size: int
    grid: int
    start: int
    step: int
    stride: int
    taps: tuple[tuple[int, int], ...]
    """Each tap's place in the window, and its offset."""


def matmul_scratch(size: int) -> int:
    """Bytes of scratch of each thread of `matmul.<dtype>` with elements of `size` bytes."""
    return size * PANEL * (DEPTH + ROW_BLOCK)


def scratch(filters: int, size: int) -> int:
    """Bytes of scratch of each thread of `conv.<dtype>` with so many filters to a group."""
    return size * PANEL * RUN * (DEPTH + filters)


def convolution(batch: int, groups: int, channels: int, filters: int, space: Spatial) -> Convolution:
    """ONNX's Conv of x[batch, groups · channels, *size] by w[groups · filters, channels, *window]."""
    taps = prod(space.window)
    order = filters * channels * taps, channels * taps, taps
    return _call((batch, groups, channels, filters), _forward(space), space, order, 0)


def window(
    batch: int,
    groups: int,
    filters: int,
    space: Spatial,
    counted: Sequence[tuple[int, int]] = (),
    size: int = 4,
) -> Window:
    """A window over each of `groups` channels: of `window.depthwise` with w[groups · filters, *window], or
    of a pool. An average counts the taps within `counted` along each dimension: places of x, the end
    excluded. Numbers have `size` bytes.
    """
    words = _call((batch, groups, 1, filters), _forward(space), space, (0, 0, 0), 0).words
    columns, (z, y, x) = words[9], (words[-3 + axis] - words[20 + axis] for axis in range(3))
    sy, sx = words[11:13]
    width = min(columns, COLUMNS)
    pitch = width + x // sx
    height = max(1, min(words[8], STRIP // ((z + 1) * sy * sx * pitch) - y // sy))
    strip = (z + 1) * sy * sx * (height + y // sy) * pitch
    limits = [(0, 1)] * (3 - len(counted)) + list(counted) if counted else [(0, 0)] * 3
    space_of = 8 * words[19] + size * (height * pitch + 64 + width + 32 + strip + 64)
    return Window((*words, height, width, *(each for pair in limits for each in pair)), space_of)


def _forward(space: Spatial) -> list[Axis]:
    return [
        Axis(n, o, 0, 1, s, tuple((tap, d * tap - p) for tap in range(k)))
        for n, k, s, d, p, o in zip(*space, strict=True)
    ]


def transposed(
    batch: int, groups: int, channels: int, filters: int, space: Spatial
) -> tuple[Convolution, ...]:
    """ONNX's ConvTranspose of x[batch, groups · channels, *size] by w[groups · channels, filters, *window]:
    one for each remainder of an output's place by the strides. Taps ascend as in the window.
    """
    phases = []
    for n, k, s, d, p, o in zip(*space, strict=True):
        axis = []
        for start in range(min(s, o)):
            taps = [(tap, (start + p - d * tap) // s) for tap in range(k) if (start + p - d * tap) % s == 0]
            axis.append(Axis(n, (o - start + s - 1) // s, start, s, 1, tuple(taps)))
        phases.append(axis)
    sizes, window = (batch, groups, channels, filters), prod(space.window)
    order = channels * filters * window, window, filters * window
    calls: list[Convolution] = []
    for axes in product(*phases):
        calls.append(_call(sizes, axes, space, order, calls[-1].end if calls else 0))
    return tuple(calls)


def _call(
    sizes: tuple[int, int, int, int],
    axes: Sequence[Axis],
    space: Spatial,
    order: tuple[int, int, int],
    begin: int,
) -> Convolution:
    """`order`: w's strides from group to group, filter to filter, channel to channel. `begin`: where the
    arranged weights lie.
    """
    (_, groups, channels, filters), window, output = sizes, space.window, space.output
    apart = [prod(output[axis + 1 :]) for axis in range(len(output))]
    start = sum(axis.start * stride for axis, stride in zip(axes, apart, strict=True))
    places = [
        sum(tap * prod(window[axis + 1 :]) for axis, (tap, _) in enumerate(taps))
        for taps in product(*(axis.taps for axis in axes))
    ]
    # Windows over single channels keep their dimensions: taps are counted along them.
    if channels > 1 and all(axis == Axis(axis.size, axis.size, 0, 1, 1, ((0, 0),)) for axis in axes):
        pixels = prod(output)
        axes, apart = [Axis(pixels, pixels, 0, 1, 1, ((0, 0),))], [1]
    missing = 3 - len(axes)
    axes = [Axis(1, 1, 0, 1, 1, ((0, 0),))] * missing + list(axes)
    steps = [axis.step * stride for axis, stride in zip(axes[missing:], apart, strict=True)]
    steps = [axes[-1].grid * axes[-2].grid, axes[-1].grid][:missing] + steps
    offsets = [offset for taps in product(*(axis.taps for axis in axes)) for _, offset in taps]
    lengths = [getattr(axis, name) for name in ("size", "grid", "stride") for axis in axes]
    words = (*sizes, *lengths, begin, start, prod(output), *steps, len(places), *offsets)
    return Convolution(words, (begin, groups, filters, channels, *order, len(places), *places))
