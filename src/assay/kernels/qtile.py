"""The register tile of quantised products: R rows of int8 activations × a few columns of packed weights.

How weights are packed is in panels.py.

    y[r, n] = Σ_blocks fma(float(Σ u·a − offset·Σ a), scale_a·scale_w, ·), then fma(scale_a·Σ a, min, ·)

in block order (numerics.md, rule 9). The integer sum is exact, so each processor may form it in its own way:
`vpdpbusd`; `vpmaddubsw` of nibbles, whose sums over a block stay below 2^15; or `pmaddwd` of 16-bit numbers.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from assay.kernels.panels import BLOCK, Format
from assay.simd.memory import half_to_float, load_at, store_at
from assay.simd.target import has_avx2, has_vnni
from assay.simd.vector import F32, I8, I16, I32, I64, call, constant, least, spread


class Lanes:
    """One way to form the integer sums: `columns` per register, and how a group of four depths is
    accumulated.
    """

    columns: int
    planes = 1
    """Accumulators per register of columns."""

    def __init__(self, builder: ir.IRBuilder, form: Format) -> None:
        self.builder = builder
        self.form = form
        self.vi32 = ir.VectorType(I32, self.columns)
        self.vf32 = ir.VectorType(F32, self.columns)
        self.bytes = ir.VectorType(I8, 4 * self.columns)

    def zero(self) -> list[ir.Value]:
        return [constant(self.vi32, 0)] * self.planes

    def splat(self, scalar: ir.Value) -> ir.Value:
        return spread(self.builder, scalar, self.columns)

    def weights(self, group: ir.Value, column: int, high: bool) -> list[ir.Value]:
        """The unsigned bytes at the address of a packed group, for a register of columns: a vector for each
        plane. `high` asks for the high nibbles of a 4-bit format.
        """
        offset = I64(4 * self.columns * column)
        packed = load_at(self.builder, self.builder.add(group, offset), self.bytes, 16)
        word = self.builder.bitcast(packed, self.vi32)
        return self.split(word) if self.form.bits == 8 else [self.nibble(word, high)]

    def nibble(self, word: ir.Value, high: bool) -> ir.Value:
        if high:
            word = self.builder.lshr(word, constant(self.vi32, 4))
        return self.builder.and_(word, constant(self.vi32, 0x0F0F0F0F))

    def split(self, word: ir.Value) -> list[ir.Value]:
        return [word]

    def accumulate(
        self, sums: list[ir.Value], weights: list[ir.Value], activations: ir.Value
    ) -> list[ir.Value]:
        raise NotImplementedError

    def total(self, sums: list[ir.Value]) -> ir.Value:
        """The sums as int32, one for each column."""
        return sums[0]


class Vnni(Lanes):
    columns = 16

    def accumulate(
        self, sums: list[ir.Value], weights: list[ir.Value], activations: ir.Value
    ) -> list[ir.Value]:
        operands = [self.builder.bitcast(value, self.bytes) for value in (weights[0], activations)]
        return [call(self.builder, "llvm.x86.avx512.vpdpbusd.512", self.vi32, sums[0], *operands)]


class Avx2(Lanes):
    """Nibbles by vpmaddubsw into 16 bits: |Σ of 16 products| ≤ 16 · 15 · 127 < 2^15. Bytes are two planes of
    nibbles.
    """

    columns = 8

    def __init__(self, builder: ir.IRBuilder, form: Format) -> None:
        super().__init__(builder, form)
        self.vi16 = ir.VectorType(I16, 16)
        self.planes = 2 if form.bits == 8 else 1

    def zero(self) -> list[ir.Value]:
        return [constant(self.vi16, 0)] * self.planes

    def split(self, word: ir.Value) -> list[ir.Value]:
        return [self.nibble(word, False), self.nibble(word, True)]

    def accumulate(
        self, sums: list[ir.Value], weights: list[ir.Value], activations: ir.Value
    ) -> list[ir.Value]:
        right = self.builder.bitcast(activations, self.bytes)
        products = [
            call(
                self.builder,
                "llvm.x86.avx2.pmadd.ub.sw",
                self.vi16,
                self.builder.bitcast(plane, self.bytes),
                right,
            )
            for plane in weights
        ]
        return [self.builder.add(sum_, product) for sum_, product in zip(sums, products, strict=True)]

    def total(self, sums: list[ir.Value]) -> ir.Value:
        widened = [
            call(self.builder, "llvm.x86.avx2.pmadd.wd", self.vi32, sum_, constant(self.vi16, factor))
            for sum_, factor in zip(sums, (1, 16), strict=False)
        ]
        return widened[0] if len(widened) == 1 else self.builder.add(*widened)


class Words(Lanes):
    """16-bit products of the even and the odd bytes by pmaddwd: what every x86-64 has."""

    columns = 4

    def accumulate(
        self, sums: list[ir.Value], weights: list[ir.Value], activations: ir.Value
    ) -> list[ir.Value]:
        builder, vi16 = self.builder, ir.VectorType(I16, 8)
        eight = constant(vi16, 8)
        unsigned, signed = builder.bitcast(weights[0], vi16), builder.bitcast(activations, vi16)
        even = builder.and_(unsigned, constant(vi16, 0xFF)), builder.ashr(builder.shl(signed, eight), eight)
        odd = builder.lshr(unsigned, eight), builder.ashr(signed, eight)
        total = sums[0]
        for left, right in (even, odd):
            total = builder.add(total, call(builder, "llvm.x86.sse2.pmadd.wd", self.vi32, left, right))
        return [total]


def lanes() -> type[Lanes]:
    """The best way on the processor that is compiled for."""
    if has_vnni():
        return Vnni
    return Avx2 if has_avx2() else Words


def tile(form: Format, rows: int, width: int):
    """On `width` columns, the intrinsic `(a, a_stride, scales, sums, s_stride, record, column, blocks, y,
    y_stride, count) -> registers done`.

    Rows past `count` repeat the last one, and so write it again. Strides are in bytes.
    """

    @intrinsic
    def quantised_tile(
        typingctx, a, a_stride, scales, sums, s_stride, record, column, blocks, y, y_stride, count
    ):
        def emit(context, builder, sig, args):
            way = lanes()(builder, form)
            _emit_tile(builder, way, rows, width // way.columns, *args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11), emit

    return quantised_tile


def _emit_tile(
    builder,
    way,
    rows,
    registers,
    a,
    a_stride,
    scales,
    sums,
    s_stride,
    record,
    column,
    blocks,
    y,
    y_stride,
    count,
):
    form = way.form
    last = builder.sub(count, I64(1))
    numbers = [least(builder, I64(row), last) for row in range(rows)]
    entry = builder.block
    loop = builder.append_basic_block("block")
    done = builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    block = builder.phi(I64)
    block.add_incoming(I64(0), entry)
    accumulators = [[builder.phi(way.vf32) for _ in range(registers)] for _ in range(rows)]
    here = builder.add(record, builder.mul(block, I64(form.record)))
    here_integers = builder.add(here, builder.shl(column, I64(2)))
    here_halves = builder.add(here, builder.shl(column, I64(1)))
    a_rows = [
        builder.add(builder.add(a, builder.mul(number, a_stride)), builder.mul(block, I64(BLOCK)))
        for number in numbers
    ]
    side = builder.mul(block, I64(4))
    s_rows = [builder.add(side, builder.mul(number, s_stride)) for number in numbers]
    integers = _dots(builder, way, rows, registers, here_integers, a_rows)
    scale_w = [
        _halves(builder, way, builder.add(here_halves, I64(form.scales + 2 * way.columns * index)))
        for index in range(registers)
    ]
    minimum = [
        _halves(builder, way, builder.add(here_halves, I64(form.minimums + 2 * way.columns * index)))
        for index in range(registers if form.minimum else 0)
    ]
    results = []
    for row in range(rows):
        scale = load_at(builder, builder.add(scales, s_rows[row]), F32, 4)
        total = load_at(builder, builder.add(sums, s_rows[row]), I32, 4)
        scale_a = way.splat(scale)
        shift = way.splat(builder.mul(total, I32(-form.offset))) if form.offset else None
        scaled = way.splat(builder.fmul(scale, builder.sitofp(total, F32))) if form.minimum else None
        for index in range(registers):
            dot = way.total(integers[row][index])
            if shift is not None:
                dot = builder.add(dot, shift)
            value = _fma(
                builder,
                builder.sitofp(dot, way.vf32),
                builder.fmul(scale_a, scale_w[index]),
                accumulators[row][index],
            )
            if scaled is not None:
                value = _fma(builder, scaled, minimum[index], value)
            results.append((accumulators[row][index], value))
    following = builder.add(block, I64(1))
    for phi, value in results:
        phi.add_incoming(constant(way.vf32, 0.0), entry)
        phi.add_incoming(value, builder.block)
    block.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, blocks), loop, done)
    builder.position_at_end(done)
    for index, (_, value) in enumerate(results):
        row, register = divmod(index, registers)
        address = builder.add(
            builder.add(y, builder.mul(numbers[row], y_stride)), I64(4 * way.columns * register)
        )
        store_at(builder, address, value, 4)


def _dots(
    builder: ir.IRBuilder,
    way: Lanes,
    rows: int,
    registers: int,
    record: ir.Value,
    activations: list[ir.Value],
) -> list[list[list[ir.Value]]]:
    """The integer sums of one block for each row, register and plane.

    Packed groups are a loop that LLVM doesn't unroll: unrolled, it moves loads up and runs out of registers.
    """
    groups, halves = (8, (False,)) if way.form.bits == 8 else (4, (False, True))
    if rows > 1:
        entry, loop, after = (
            builder.block,
            builder.append_basic_block("group"),
            builder.append_basic_block("groups"),
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        number = builder.phi(I64)
        number.add_incoming(I64(0), entry)
        sums = [
            [[builder.phi(zero.type) for zero in way.zero()] for _ in range(registers)] for _ in range(rows)
        ]
        made = _group(builder, way, sums, record, activations, number, halves)
        following = builder.add(number, I64(1))
        number.add_incoming(following, loop)
        for row in range(rows):
            for index in range(registers):
                for phi, zero, value in zip(sums[row][index], way.zero(), made[row][index], strict=True):
                    phi.add_incoming(zero, entry)
                    phi.add_incoming(value, loop)
        # The empty assembly hides the number from LLVM.
        limit = builder.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [I64(groups)], False)
        builder.cbranch(builder.icmp_signed("<", following, limit), loop, after)
        builder.position_at_end(after)
        return made
    made = [[way.zero() for _ in range(registers)]]
    for group in range(groups):
        made = _group(builder, way, made, record, activations, I64(group), halves)
    return made


def _group(builder, way, sums, record, activations, number, halves):
    """Add one packed group to the sums."""
    place = builder.add(record, builder.mul(number, I64(128)))
    depth = builder.shl(number, I64(2))
    for half in halves:
        weights = [way.weights(place, index, half) for index in range(len(sums[0]))]
        made = []
        for row, address in enumerate(activations):
            at = builder.add(builder.add(address, depth), I64(16 * half))
            word = way.splat(load_at(builder, at, I32, 4))
            made.append(
                [way.accumulate(sums[row][index], weights[index], word) for index in range(len(weights))]
            )
        sums = made
    return sums


def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return call(builder, f"llvm.fma.v{a.type.count}f32", a.type, a, b, c)


def _halves(builder: ir.IRBuilder, way: Lanes, address: ir.Value) -> ir.Value:
    """A register of float16 at `address` as float32."""
    return half_to_float(builder, load_at(builder, address, ir.VectorType(I16, way.columns), 2))


def tall() -> int:
    """Rows of the tile for many rows."""
    return 8 if lanes() is Vnni else 4


def width(form: Format) -> int:
    """Columns of the tile for many rows: two accumulators for each row."""
    way = lanes()
    return way.columns if way is Avx2 and form.bits == 8 else 2 * way.columns
