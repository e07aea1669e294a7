"""Operators that read images between their pixels: each reading is a few pixels with weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from assay.graph.dim import Dim
from assay.ops.operator import Exactness
from assay.ops.standard.definition import FLAG, POSITIVE, one_of
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site
from assay.ops.standard.windows import lists, weights_window
from assay.tensor.dtype import F32, F64, I64, DType

Places = NDArray[np.int64]
CUBIC = -0.75
EXACTNESS = Exactness("ulp", 64, "of the greatest pixel: places, weights, products and their sum are rounded")
WORDS = (("index.gather and elementwise.chain", "always"),)


class Reader:
    """Readings of images x[pixels, channels] at places, in float32 or float64: one array [G, P] for each axis
    of an image of these sizes, whose first pixel is `first` [G, 1] in x.
    """

    def __init__(self, f: Function, x: Name, sizes: Sequence[int], first: Name, dtype: DType) -> None:
        self.f, self.x, self.sizes, self.first, self.dtype = f, x, tuple(sizes), first, dtype

    def number(self, value: float) -> Name:
        return self.f.number(value, self.dtype)

    def clipped(self, x: Name, axis: int) -> Name:
        """Places put inside the axis."""
        return self.f("Clip", x, self.number(0), self.number(self.sizes[axis] - 1))

    def reflected(self, x: Name, axis: int, corners: int) -> Name:
        """Places mirrored at both ends until they are inside: at the outer pixels' centres or edges."""
        f, low = self.f, 0.0 if corners else -0.5
        span = self.sizes[axis] - 1.0 if corners else float(self.sizes[axis])
        if not span:
            return self.clipped(x, axis)
        apart = f("Mod", f("Abs", f("Sub", x, self.number(low))), self.number(2 * span), fmod=1)
        turned = f("Sub", self.number(span + low), f("Abs", f("Sub", apart, self.number(span))))
        return self.clipped(turned, axis) if corners else turned

    def taps(self, x: Name, mode: str) -> list[tuple[Name, Name]]:
        """The pixels along an axis that a place is read from, and their weights; "" for 1."""
        f = self.f
        if mode == "nearest":
            return [(f("Round", x), "")]
        low = f("Floor", x)
        part = f("Sub", x, low)
        if mode == "linear":
            pairs = [(0, f("Sub", self.number(1), part)), (1, part)]
        else:
            pairs = [(shift, self._cubic(part, shift)) for shift in range(-1, 3)]
        return [(f("Add", low, self.number(shift)) if shift else low, weight) for shift, weight in pairs]

    def _cubic(self, part: Name, shift: int) -> Name:
        """Keys' polynomial at the distance of a pixel."""
        f, a = self.f, CUBIC
        t = f("Abs", f("Sub", part, self.number(shift)))
        near = (a + 2, -(a + 3), 0.0, 1.0) if shift in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        total = self.number(near[0])
        for factor in near[1:]:
            total = f("Add", f("Mul", total, t), self.number(factor))
        return total

    def read(
        self, places: Sequence[Name], mode: str, padding: str, corners: int = 0, fold: str = "Add"
    ) -> Name:
        """[G, P, channels]. Outside, pixels are 0, the nearest one, or mirrored ones."""
        f, total = self.f, ""
        for choice in product(*(self.taps(place, mode) for place in places)):
            index, weight, inside = self.first, "", ""
            for axis, (pixel, part) in enumerate(choice):
                whole = self.reflected(pixel, axis, corners) if padding == "reflection" else pixel
                within = self.clipped(whole, axis)
                if padding == "zeros":
                    here = f("Equal", within, pixel)
                    inside = f("And", inside, here) if inside else here
                step = prod(self.sizes[axis + 1 :])
                index = f("Add", index, f("Mul", f.cast(f("Round", within), I64), f.number(step)))
                weight = f("Mul", weight, part) if weight and part else weight or part
            value = f("Gather", self.x, index, axis=0)
            last = f.number([-1])
            if inside:
                zero = f("CastLike", f.number(0), value)
                value = f("Where", f("Unsqueeze", inside, last), value, zero)
            if weight:
                value = f("Mul", value, f("Unsqueeze", weight, last))
            total = f(fold, total, value) if total else value
        return total


