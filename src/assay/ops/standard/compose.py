"""Operators made of several kernels' work: values in temporaries, one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.kernels.sizes import REDUCE_SCRATCH
from assay.kernels.strides import reduction
from assay.ops import chain
from assay.ops.operator import Address
from assay.ops.standard.emit import Emitter, bits_of, wide
from assay.ops.standard.site import Site
from assay.tensor.dtype import DType


class Value(NamedTuple):
    """A value of a specialised node, in a kernel's element type."""

    name: str
    kind: ValueType

    @property
    def sizes(self) -> tuple[int, ...]:
        sizes = self.kind.sizes
        assert sizes is not None
        return sizes

    @property
    def address(self) -> Address:
        return Address(self.name)

    def shaped(self, *sizes: int) -> Value:
        """The same elements in another shape."""
        return Value(self.name, ValueType.of(self.kind.dtype, *sizes))


class Composer:
    """Writes a node's kernel calls."""

    def __init__(self, site: Site, emitter: Emitter) -> None:
        self.site = site
        self.emitter = emitter

    def input(self, index: int, dtype: DType | None = None) -> Value:
        """An input in that type; by default halves as float32, small integers as int64."""
        dtype = dtype or wide(self.site.dtype(index))
        return Value(self.emitter.input(index, dtype).name, ValueType(dtype, self.site.shape(index)))

    def output(self, dtype: DType, index: int = 0) -> Value:
        """Where an output is written in such a type; it is cast to its own at the end."""
        shape = self.site.made_type(index).shape
        return Value(self.emitter.narrowed(dtype, index).name, ValueType(dtype, shape))

    def new(self, dtype: DType, *sizes: int) -> Value:
        """A temporary."""
        kind = ValueType.of(dtype, *sizes)
        return Value(self.emitter.temporary(kind.nbytes({})).name, kind)

    def call(
        self, kernel: str, arguments: Sequence[object], *, writes: Sequence[Value | None], scratch: int = 0
    ) -> None:
        """A kernel's call. Among its arguments are values, or None for one that is absent."""
        given = (0 if each is None else each for each in arguments)
        words = [each.address if isinstance(each, Value) else each for each in given]
        targets = [each.address for each in writes if each]
        self.emitter.call(kernel, words, writes=targets, scratch=scratch)

    def map(self, stem: str, *operands: Value | float, to: Value | None = None) -> Value:
        """A block function on values, broadcast together, and then numbers of the first one's type."""
        values = [each for each in operands if isinstance(each, Value)]
        dtype = values[0].kind.dtype
        numbers = [bits_of(each, dtype) for each in operands if not isinstance(each, Value)]
        sizes = np.broadcast_shapes(*(value.sizes for value in values))
        to = to or self.new(dtype, *sizes)
        link = chain.pointwise(stem, list(values), (to.name, ValueType.of(to.kind.dtype, *sizes)), numbers)
        self.emitter.chain(sizes, link)
        return to

    def reduce(
        self, name: str, x: Value, axes: Sequence[int], start: float = 0, to: Value | None = None
    ) -> Value:
        """A reduction that keeps the axes, as 1; `start` is what no elements give."""
        dtype = x.kind.dtype
        if to is None:
            to = self.new(dtype, *(1 if axis in axes else size for axis, size in enumerate(x.sizes)))
        words = reduction(name, dtype.name, x.sizes, axes, start)
        kernel = f"reduce.{dtype}" if dtype.kind == "float" else "reduce.integer"
        self.call(kernel, [x, to, "scratch", *words], writes=[to], scratch=REDUCE_SCRATCH)
        return to

    def moved(self, x: Value, order: Sequence[int], to: Value | None = None) -> Value:
        """The value with its axes in another order."""
        size = x.kind.dtype.size
        sizes = tuple(x.sizes[axis] for axis in order)
        to = to or self.new(x.kind.dtype, *sizes)
        strides = chain.strides(size, x.sizes)
        view = chain.view(size, sizes, [strides[axis] for axis in order])
        self.emitter.copy(chain.Operand(x.name, size, view), self.whole(to), prod(sizes))
        return to

    def fill(self, to: Value, number: float) -> None:
        """All elements the same number."""
        dtype = to.kind.dtype
        operand = chain.Operand("", dtype.size, number=bits_of(number, dtype))
        link = chain.Link(chain.function("min", [dtype], dtype), (operand, operand), self.whole(to))
        self.emitter.chain(to.sizes, link)

    def whole(self, x: Value) -> chain.Operand:
        """A value, as a copy reads or writes it."""
        return chain.Operand(x.name, x.kind.dtype.size)

    def part(self, x: Value, starts: Sequence[int], sizes: Sequence[int]) -> chain.Operand:
        """A box of a value, as a copy reads or writes it."""
        size = x.kind.dtype.size
        strides = [prod(x.sizes[axis + 1 :]) * size for axis in range(len(x.sizes))]
        first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        return chain.Operand(x.name, size, chain.view(size, sizes, strides, first))

    def put(self, x: Value, to: Value, *starts: int) -> None:
        """The value as a box of another one."""
        self.emitter.copy(self.whole(x), self.part(to, starts, x.sizes), prod(x.sizes))

    def padded(self, x: Value, to: Value, axis: int, before: int) -> None:
        """The value along an axis of a larger one, with zeros around."""
        self.fill(to, 0)
        starts = [before if each == axis else 0 for each in range(len(x.sizes))]
        # It reads what it overwrites, too, or it wouldn't wait for that.
        self.emitter.copy(self.whole(x), self.part(to, starts, x.sizes), prod(x.sizes), to.address)

    def slid(self, x: Value, axis: int, start: int, count: int) -> Value:
        """So many places along an axis."""
        sizes = tuple(count if each == axis else size for each, size in enumerate(x.sizes))
        to = self.new(x.kind.dtype, *sizes)
        starts = [start if each == axis else 0 for each in range(len(x.sizes))]
        self.emitter.copy(self.part(x, starts, sizes), self.whole(to), prod(sizes))
        return to


def dims(sizes: Sequence[int]) -> tuple[Dim, ...]:
    """Sizes as a shape."""
    return tuple(map(Dim.of, sizes))
