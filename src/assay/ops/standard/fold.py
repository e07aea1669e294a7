"""Operators that order elements by where they are: blocks, rows in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from assay.graph.dim import Dim
from assay.ops.standard.definition import FLAG, NATURAL, POSITIVE, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.move import COPIED, ordered
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site
from assay.ops.standard.windows import lists


def _blocked(deeper: bool, site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 4):
        return [None]
    (n, c, h, w), block = site.shape(0), site.integer("blocksize")
    whole = [(h, block, "rows"), (w, block, "columns")] if deeper else [(c, block**2, "channels")]
    for dim, by, what in whole:
        site.multiple(dim, by, f"{what} aren't whole blocks", 0)
    return [(n, c * block**2, h // block, w // block) if deeper else (n, c // block**2, h * block, w * block)]


def _folds(mode: str, block: int, shape: Sequence[int], deeper: bool) -> tuple[list[int], list[int]]:
    """The input's shape with blocks as axes of their own, and the order of these in the output."""
    n, c, h, w = shape
    if deeper:
        split = [n, c, h // block, block, w // block, block]
        return split, [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    c //= block**2
    if mode == "DCR":
        return [n, block, block, c, h, w], [0, 3, 4, 1, 5, 2]
    return [n, c, block, block, h, w], [0, 1, 4, 2, 5, 3]


def _run_blocks(deeper: bool, input: Array, *, blocksize: int, mode: str) -> Array:
    split, order = _folds(mode, blocksize, input.shape, deeper)
    (n, c, h, w), b = input.shape, blocksize
    shape = (n, c * b * b, h // b, w // b) if deeper else (n, c // b // b, h * b, w * b)
    return input.reshape(split).transpose(order).reshape(shape)


def _lower_blocks(deeper: bool, site: Site, emitter: Emitter) -> None:
    ordered(site, emitter, *_folds(site.text("mode"), site.integer("blocksize"), site.sizes(0), deeper))


for _name, _deeper, _formula, _shapes in (
    ("DepthToSpace", False, "output[n, c, h·b + i, w·b + j] = input[n, (i·b + j)·C + c, h, w], or with CRD "
     "input[n, (c·b + i)·b + j, h, w]; b the blocksize, C the output's channels", "[N, C / b², H·b, W·b]"),
    ("SpaceToDepth", True, "output[n, (i·b + j)·C + c, h, w] = input[n, c, h·b + i, w·b + j], or with CRD "
     "output[n, (c·b + i)·b + j, h, w]; b the blocksize, C the input's channels", "[N, C·b², H / b, W / b]"),
):  # fmt: skip
    define(
        _name, partial(_blocked, _deeper), formula=_formula, shapes=_shapes, kernels=COPIED,
        ranges={"blocksize": POSITIVE, "mode": one_of("DCR", "CRD")},
        reference=partial(_run_blocks, _deeper), lower=partial(_lower_blocks, _deeper),
    )  # fmt: skip


def _reverse(site: Site) -> Sequence[Made]:
    if site.want_rank(0, 2, -1) and site.want_rank(1, 1):
        batch, time = site.integer("batch_axis"), site.integer("time_axis")
        site.require(batch != time, "batch_axis and time_axis are the same", want="0 and 1", got=batch)
        site.agree(site.shape(0)[batch], site.shape(1)[0], "sizes of the batch", 1)
        site.bounded(1, site.peek(1), 0, site.shape(0)[time].constant, "length")
    return [site.shape(0)]


def _reversed(input: Array, sequence_lens: Array, *, batch_axis: int, time_axis: int) -> Array:
    found = input.copy()
    source, target = (np.moveaxis(each, (batch_axis, time_axis), (0, 1)) for each in (input, found))
    for row, count in enumerate(sequence_lens.tolist()):
        if not 0 <= count <= target.shape[1]:
            raise ValueError(f"a length of {count}, for a size of {target.shape[1]}")
        target[row, :count] = source[row, :count][::-1]
    return found


def _lower_reverse(site: Site, emitter: Emitter) -> None:
    x, lengths, y = emitter.input(0), emitter.input(1), emitter.output()
    rows, columns, *rest = site.sizes(0)
    words = [x, lengths, y, rows, columns, prod(rest) * site.dtype(0).size, int(site["time_axis"] == 0)]
    emitter.call("index.reverse", words, writes=[y])


define(
    "ReverseSequence", _reverse, ranges={"batch_axis": FLAG, "time_axis": FLAG}, reference=_reversed,
    lower=_lower_reverse, kernels=(("index.reverse", "always"),),
    formula="Y[b, t] = input[b, sequence_lens[b] − 1 − t] for t < sequence_lens[b], else input[b, t]",
    shapes="input's.",
)  # fmt: skip


Sizes = Sequence[int] | None


class _Axis(NamedTuple):
    """How blocks lie along one axis of an image with its pads."""

    first: int
    whole: int
    step: int
    apart: int
    blocks: int


def _axes(
    image: Sequence[int], block: Sequence[int], dilations: Sizes, pads: Sizes, strides: Sizes
) -> list[_Axis]:
    """That of every axis."""
    found, rank = list[_Axis](), len(image)
    for axis, (size, width) in enumerate(zip(image, block, strict=True)):
        apart, step = (each[axis] if each else 1 for each in (dilations, strides))
        before, behind = (pads[axis], pads[axis + rank]) if pads else (0, 0)
        whole = before + size + behind
        found.append(_Axis(before, whole, step, apart, (whole - apart * (width - 1) - 1) // step + 1))
    return found


def _columns(site: Site) -> Sequence[Made]:
    """Input [N, C · block, L]: L the number of blocks, which must be what the image's sizes give."""
    image, block = (site.ints(index) if site.want_rank(index, 1) else None for index in (1, 2))
    if not site.want_rank(0, 3) or image is None or block is None:
        return [None]
    rank, (n, depth, total), elements = len(image), site.shape(0), prod(block)
    site.require(len(block) == rank, "numbers of sizes disagree", want=str(rank), got=len(block), input=2)
    given = lists(site, rank)
    if given is None or site.problems:
        return [None]
    counts = [axis.blocks for axis in _axes(image, block, **given)]
    rule = "an image smaller than a block"
    site.require(min(counts, default=1) > 0, rule, want="1 block or more", got=counts, input=1)
    site.agree(Dim.of(prod(counts)), total, "numbers of blocks, of the image and of the input,", 0)
    site.multiple(depth, elements, "channels aren't whole blocks", 0)
    return [(n, depth // elements, *map(Dim.of, image))]


def _run_columns(input: Array, image_shape: Array, block_shape: Array, **given: Sizes) -> Array:
    image, block = image_shape.tolist(), block_shape.tolist()
    axes = _axes(image, block, given["dilations"], given["pads"], given["strides"])
    columns = input.reshape(len(input), -1, *block, *(axis.blocks for axis in axes))
    found = np.zeros((*columns.shape[:2], *(axis.whole for axis in axes)), input.dtype)
    every = slice(None)
    for place in np.ndindex(*block):
        starts = [at * axis.apart for at, axis in zip(place, axes, strict=True)]
        ends = [start + axis.step * (axis.blocks - 1) + 1 for start, axis in zip(starts, axes, strict=True)]
        spots = (slice(a, b, axis.step) for a, b, axis in zip(starts, ends, axes, strict=True))
        found[(every, every, *spots)] += columns[(every, every, *place)]
    inside = (slice(axis.first, axis.first + size) for axis, size in zip(axes, image, strict=True))
    return found[(every, every, *inside)]


define(
    "Col2Im", _columns, reference=_run_columns,
    ranges={"strides": POSITIVE, "dilations": POSITIVE, "pads": NATURAL},
    formula="output[n, c, p] = Σ input[n, c · block + k, l] over the elements k of blocks l that lie at p",
    shapes="[N, C / the block's elements, image_shape]",
    numerics=("Elements of the block in ascending order.",),
)  # fmt: skip


def _grid(site: Site) -> Sequence[Made]:
    size, count = site.dims(1), site.length(1)
    if not site.want_rank(0, 3) or size is None:
        return [None if site.problems else site.open_shape(count)]
    if not site.require(count in (4, 5), "number of sizes", want="4: N, C, H, W; or 5", got=count, input=1):
        return [None]
    site.natural(1, size)
    n, rows, columns = site.shape(0)
    site.agree(size[0], n, "sizes of the batch", 0)
    site.agree(Dim.of(len(size) - 2), rows, "rows of a matrix and axes of the image", 0)
    site.agree(Dim.of(len(size) - 1), columns, "columns of a matrix and axes of the image, with 1,", 0)
    return [(size[0], *size[2:], Dim.of(len(size) - 2))]


def _middles(size: int, corners: bool) -> Array:
    """Where an axis' pixels are from −1 to 1: middles, or the outer ones at the ends; one alone at 0."""
    if corners:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    return (2 * np.arange(size) + 1 - size) / size


def _affine(f: Function) -> Sequence[Name] | None:
    site, kind = f.site, f.site.made_type()
    if kind.sizes is None:
        return None
    _, *space, rank = kind.sizes
    places = np.meshgrid(*(_middles(size, bool(site["align_corners"])) for size in space), indexing="ij")
    points = np.stack([*places[::-1], np.ones(space)], -1).reshape(-1, rank + 1)
    turned = f("Transpose", f.input(0), perm=(0, 2, 1))
    return [f.reshape(f("MatMul", f.number(points, site.dtype(0)), turned), *kind.sizes)]


define(
    "AffineGrid", _grid, ranges={"align_corners": FLAG}, function=written(_affine),
    formula="grid[n, y, x] = theta[n] · [x', y', 1], x' and y' from −1 to 1 over the image",
    shapes="[N, H, W, 2], or [N, D, H, W, 3]", kernels=(("matmul.<type>", "always"),),
)  # fmt: skip
