"""Integer sums of quantised products, a register of columns at a time: one way for each kind of processor.

The sum is exact, so each may form it in its own way: `vpdpbusd`; `vpmaddubsw`, whose sums of 16 bits are
widened before they overflow; or `pmaddwd` of 16-bit numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from llvmlite import ir

from assay.kernels.panels import PANEL, Format, Part, parts
from assay.simd.emit import I8, I16, I32, I64, call, constant, load_at, looked_up, spread
from assay.simd.target import has_avx2, has_vnni

Planes = list[ir.Value]
"""A register of columns of unsigned bytes, four depths a word, or of their low and their high halves."""


class Lanes:
    """One way to form the sums: `columns` per register."""

    columns: int
    rows = 4
    """Of the tile for many rows."""
    planes = 1
    """Accumulators per register of columns."""
    together = 1
    """Groups of depth that are accumulated together."""

    def __init__(self, builder: ir.IRBuilder, form: Format) -> None:
        self.builder = builder
        self.form = form
        self.parts = parts(form.bits)
        self.vi32 = ir.VectorType(I32, self.columns)
        self.bytes = ir.VectorType(I8, 4 * self.columns)

    def zero(self) -> list[ir.Value]:
        return [constant(self.vi32, 0)] * self.planes

    def splat(self, scalar: ir.Value) -> ir.Value:
        return spread(self.builder, scalar, self.columns)

    def weights(self, block: ir.Value, group: int, register: int) -> Planes:
        """A group of the block at an address."""
        found = [self._part(block, part, register) for part in self.parts[group]]
        word = reduce(self.builder.or_, found)
        return self.decoded(word) if self.form.codes else self.split(word)

    def _part(self, block: ir.Value, part: Part, register: int) -> ir.Value:
        place = I64(4 * PANEL * part.word + 4 * self.columns * register)
        packed = load_at(self.builder, self.builder.add(block, place), self.bytes, 16)
        word = self._right(self.builder.bitcast(packed, self.vi32), part.shift - part.below)
        return self._bits(word, part.bits, part.below)

    def _right(self, word: ir.Value, shift: int) -> ir.Value:
        return self.builder.lshr(word, constant(self.vi32, shift)) if shift else word

    def _bits(self, word: ir.Value, bits: int, below: int = 0) -> ir.Value:
        """So many bits of each byte, above so many."""
        mask = ((1 << bits) - 1 << below) * 0x01010101
        return self.builder.and_(word, constant(self.vi32, mask))

    def split(self, word: ir.Value) -> Planes:
        return [word]

    def decoded(self, word: ir.Value) -> Planes:
        """The unsigned codes that the word's bytes stand for."""
        raise NotImplementedError

    def look_up(self, name: str, table: Iterable[int], word: ir.Value) -> ir.Value:
        """Each byte's number in a table of 16, by the intrinsic of that name."""
        octets = ir.Constant(self.bytes, [I8(number) for number in table] * (self.columns // 4))
        return call(self.builder, name, self.bytes, octets, self.builder.bitcast(word, self.bytes))

    def accumulate(self, sums: Planes, weights: list[Planes], activations: Planes) -> Planes:
        """Add `together` groups of depth: the weights of each and the activations, a word in all lanes."""
        raise NotImplementedError

    def total(self, sums: list[ir.Value]) -> ir.Value:
        """The sums as int32, one for each column."""
        return sums[0]

    def half_sum(self, address: ir.Value) -> ir.Value:
        """The sum of the 16 activations at an address, an int32."""
        octets = load_at(self.builder, address, ir.VectorType(I8, 16), 1)
        wide = self.builder.sext(octets, ir.VectorType(I16, 16))
        return self.builder.sext(call(self.builder, "llvm.vector.reduce.add.v16i16", I16, wide), I32)


class Vnni(Lanes):
    columns = 16
    rows = 8

    def decoded(self, word: ir.Value) -> Planes:
        return [self.look_up("llvm.x86.avx512.pshuf.b.512", self.form.unsigned_codes, word)]

    def accumulate(self, sums: Planes, weights: list[Planes], activations: Planes) -> Planes:
        operands = [self.builder.bitcast(value, self.bytes) for value in (weights[0][0], activations[0])]
        return [call(self.builder, "llvm.x86.avx512.vpdpbusd.512", self.vi32, sums[0], *operands)]


class Avx2(Lanes):
    """By vpmaddubsw into 16 bits. Of integers of 4 bits, |Σ of 16 products| ≤ 16 · 15 · 127 < 2^15, as many
    as a block has; of 6 bits, |Σ of 4| ≤ 4 · 63 · 127 < 2^15; wider ones are two planes of 4 bits.
    """

    columns = 8

    def __init__(self, builder: ir.IRBuilder, form: Format) -> None:
        super().__init__(builder, form)
        self.vi16 = ir.VectorType(I16, 16)
        self.planes = 2 if form.wide else 1
        self.together = 2 if 4 < form.bits <= 6 else 1

    def zero(self) -> list[ir.Value]:
        return super().zero() if self.together > 1 else [constant(self.vi16, 0)] * self.planes

    def split(self, word: ir.Value) -> Planes:
        if self.planes == 1:
            return [word]
        return [self._bits(word, 4), self._bits(self._right(word, 4), 4)]

    def decoded(self, word: ir.Value) -> Planes:
        codes = self.form.unsigned_codes
        halves = [code & 15 for code in codes], [code >> 4 for code in codes]
        return [self.look_up("llvm.x86.avx2.pshuf.b", half, word) for half in halves]

    def accumulate(self, sums: Planes, weights: list[Planes], activations: Planes) -> Planes:
        right = [self.builder.bitcast(word, self.bytes) for word in activations]
        results = []
        for plane, sum_ in enumerate(sums):
            left = [self.builder.bitcast(planes[plane], self.bytes) for planes in weights]
            products = [
                call(self.builder, "llvm.x86.avx2.pmadd.ub.sw", self.vi16, *each)
                for each in zip(left, right, strict=True)
            ]
            if self.together > 1:
                products = [self._widened(self.builder.add(*products), 1)]
            results.append(self.builder.add(sum_, products[0]))
        return results

    def total(self, sums: list[ir.Value]) -> ir.Value:
        if self.together > 1:
            return sums[0]
        widened = [self._widened(sum_, factor) for sum_, factor in zip(sums, (1, 16), strict=False)]
        return widened[0] if len(widened) == 1 else self.builder.add(*widened)

    def _widened(self, sums: ir.Value, factor: int) -> ir.Value:
        return call(self.builder, "llvm.x86.avx2.pmadd.wd", self.vi32, sums, constant(self.vi16, factor))


class Words(Lanes):
    """16-bit products of the even and the odd bytes by pmaddwd: what every x86-64 has."""

    columns = 4

    def decoded(self, word: ir.Value) -> Planes:
        octets = self.builder.bitcast(word, self.bytes)
        return [self.builder.bitcast(looked_up(self.builder, octets, self.form.unsigned_codes), self.vi32)]

    def accumulate(self, sums: Planes, weights: list[Planes], activations: Planes) -> Planes:
        builder, vi16 = self.builder, ir.VectorType(I16, 8)
        eight = constant(vi16, 8)
        unsigned, signed = (builder.bitcast(value, vi16) for value in (weights[0][0], activations[0]))
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
