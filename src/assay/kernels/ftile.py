"""The register tiles of matrix products: R rows × a few registers of columns, one multiply-add for each
element and step of K. That is an fma of floats; integers wrap.

y[r, n] = Σ_k fma(a[r, k], b[k, n], ·), k ascending, from zero or from what y holds
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from numba.core import types

from assay.kernels.lanes import lanes
from assay.simd.emit import (
    F32,
    F64,
    I64,
    constant,
    fused,
    instruction,
    least,
    load_at,
    loop,
    spread,
    store_at,
)
from assay.simd.memory import f32_at
from assay.simd.target import has_vnni

Loader = Callable[[ir.IRBuilder, ir.Value, int], ir.Value]
"""(builder, address, columns) to a register of numbers."""


def tall() -> int:
    """Rows of the tile that keeps all registers busy beside two registers of columns."""
    return 12 if has_vnni() else 6


def size_of(kind: ir.Type) -> int:
    """Bytes of a number."""
    return 8 if kind in (F64, I64) else 4


def register(kind: ir.Type) -> int:
    """Numbers of one register."""
    return 4 * lanes().columns // size_of(kind)


def plain(kind: ir.Type) -> Loader:
    """The loader of numbers as they lie in memory."""

    def load(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
        return load_at(builder, address, ir.VectorType(kind, count), size_of(kind))

    return load


class _Tile:
    """What makes a tile's code. Rows past `count` repeat the last one."""

    def __init__(self, builder: ir.IRBuilder, rows: int, width: int, count: ir.Value, kind: ir.Type) -> None:
        self.builder, self.kind, self.size = builder, kind, size_of(kind)
        self.vector = ir.VectorType(kind, register(kind))
        self.registers = range(width // self.vector.count)
        last = builder.sub(count, I64(1))
        self.rows = [least(builder, I64(row), last) for row in range(rows)]

    def row(self, start: ir.Value, stride: ir.Value) -> list[ir.Value]:
        """The address of each row of a matrix."""
        return [self.builder.add(start, self.builder.mul(number, stride)) for number in self.rows]

    def places(self, y: ir.Value, stride: ir.Value) -> list[ir.Value]:
        """The address of each register of y."""
        apart = self.size * self.vector.count
        return [
            self.builder.add(row, I64(apart * index))
            for row in self.row(y, stride)
            for index in self.registers
        ]

    def held(self, places: Sequence[ir.Value]) -> list[ir.Value]:
        return [load_at(self.builder, place, self.vector, self.size) for place in places]

    def add(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return (self.builder.fadd if self.kind in (F32, F64) else self.builder.add)(left, right)

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        if self.kind in (F32, F64):
            return fused(self.builder, a, b, c)
        return self.builder.add(self.builder.mul(a, b), c)

    def splat(self, place: ir.Value) -> ir.Value:
        """The number at an address, in all columns."""
        return spread(self.builder, load_at(self.builder, place, self.kind, self.size), self.vector.count)

    def chosen(self, word: ir.Value, yes: Sequence[ir.Value], no: Sequence[ir.Value]) -> list[ir.Value]:
        """`yes` where the word isn't 0, else `no`."""
        mark = self.builder.icmp_signed("!=", word, I64(0))
        return [self.builder.select(mark, *each) for each in zip(yes, no, strict=True)]

    def sums(self, starts, load: Loader, size: int, a, a_stride, b, b_stride, depth) -> Sequence[ir.Value]:
        """One register for each of `places`, `depth` steps on from `starts`."""
        builder, a_rows, columns = self.builder, self.row(a, a_stride), self.vector.count

        def step(number, sums):
            line = builder.add(b, builder.mul(number, b_stride))
            right = [
                load(builder, builder.add(line, I64(size * columns * i)), columns) for i in self.registers
            ]
            made: list[ir.Value] = []
            for row in a_rows:
                left = self.splat(builder.add(row, builder.mul(number, I64(self.size))))
                made += [self.multiply_add(left, right[i], sums[len(made) + i]) for i in self.registers]
            return made

        return loop(builder, depth, starts, step)

    def store(self, places: Sequence[ir.Value], values: Sequence[ir.Value]) -> None:
        for place, value in zip(places, values, strict=True):
            store_at(self.builder, place, value, self.size)


def tile(rows: int, width: int, load: Loader = f32_at, size: int = 4, kind: ir.Type = F32):
    """The intrinsic `(a, a_stride, b, b_stride, depth, y, y_stride, count, first)` on `width` columns: sums
    from zero.

    Elements of b take `size` bytes, strides are in bytes. Where `first` is 0 the sums are added to what y
    holds. Rows past `count` are computed before any is written, so with `first` = 0 too they write the
    same.
    """

    @instruction(types.void(*[types.int64] * 9))
    def block(builder, a, a_stride, b, b_stride, depth, y, y_stride, count, first):
        made = _Tile(builder, rows, width, count, kind)
        places = made.places(y, y_stride)
        zeros = [constant(made.vector, 0)] * len(places)
        sums = made.sums(zeros, load, size, a, a_stride, b, b_stride, depth)
        more = [made.add(before, each) for before, each in zip(made.held(places), sums, strict=True)]
        made.store(places, made.chosen(first, sums, more))

    return block


def chained(rows: int, width: int, kind: ir.Type = F32):
    """The intrinsic `(a, a_stride, b, b_stride, depth, y, y_stride, count, first, bias)` on `width` columns:
    sums that go on from what y holds, or from zero where `first` isn't 0, so that several calls make one
    chain.

    Strides are in bytes. Where `bias` isn't 0, it is the address of a number for each row, added at the end.
    """

    @instruction(types.void(*[types.int64] * 10))
    def chain(builder, a, a_stride, b, b_stride, depth, y, y_stride, count, first, bias):
        made = _Tile(builder, rows, width, count, kind)
        places = made.places(y, y_stride)
        # What y holds is not waited for where it isn't wanted: some of b is read, which is needed at once.
        held = made.held(made.chosen(first, [b] * len(places), places))
        starts = made.chosen(first, [constant(made.vector, 0)] * len(places), held)
        sums = made.sums(starts, plain(kind), made.size, a, a_stride, b, b_stride, depth)
        # Without a bias its place is some memory that may be read.
        numbers = made.row(made.chosen(bias, [bias], [a])[0], I64(made.size))
        spreads = [made.splat(number) for number in numbers for _ in made.registers]
        biased = [made.add(each, number) for each, number in zip(sums, spreads, strict=True)]
        made.store(places, made.chosen(bias, biased, sums))

    return chain
