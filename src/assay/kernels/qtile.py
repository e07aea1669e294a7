"""The register tile of quantised products: R rows of int8 activations × a few columns of packed weights.

How weights are packed is in panels.py, how integer sums are formed in lanes.py.

    y[r, n] = Σ_groups fma(float(Σ u·a − offset·Σ a), scale_a·scale_w, ·), then fma(scale_a·Σ a, min, ·)

in the order of groups (numerics.md, rule 9). Scales and minimums that are int8 stand for their product with
the record's float16, which float32 holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from assay.kernels.control import LINE
from assay.kernels.lanes import Avx2, Lanes, Vnni, lanes
from assay.kernels.panels import BLOCK, PANEL, Format
from assay.simd.memory import half_to_float, load_at, pointer, store_at
from assay.simd.vector import F32, I8, I16, I32, I64, call, constant, least

AHEAD = 8 << 10
"""Bytes of weights from those that are computed to those that are fetched. It was measured: nearer, memory
is later than the work; without, types of 8 bits and of super-blocks take up to half as long again.
"""


def tile(form: Format, rows: int, width: int):
    """On `width` columns, the intrinsic `(a, a_stride, scales, sums, s_stride, panel, column, blocks, y,
    y_stride, count) -> registers done`.

    Rows past `count` repeat the last one, and so write it again. Strides are in bytes.
    """

    @intrinsic
    def quantised_tile(
        typingctx, a, a_stride, scales, sums, s_stride, panel, column, blocks, y, y_stride, count
    ):
        def emit(context, builder, sig, args):
            way = lanes()(builder, form)
            _Tile(builder, way, rows, width // way.columns).emit(*args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11), emit

    return quantised_tile


def tall() -> int:
    """Rows of the tile for many rows."""
    return 8 if lanes() is Vnni else 4


def width(form: Format) -> int:
    """Columns of the tile for many rows: two accumulators for each row."""
    way = lanes()
    return way.columns if way is Avx2 and form.wide else 2 * way.columns


Registers = list[list[ir.Value]]
"""For each row and each register of columns."""


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
        entry = builder.block
        loop, done = (builder.append_basic_block(name) for name in ("block", "done"))
        builder.branch(loop)
        builder.position_at_end(loop)
        block = builder.phi(I64)
        sofar = [[[builder.phi(self.vf32) for _ in self.registers] for _ in numbers] for _ in self.turns]
        step, side = builder.mul(block, I64(BLOCK)), builder.mul(block, I64(4))
        a_rows = [self._add(a, builder.mul(number, a_stride), step) for number in numbers]
        s_rows = [builder.add(side, builder.mul(number, s_stride)) for number in numbers]
        scale_a = [load_at(builder, builder.add(scales, place), F32, 4) for place in s_rows]
        totals = [load_at(builder, builder.add(sums, place), I32, 4) for place in s_rows]
        groups = [totals] if self.form.groups == 1 else self._halves_of(totals, a_rows)
        following = builder.add(block, I64(1))
        if self.rows == 1:
            self._fetch(panel, block)
        finished = []
        for turn, phis in zip(self.turns, sofar, strict=True):
            first = builder.add(column, I64(self.way.columns * turn))
            values = self._block(phis, self._place(panel, block, first), a_rows, scale_a, groups)
            finished.append(values)
            for row, results in zip(phis, values, strict=True):
                for phi, result in zip(row, results, strict=True):
                    phi.add_incoming(constant(self.vf32, 0.0), entry)
                    phi.add_incoming(result, builder.block)
        block.add_incoming(I64(0), entry)
        block.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, blocks), loop, done)
        builder.position_at_end(done)
        for turn, values in zip(self.turns, finished, strict=True):
            for number, results in zip(numbers, values, strict=True):
                for index, result in enumerate(results, start=turn):
                    at = self._add(y, builder.mul(number, y_stride), I64(4 * self.way.columns * index))
                    store_at(builder, at, result, 4)

    def _fetch(self, panel: ir.Value, block: ir.Value) -> None:
        """Bring a block of what follows into the cache. Several lines are read at once, some of them twice:
        what the processor foresees of that isn't enough.
        """
        first = self.builder.add(panel, self.builder.mul(block, I64(self.form.pace)))
        for line in range(0, self.form.pace, LINE):
            address = pointer(self.builder, self.builder.add(first, I64(AHEAD + line)), I8)
            call(self.builder, "llvm.prefetch.p0", ir.VoidType(), address, I32(0), I32(3), I32(1))

    def _place(self, panel: ir.Value, block: ir.Value, column: ir.Value) -> _Place:
        builder, form = self.builder, self.form
        record, inside = builder.udiv(block, I64(form.blocks)), builder.urem(block, I64(form.blocks))
        record = builder.add(panel, builder.mul(record, I64(form.record)))
        return _Place(record, builder.add(record, builder.mul(inside, I64(form.block))), column)

    def _block(
        self,
        values: Registers,
        place: _Place,
        a_rows: list[ir.Value],
        scale_a: list[ir.Value],
        groups: list[list[ir.Value]],
    ) -> Registers:
        """The values after one more block: group after group, of which `groups` has each row's sums."""
        form = self.form
        for group, total in enumerate(groups):
            dots = self._dots(place, a_rows, group)
            scale_w = self._numbers(place, form.scales, form.super_scales, group)
            minimum = (
                self._numbers(place, form.minimums, form.super_minimums, group) if form.minimum else None
            )
            values = [
                self._row(*each, scale_w, minimum) for each in zip(values, dots, scale_a, total, strict=True)
            ]
        return values

    def _row(
        self,
        values: list[ir.Value],
        dots: list[ir.Value],
        scale_a: ir.Value,
        total: ir.Value,
        scale_w: list[ir.Value],
        minimum: list[ir.Value] | None,
    ) -> list[ir.Value]:
        """One row's values after one more group: of the weights' integers, their scales and minimums."""
        builder, way = self.builder, self.way
        if self.form.offset:
            shift = way.splat(builder.mul(total, I32(-self.form.offset)))
            dots = [builder.add(dot, shift) for dot in dots]
        spread = way.splat(scale_a)
        values = [
            self._fma(builder.sitofp(dot, self.vf32), builder.fmul(spread, scale), value)
            for dot, scale, value in zip(dots, scale_w, values, strict=True)
        ]
        if minimum is None:
            return values
        scaled = way.splat(builder.fmul(scale_a, builder.sitofp(total, F32)))
        return [self._fma(scaled, least, value) for least, value in zip(minimum, values, strict=True)]

    def _halves_of(self, totals: list[ir.Value], a_rows: list[ir.Value]) -> list[list[ir.Value]]:
        """The sums of each half of each row's block."""
        octets, words = ir.VectorType(I8, 16), ir.VectorType(I16, 16)
        first = []
        for address in a_rows:
            wide = self.builder.sext(load_at(self.builder, address, octets, 1), words)
            first.append(
                self.builder.sext(call(self.builder, "llvm.vector.reduce.add.v16i16", I16, wide), I32)
            )
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
                found.append(self._halves(self._add(place.block, twice, I64(own + 2 * PANEL * group))))
                continue
            at = self._add(place.block, first, I64(own + PANEL * group))
            small = load_at(builder, at, ir.VectorType(I8, columns), 1)
            number = builder.sitofp(builder.sext(small, self.way.vi32), self.vf32)
            of_record = self._halves(self._add(place.record, twice, I64(shared)))
            found.append(builder.fmul(number, of_record))
        return found

    def _dots(self, place: _Place, a_rows: list[ir.Value], half: int) -> Registers:
        """The integer sums of a half of the block, or of all of it."""
        builder, way = self.builder, self.way
        block = builder.add(place.block, builder.shl(place.column, I64(2)))
        sums = [[way.zero() for _ in self.registers] for _ in a_rows]
        # Groups g and g + 4 have words in common.
        order = (0, 4, 1, 5, 2, 6, 3, 7) if self.form.groups == 1 else range(4 * half, 4 * half + 4)
        for pair in zip(order[::2], order[1::2], strict=True):
            for first in range(0, 2, way.together):
                sums = self._groups(block, a_rows, sums, pair[first : first + way.together])
            sums = [[[self._fixed(value) for value in each] for each in row] for row in sums]
        return [[way.total(register) for register in row] for row in sums]

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
        made = []
        for address, row in zip(a_rows, sums, strict=True):
            places = [builder.add(address, I64(4 * group)) for group in groups]
            words = [way.splat(load_at(builder, at, I32, 4)) for at in places]
            made.append([way.accumulate(row[index], weights[index], words) for index in self.registers])
        return made

    def _halves(self, address: ir.Value) -> ir.Value:
        """A register of float16 at `address` as float32."""
        kind = ir.VectorType(I16, self.way.columns)
        return half_to_float(self.builder, load_at(self.builder, address, kind, 2))

    def _fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return call(self.builder, f"llvm.fma.v{self.way.columns}f32", self.vf32, a, b, c)

    def _add(self, first: ir.Value, *others: ir.Value) -> ir.Value:
        return reduce(self.builder.add, others, first)
