"""Where each element of a tensor lies: strides in elements, for any dtype.

    RowMajor.of((2, 3, 4)).strides     == (12, 4, 1)
    ColumnMajor.of((2, 3, 4)).strides  == (1, 2, 6)
    Blocked.of((4, 6), (2, 3)).strides == (12, 6, 3, 1)    one per grid axis, then one per axis inside a block
    Packed.of((3, 5), 4).strides       == (8, 1)           each row padded from 5 to 8

A layout is made from a shape, and everything about it is computed then.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.errors import ContractError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A shape and the place of each of its elements. Made by `of` of one of the classes below."""

    shape: Shape
    """What an index counts through."""
    axes: Shape = field(init=False, repr=False, compare=False)
    """Extents of the dimensions in memory: the shape, or a block grid's axes and then the block's."""
    strides: Shape = field(init=False, compare=False)
    """Elements from one position to the next, one per entry of `axes`."""
    size: int = field(init=False, compare=False)
    """Elements of memory, padding included."""

    def __post_init__(self) -> None:
        for name, value in zip(("axes", "strides", "size"), self._place(), strict=True):
            object.__setattr__(self, name, value)

    def _place(self) -> tuple[Shape, Shape, int]:
        """(axes, strides, size) of this kind of layout."""
        want = "RowMajor, ColumnMajor, Blocked or Packed"
        raise ContractError("a layout of no kind", want=want, got="Layout")

    @property
    def count(self) -> int:
        """Elements of the shape."""
        return math.prod(self.shape)

    @property
    def padding(self) -> int:
        """Elements of memory that hold nothing."""
        return self.size - self.count

    @property
    def contiguous(self) -> bool:
        """Whether ascending addresses are the elements in row-major order, without a gap."""
        order = [axis for own in self._axes_of() for axis in own if self.axes[axis] != 1]
        extents = tuple(self.axes[axis] for axis in order)
        dense = tuple(self.strides[axis] for axis in order) == _row_major(extents)
        return self.padding == 0 and (dense or self.count == 0)

    def offset(self, index: Sequence[int]) -> int:
        """Elements from the first to the one at `index`. ContractError when it lies outside the shape."""
        inside = all(0 <= i < n for i, n in zip(index, self.shape, strict=False))
        if len(index) != len(self.shape) or not inside:
            want, got = f"within {self.shape}", str(tuple(index))
            raise ContractError("an index outside the shape", want=want, got=got)
        place = 0
        for rest, own in zip(index, self._axes_of(), strict=True):
            for axis in reversed(own):
                rest, step = divmod(rest, self.axes[axis])
                place += step * self.strides[axis]
        return place

    def _axes_of(self) -> list[range]:
        """The axes in which each dimension lies, the most slowly counting one first."""
        rank = len(self.shape)
        return [range(dimension, len(self.axes), rank) for dimension in range(rank)]


@dataclass(frozen=True)
class RowMajor(Layout):
    """The last index counts fastest, without padding."""

    @classmethod
    def of(cls, shape: Iterable[int]) -> RowMajor:
        return cls(_checked(shape))

    def _place(self) -> tuple[Shape, Shape, int]:
        return self.shape, _row_major(self.shape), self.count


@dataclass(frozen=True)
class ColumnMajor(Layout):
    """The first index counts fastest, without padding."""

    @classmethod
    def of(cls, shape: Iterable[int]) -> ColumnMajor:
        return cls(_checked(shape))

    def _place(self) -> tuple[Shape, Shape, int]:
        return self.shape, _row_major(self.shape[::-1])[::-1], self.count


@dataclass(frozen=True)
class Blocked(Layout):
    """Equal blocks in row-major order, each row-major inside; those at the edges are padded."""

    block: Shape

    @classmethod
    def of(cls, shape: Iterable[int], block: Iterable[int]) -> Blocked:
        """`block` has one extent of at least 1 per dimension (ContractError)."""
        return cls(_checked(shape), _checked(block))

    def _place(self) -> tuple[Shape, Shape, int]:
        if len(self.block) != len(self.shape) or 0 in self.block:
            want = f"an extent of at least 1 for each dimension of {self.shape}"
            raise ContractError("bad block", want=want, got=str(self.block))
        grid = tuple(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))
        axes = grid + self.block
        return axes, _row_major(axes), math.prod(axes)


@dataclass(frozen=True)
class Packed(Layout):
    """Row-major, each row (the last dimension) padded to a multiple of `alignment` elements."""

    alignment: int

    @classmethod
    def of(cls, shape: Iterable[int], alignment: int) -> Packed:
        """`alignment` is at least 1 (ContractError)."""
        return cls(_checked(shape), alignment)

    def _place(self) -> tuple[Shape, Shape, int]:
        if self.alignment < 1:
            raise ContractError("bad alignment", want="at least 1 element", got=str(self.alignment))
        padded = self.shape[:-1] + tuple(-(-n // self.alignment) * self.alignment for n in self.shape[-1:])
        return self.shape, _row_major(padded), math.prod(padded)


def _row_major(extents: Shape) -> Shape:
    return tuple(math.prod(extents[axis + 1 :]) for axis in range(len(extents)))


def _checked(extents: Iterable[int]) -> Shape:
    checked = tuple(operator.index(extent) for extent in extents)
    if any(extent < 0 for extent in checked):
        raise ContractError("a negative extent", want="extents of at least 0", got=str(checked))
    return checked
