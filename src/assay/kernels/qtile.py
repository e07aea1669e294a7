"""The register tile of quantised products: R rows of int8 activations × a few columns of packed weights.

How weights are packed is in panels.py, how integer sums are formed in lanes.py.

    y[r, n] = Σ_groups fma(float(Σ u·a − offset·Σ a), scale_a·scale_w, ·), then fma(scale_a·Σ a, min, ·)

in the order of groups (numerics.md, rule 9). Scales and minimums that are int8 stand for their product with
the record's float16, which float32 holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product

from llvmlite import ir
from numba.core import types

from assay.kernels.lanes import Avx2, Lanes, lanes
from assay.kernels.panels import BLOCK, PANEL, Format
from assay.kernels.sizes import LINE
from assay.simd.emit import F32, I8, I32, I64, constant, fused, instruction, least, load_at, loop, store_at
from assay.simd.memory import f16_at, fetch_at

AHEAD = 8 << 10
"""Bytes of weights from those that are computed to those that are fetched. It was measured: nearer, memory
is later than the work; without, types of 8 bits and of super-blocks take up to half as long again.
"""


def tile(form: Format, rows: int, width: int):
    """On `width` columns, the intrinsic `(a, a_stride, scales, sums, s_stride, panel, column, blocks, y,
    y_stride, count)`.

    Rows past `count` repeat the last one, and so write it again. Strides are in bytes.
    """

    @instruction(types.void(*[types.int64] * 11))
    def quantised_tile(
        builder, a, a_stride, scales, sums, s_stride, panel, column, blocks, y, y_stride, count
    ):
        way = lanes()(builder, form)
        made = _Tile(builder, way, rows, width // way.columns)
        made.emit(a, a_stride, scales, sums, s_stride, panel, column, blocks, y, y_stride, count)

    return quantised_tile


def width(form: Format) -> int:
    """Columns of the tile for many rows: two accumulators for each row."""
    way = lanes()
    return way.columns if way is Avx2 and form.wide else 2 * way.columns


@dataclass(frozen=True)
class _Place:
    """Addresses of a record and of one of its blocks, and the first column."""

    record: ir.Value
    block: ir.Value
    column: ir.Value


class _Tile:
    """Emits the code of one tile, of `rows` rows and `registers` registers of columns."""

    def __init__(self, builder: ir.IRBuilder, way: Lanes, rows: int, registers: int) -> None:
        self.builder = builder
        self.way = way
        self.form = way.form
        self.rows = rows
        # One row's registers of columns have only activations in common. Two planes of each are more than the
        # processor has room for, so they take turns.
        self.registers = range(1 if rows == 1 and way.planes > 1 else registers)
        self.turns = range(0, registers, len(self.registers))
        self.vf32 = ir.VectorType(F32, way.columns)

    def emit(self, a, a_stride, scales, sums, s_stride, panel, column, blocks, y, y_stride, count):
        builder = self.builder
        last = builder.sub(count, I64(1))
        numbers = [least(builder, I64(row), last) for row in range(self.rows)]
        places = list(product(self.turns, numbers, self.registers))

        def step(block, sofar):
            depth, side = builder.mul(block, I64(BLOCK)), builder.mul(block, I64(4))
            a_rows = [self._add(a, builder.mul(number, a_stride), depth) for number in numbers]
            s_rows = [builder.add(side, builder.mul(number, s_stride)) for number in numbers]
            scale_a = [load_at(builder, builder.add(scales, place), F32, 4) for place in s_rows]
            totals = [load_at(builder, builder.add(sums, place), I32, 4) for place in s_rows]
            groups = [totals] if self.form.groups == 1 else self._halves_of(totals, a_rows)
            if self.rows == 1:
                self._fetch(panel, block)
            made: list[ir.Value] = []
            for turn in self.turns:
                first = builder.add(column, I64(self.way.columns * turn))
                place = self._place(panel, block, first)
                made += self._block(sofar[len(made) :], place, a_rows, scale_a, groups)
            return made

        results = loop(builder, blocks, [constant(self.vf32, 0.0) for _ in places], step)
        for result, (turn, number, index) in zip(results, places, strict=True):
            at = self._add(y, builder.mul(number, y_stride), I64(4 * self.way.columns * (turn + index)))
            store_at(builder, at, result, 4)

    def _fetch(self, panel: ir.Value, block: ir.Value) -> None:
        """Bring a block of what follows into the cache. Several lines are read at once, some of them twice:
        what the processor foresees of that isn't enough.
        """
        first = self.builder.add(panel, self.builder.mul(block, I64(self.form.pace)))
        for line in range(0, self.form.pace, LINE):
            fetch_at(self.builder, self.builder.add(first, I64(AHEAD + line)))

    def _place(self, panel: ir.Value, block: ir.Value, column: ir.Value) -> _Place:
        builder, form = self.builder, self.form
        record, inside = builder.udiv(block, I64(form.blocks)), builder.urem(block, I64(form.blocks))
        record = builder.add(panel, builder.mul(record, I64(form.record)))
        return _Place(record, builder.add(record, builder.mul(inside, I64(form.block))), column)

    def _block(
        self,
        values: list[ir.Value],
        place: _Place,
        a_rows: list[ir.Value],
        scale_a: list[ir.Value],
        groups: list[list[ir.Value]],
    ) -> list[ir.Value]:
        """The values of each row and register after one more block: group after group, of which `groups` has
        each row's sums.
        """
        form = self.form
        for group, totals in enumerate(groups):
            dots = self._dots(place, a_rows, group)
            numbers = [self._numbers(place, own, shared, group) for own, shared in form.numbers]
            made: list[ir.Value] = []
            for row in zip(scale_a, totals, strict=True):
                made += self._row(values[len(made) :], dots[len(made) :], *row, *numbers)
            values = made
        return values

    def _row(
        self,
        values: list[ir.Value],
        dots: list[ir.Value],
        scale_a: ir.Value,
        total: ir.Value,
        scale_w: list[ir.Value],
        *minimums: list[ir.Value],
    ) -> list[ir.Value]:
        """The first row's values after one more group: of its integers, their scales and minimums."""
        builder, splat = self.builder, self.way.splat
        if self.form.offset:
            shift = splat(builder.mul(total, I32(-self.form.offset)))
            dots = [builder.add(dot, shift) for dot in dots[: len(scale_w)]]
        spread = splat(scale_a)
        values = [
            fused(builder, builder.sitofp(dot, self.vf32), builder.fmul(spread, scale), value)
            for dot, scale, value in zip(dots, scale_w, values, strict=False)
        ]
        for minimum in minimums:
            scaled = splat(builder.fmul(scale_a, builder.sitofp(total, F32)))
            values = [
                fused(builder, scaled, each, value) for each, value in zip(minimum, values, strict=True)
            ]
        return values

    def _halves_of(self, totals: list[ir.Value], a_rows: list[ir.Value]) -> list[list[ir.Value]]:
        """The sums of each half of each row's block."""
        first = [self.way.half_sum(address) for address in a_rows]
        return [first, [self.builder.sub(*each) for each in zip(totals, first, strict=True)]]

    def _numbers(self, place: _Place, own: int, shared: int, group: int) -> list[ir.Value]:
        """A group's scales, or minimums, a register each: `own` and `shared` are where they are in a block
        and in a record.
        """
        builder, columns = self.builder, self.way.columns
        found = []
        for index in self.registers:
            first = builder.add(place.column, I64(columns * index))
            twice = builder.shl(first, I64(1))
            if not self.form.super_block:
                at = self._add(place.block, twice, I64(own + 2 * PANEL * group))
                found.append(f16_at(builder, at, columns))
                continue
            at = self._add(place.block, first, I64(own + PANEL * group))
            small = load_at(builder, at, ir.VectorType(I8, columns), 1)
            number = builder.sitofp(builder.sext(small, self.way.vi32), self.vf32)
            of_record = f16_at(builder, self._add(place.record, twice, I64(shared)), columns)
            found.append(builder.fmul(number, of_record))
        return found

    def _dots(self, place: _Place, a_rows: list[ir.Value], half: int) -> list[ir.Value]:
        """The integer sums of a half of the block, or of all of it."""
        builder, way = self.builder, self.way
        block = builder.add(place.block, builder.shl(place.column, I64(2)))
        sums = [way.zero() for _ in product(a_rows, self.registers)]
        # Groups g and g + 4 have words in common.
        order = (0, 4, 1, 5, 2, 6, 3, 7) if self.form.groups == 1 else range(4 * half, 4 * half + 4)
        for pair in zip(order[::2], order[1::2], strict=True):
            for first in range(0, 2, way.together):
                sums = self._groups(block, a_rows, sums, pair[first : first + way.together])
            sums = [[self._fixed(value) for value in each] for each in sums]
        return [way.total(each) for each in sums]

    def _fixed(self, value: ir.Value) -> ir.Value:
        """The value, computed here, before any later load: if LLVM were to move these, it would run out of
        registers.
        """
        kind = ir.FunctionType(value.type, [value.type])
        return self.builder.asm(kind, "", "=v,0,~{memory}", [value], True)

    def _groups(self, block, a_rows, sums, groups):
        """Add groups to the sums."""
        builder, way = self.builder, self.way
        weights = [[way.weights(block, group, index) for group in groups] for index in self.registers]
        made: list[ir.Value] = []
        for address in a_rows:
            places = [builder.add(address, I64(4 * group)) for group in groups]
            words = [way.splat(load_at(builder, at, I32, 4)) for at in places]
            made += [way.accumulate(sums[len(made) + i], weights[i], words) for i in self.registers]
        return made

    def _add(self, first: ir.Value, *others: ir.Value) -> ir.Value:
        return reduce(self.builder.add, others, first)