def pixels(f: Function, x: Name, sizes: Sequence[int]) -> Name:
    """Images [N, C, …] as [N · pixels, C]."""
    order = [0, *range(2, len(sizes)), 1]
    return f.reshape(f.moved(x, order), prod((sizes[0], *sizes[2:])), sizes[1])


def precision(site: Site, *which: int) -> DType:
    return F64 if any(site.dtype(index) == F64 for index in which) else F32


# GridSample


def _grid_sample(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 3, -1) & site.want_rank(1, site.rank(0))):
        return [None]
    x, grid = site.shape(0), site.shape(1)
    site.agree(x[0], grid[0], "sizes of the batch", 1)
    site.agree(Dim.of(len(x) - 2), grid[-1], "coordinates and spatial axes", 1)
    numbers = site.dtype(0).kind in ("float", "int", "uint")
    good, want = numbers or site["mode"] == "nearest", "numbers, or mode nearest"
    site.require(good, "pixels that have no mean", want=want, got=site.type(0), input=0)
    return [(*x[:2], *grid[1:-1])]


def _sample(f: Function) -> Sequence[Name]:
    site, mode, corners = f.site, f.site.text("mode"), f.site.integer("align_corners")
    x, grid, dtype = site.sizes(0), site.sizes(1), precision(site, 0, 1)
    count, images = prod(grid[1:-1]), prod(x[2:])
    source = pixels(f, f.input(0), x)
    if mode != "nearest":
        source = f.cast(source, dtype)
    first = f.number(images * np.arange(x[0])[:, None])
    reader = Reader(f, source, x[2:], first, dtype)
    flat = f.cast(f.reshape(f.input(1), x[0], count, len(x) - 2), dtype)
    places = []
    for axis, size in enumerate(x[2:]):
        at = f("Gather", flat, f.number(len(x) - 3 - axis), axis=2)
        more, two = f("Add", at, reader.number(1)), reader.number(2)
        if corners:
            at = f("Mul", f("Div", more, two), reader.number(size - 1))
        else:
            at = f("Div", f("Sub", f("Mul", more, reader.number(size)), reader.number(1)), two)
        if mode == "nearest":
            at = f("Round", at)
        if site["padding_mode"] == "border":
            at = reader.clipped(at, axis)
        elif site["padding_mode"] == "reflection":
            at = reader.reflected(at, axis, corners)
        places.append(at)
    found = reader.read(places, mode, site.text("padding_mode"), corners)
    made = f.reshape(f.moved(found, (0, 2, 1)), *x[:2], *grid[1:-1])
    return [made if mode == "nearest" else f.cast(made, site.dtype(0))]


define(
    "GridSample", _grid_sample, function=written(_sample), exactness=EXACTNESS, kernels=WORDS,
    formula="Y[n, c, o] = X[n, c] at the place grid[n, o], whose numbers, the last axis' first, go from −1 "
    "to 1 over "
    "the image: from edge to edge, or with align_corners from centre to centre",
    shapes="[N, C, grid's sizes but the first and the last]",
    ranges={"align_corners": FLAG, "mode": one_of("linear", "nearest", "cubic"),
            "padding_mode": one_of("zeros", "border", "reflection")},
    numerics=("Places are float32, or float64 where an input is; nearest rounds ties to even; the "
    "polynomial of cubic "
              "has a = −0.75.",),
)  # fmt: skip


# DeformConv


