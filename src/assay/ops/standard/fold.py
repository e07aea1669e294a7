"""Operators that order elements by where they are: blocks, rows in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from assay.ops.standard.definition import FLAG, POSITIVE, one_of
from assay.ops.standard.emit import Emitter
from assay.ops.standard.move import COPIED, bounded, ordered
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site


def _blocked(deeper: bool, site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 4):
        return [None]
    (n, c, h, w), block = site.shape(0), site.integer("blocksize")
    whole = [(h, block, "rows"), (w, block, "columns")] if deeper else [(c, block**2, "channels")]
    for dim, by, what in whole:
        good, got = dim.constant is None or dim.constant % by == 0, f"{dim} in {site.type(0)}"
        site.require(
            good, f"{what} aren't whole blocks", want=f"a multiple of {by}", got=got, input=0, dim=dim
        )
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
        bounded(site, 1, site.peek(1), 0, site.shape(0)[time].constant, "length")
    return [site.shape(0)]


def _reversed(input: Array, sequence_lens: Array, *, batch_axis: int, time_axis: int) -> Array:
    found = input.copy()
    source, target = (np.moveaxis(each, (batch_axis, time_axis), (0, 1)) for each in (input, found))
    for row, count in enumerate(sequence_lens.tolist()):
        if not 0 <= count <= target.shape[1]:
            raise ValueError(f"a length of {count}, for a size of {target.shape[1]}")
        target[row, :count] = source[row, :count][::-1]
    return found


define(
    "ReverseSequence", _reverse, ranges={"batch_axis": FLAG, "time_axis": FLAG}, reference=_reversed,
    formula="Y[b, t] = input[b, sequence_lens[b] − 1 − t] for t < sequence_lens[b], else input[b, t]",
    shapes="input's.",
)  # fmt: skip