def _deformed(site: Site) -> Sequence[Made]:
    size = weights_window(site)
    if site.problems or not site.want_rank(2, site.rank(0)):
        return [None]
    x, w, offset = site.shape(0), site.shape(1), site.shape(2)
    dims, group, parts = len(x) - 2, site.integer("group"), site.integer("offset_group")
    given = lists(site, dims)
    if given is None:
        return [None]
    site.agree(x[1], w[1] * group, "channels", 1, "the weights are [filters, channels / group, …]")
    site.multiple(w[0], group, "groups don't divide the filters", 1)
    site.multiple(x[1], parts, "groups don't divide the channels", 0)
    if size is None:
        return [(x[0], w[0], *offset[2:])]
    taps, output = prod(w[2:], start=Dim.of(1)), []
    for axis, dim in enumerate(x[2:]):
        room = (
            dim
            + given["pads"][axis]
            + given["pads"][axis + dims]
            - given["dilations"][axis] * (size[axis] - 1)
        )
        output.append((room - 1) // given["strides"][axis] + 1)
    for index, many in ((2, taps * dims * parts), (4, taps * parts)):
        site.match(index, x[0], many, *output)
    site.match(3, w[0], what="filters and biases")
    return [(x[0], w[0], *offset[2:])]


def _bases(f: Function, axis: int, taps: Sequence[int], output: Sequence[int]) -> Places:
    """Where each tap reads along an axis for each output, without offsets: [taps, outputs]."""
    given = lists(f.site, len(taps))
    assert given
    tap, place = (np.indices(sizes).reshape(len(taps), -1)[axis] for sizes in (taps, output))
    first = np.int64(given["dilations"][axis]) * tap - given["pads"][axis]
    return np.asarray(first[:, None] + given["strides"][axis] * place)


def _deform(f: Function) -> Sequence[Name]:
    site = f.site
    x, w, output = site.sizes(0), site.sizes(1), site.sizes(2)[2:]
    group, parts, dtype = site.integer("group"), site.integer("offset_group"), precision(site, 0)
    taps, count, dims = prod(w[2:]), prod(output), len(output)
    rows = x[0] * parts
    images = (rows, x[1] // parts, *x[2:])
    source = f.cast(pixels(f, f.reshape(f.input(0), *images), images), dtype)
    reader = Reader(f, source, x[2:], f.number(prod(x[2:]) * np.arange(rows)[:, None]), dtype)
    offsets = f.cast(f.reshape(f.input(2), rows, taps, dims, count), dtype)
    places = []
    for axis in range(dims):
        base = f.number(_bases(f, axis, w[2:], output), dtype)
        moved = f("Add", f("Gather", offsets, f.number(axis), axis=2), base)
        places.append(f.reshape(moved, rows, taps * count))
    found = reader.read(places, "linear", "zeros")
    if site.has(4):
        found = f("Mul", found, f.cast(f.reshape(f.input(4), rows, taps * count, 1), dtype))
    columns = f.moved(f.reshape(found, x[0], parts, taps, count, images[1]), (0, 1, 4, 2, 3))
    filters = f.cast(f.reshape(f.input(1), group, w[0] // group, w[1] * taps), dtype)
    y = f("MatMul", filters, f.reshape(columns, x[0], group, w[1] * taps, count))
    y = f.reshape(y, x[0], w[0], *output)
    if site.has(3):
        y = f("Add", y, f.cast(f.reshape(f.input(3), w[0], *[1] * dims), dtype))
    return [f.cast(y, site.dtype(0))]


define(
    "DeformConv", _deformed, function=written(_deform), exactness=EXACTNESS,
    formula="Y[n, f, o] = B[f] + Σ_c Σ_tap W[f, c, tap] · mask[n, tap, o] · X[n, c] at o · strides + tap · "
    "dilations − "
    "pads + offset[n, tap, o], read between pixels (linear), 0 outside",
    shapes="[N, filters, floor((size + pads − dilations · (window − 1) − 1) / strides) + 1, …]",
    ranges={"group": POSITIVE, "offset_group": POSITIVE, "strides": POSITIVE, "dilations": POSITIVE,
            "kernel_shape": POSITIVE},
    kernels=(("index.gather, elementwise.chain and matmul.<type>", "always"),),
)  # fmt: skip
