"""Elements of every type in memory, as vectors of 16 lanes: exact when loaded, rounded once when stored.

Floats of 16 bits and fewer are float32 in lanes, integers int64 (uint64 by itself), bools a mask. A function
that loads or stores takes how many elements are left: of fewer than 16, no others are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from llvmlite import ir
from numba.core import cgutils, types

from assay.simd.emit import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I64,
    call,
    constant,
    instruction,
    load_at,
    named,
    spread,
    store_at,
)
from assay.simd.memory import brain_to_float, float_to_half, half_to_float
from assay.simd.vector import (
    LANES,
    VF32,
    VF64,
    VI32,
    VI64,
    Emit,
    F32x16,
    F64x16,
    I64x16,
    Mask16,
    U64x16,
    Vector,
)  # fmt: skip

VI8, VI16 = ir.VectorType(I8, LANES), ir.VectorType(I16, LANES)


@dataclass(frozen=True)
class Element:
    """How the elements of one type lie in memory and in lanes: `load(address, left)` and
    `store(address, left, vector)`. `bits` are those of
    integers.
    """

    size: int
    vector: Vector
    load: Callable[..., ir.Value]
    store: Callable[..., None]
    bits: int = 0
    signed: bool = False


def float_to_brain(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """<16 x float> to <16 x i16> holding bfloat16, to nearest even; NaN stays NaN."""
    word = builder.bitcast(value, VI32)
    upper = builder.lshr(word, constant(VI32, 16))
    odd = builder.and_(upper, constant(VI32, 1))
    rounded = builder.lshr(builder.add(builder.add(word, constant(VI32, 0x7FFF)), odd), constant(VI32, 16))
    nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(nan, builder.or_(upper, constant(VI32, 0x40)), rounded), VI16)


@dataclass(frozen=True)
class Small:
    """A float of 8 bits or fewer: bits of exponent and mantissa, the exponent's bias, the codes (without the
    sign) of the greatest number, of infinity and of NaN. `unsigned_nan`: the code of the only NaN is −0's.
    """

    exponent: int
    mantissa: int
    bias: int
    greatest: int
    infinity: int | None
    nan: int
    unsigned: bool = False

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    def widen(self, builder: ir.IRBuilder, octets: ir.Value) -> ir.Value:
        """<16 x i8> to <16 x float>, exact: in float32's place the exponent is too small, which one exact
        product corrects, subnormals too.
        """
        word = builder.zext(octets, VI32)
        size = builder.and_(word, constant(VI32, self.sign - 1))
        shifted = builder.bitcast(builder.shl(size, constant(VI32, 23 - self.mantissa)), VF32)
        value = builder.fmul(shifted, constant(VF32, 2.0 ** (127 - self.bias)))
        finite = self.greatest
        for beyond in ("inf", "nan") if self.infinity else ("nan",):
            above = builder.icmp_unsigned(">", size, constant(VI32, finite))
            value = builder.select(above, constant(VF32, float(beyond)), value)
            finite += 1
        negative = builder.icmp_unsigned(
            "!=", builder.and_(word, constant(VI32, self.sign)), constant(VI32, 0)
        )
        value = builder.select(negative, builder.fneg(value), value)
        if self.unsigned:
            only = builder.icmp_unsigned("==", word, constant(VI32, self.nan))
            value = builder.select(only, constant(VF32, float("nan")), value)
        return value

    def narrow(self, builder: ir.IRBuilder, value: ir.Value, saturate: bool = True) -> ir.Value:
        """<16 x float> to <16 x i8>, to nearest even. What is too large is the greatest number, or, unless
        it saturates, infinity where there is one, else NaN. NaN has no sign, nor −0 where that is so.
        """
        word = builder.bitcast(value, VI32)
        size = builder.and_(word, constant(VI32, 0x7FFFFFFF))
        cut = 23 - self.mantissa
        odd = builder.and_(builder.lshr(size, constant(VI32, cut)), constant(VI32, 1))
        moved = ((self.bias - 127) << 23) + (1 << (cut - 1)) - 1
        normal = builder.lshr(builder.add(builder.add(size, constant(VI32, moved)), odd), constant(VI32, cut))
        # Adding this puts the last bit of subnormals at float32's last bit, so that the adder rounds.
        unit = constant(VF32, 2.0 ** (24 - self.bias - self.mantissa))
        tiny = builder.fadd(builder.bitcast(size, VF32), unit)
        tiny = builder.sub(builder.bitcast(tiny, VI32), builder.bitcast(unit, VI32))
        least = constant(VI32, (128 - self.bias) << 23)
        code = builder.select(builder.icmp_unsigned("<", size, least), tiny, normal)
        over = self.nan if self.infinity is None else self.infinity
        large = builder.icmp_unsigned(">", code, constant(VI32, self.greatest))
        code = builder.select(large, constant(VI32, self.greatest if saturate else over), code)
        nan = builder.fcmp_unordered("uno", value, value)
        code = builder.select(nan, constant(VI32, self.nan), code)
        sign = builder.lshr(word, constant(VI32, 31 - self.exponent - self.mantissa))
        # The sign of NaN is the processor's choice.
        sign = builder.select(nan, constant(VI32, 0), builder.and_(sign, constant(VI32, self.sign)))
        if self.unsigned:
            no_sign = builder.icmp_unsigned(
                "==", builder.and_(code, constant(VI32, self.sign - 1)), constant(VI32, 0)
            )
            sign = builder.select(no_sign, constant(VI32, 0), sign)
        return builder.trunc(builder.or_(code, sign), VI8)


SMALL = {
    "float8e4m3fn": Small(4, 3, 7, 0x7E, None, 0x7F),
    "float8e4m3fnuz": Small(4, 3, 8, 0x7F, None, 0x80, unsigned=True),
    "float8e5m2": Small(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8e5m2fnuz": Small(5, 2, 16, 0x7F, None, 0x80, unsigned=True),
    "float4e2m1": Small(2, 1, 1, 0x7, None, 0x8),
}
"""float4e2m1 has no NaN: it becomes −0."""


def _same(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return value


def _element(kind: ir.Type, vector: Vector, widen: Emit = _same, narrow: Emit = _same) -> Element:
    memory = ir.VectorType(kind, LANES)
    size = {F32: 4, F64: 8}.get(kind) or kind.width // 8

    def slot(builder: ir.IRBuilder, left: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Whether there are fewer than 16, and a place for them."""
        place = cgutils.alloca_once(builder, memory)
        return builder.icmp_signed("<", left, I64(LANES)), builder.ptrtoint(place, I64)

    def copy(builder: ir.IRBuilder, to: ir.Value, source: ir.Value, left: ir.Value) -> None:
        places = (builder.inttoptr(address, I8.as_pointer()) for address in (to, source))
        nbytes = builder.mul(left, I64(size))
        call(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *places, nbytes, I1(0))

    @instruction(vector(types.int64, types.int64))
    def load(builder, address, left):
        few, place = slot(builder, left)
        with builder.if_then(few):
            # Lanes that aren't there repeat the first: a constant might be one that overflows.
            store_at(builder, place, spread(builder, load_at(builder, address, kind, size), LANES), size)
            copy(builder, place, address, left)
        return widen(builder, load_at(builder, builder.select(few, place, address), memory, size))

    @instruction(types.void(types.int64, types.int64, vector))
    def store(builder, address, left, value):
        few, place = slot(builder, left)
        store_at(builder, builder.select(few, place, address), narrow(builder, value), size)
        with builder.if_then(few):
            copy(builder, address, place, left)

    return Element(size, vector, load, store)


def _integer(bits: int, signed: bool) -> Element:
    """Integers of fewer than 8 bits take a byte, whose upper bits are 0."""
    kind = ir.IntType(max(bits, 8))
    memory, unused, mask = ir.VectorType(kind, LANES), constant(VI64, 64 - bits), (1 << bits) - 1

    def widen(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        wide = builder.zext(value, VI64)
        upper = builder.shl(wide, unused)
        return builder.ashr(upper, unused) if signed else builder.lshr(upper, unused)

    def narrow(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return builder.trunc(builder.and_(value, constant(VI64, mask)), memory)

    vector = I64x16 if signed or bits < 64 else U64x16
    return replace(_element(kind, vector, widen, narrow), bits=bits, signed=signed)


ELEMENTS = {
    "float32": _element(F32, F32x16),
    "float64": _element(F64, F64x16),
    "float16": _element(I16, F32x16, half_to_float, float_to_half),
    "bfloat16": _element(I16, F32x16, brain_to_float, float_to_brain),
    "bool": _element(
        I8,
        Mask16,
        lambda builder, value: builder.icmp_unsigned("!=", value, constant(VI8, 0)),
        lambda builder, value: builder.zext(value, VI8),
    ),
    **{f"int{bits}": _integer(bits, True) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": _integer(bits, False) for bits in (2, 4, 8, 16, 32, 64)},
    **{name: _element(I8, F32x16, small.widen, small.narrow) for name, small in SMALL.items()},
    **{
        f"{name}_unsaturated": _element(I8, F32x16, small.widen, partial(small.narrow, saturate=False))
        for name, small in SMALL.items()
    },
}
"""By the names of dtypes; a Small's with `_unsaturated` for what is too large."""


def conversion(source: Element, target: Element) -> Callable[..., ir.Value]:
    """The function from lanes of one type to those that the other one stores.

    Floats become integers towards zero, saturated to the target's range, and NaN 0; of targets of fewer than
    8 bits to int64's range, and then they wrap.
    Integers wrap; what isn't 0 is true. Floats of fewer bits than 32 are rounded once, of integers beyond
    2**53 after they were made float64.
    """
    start, end = source.vector, target.vector
    unsigned = start in (U64x16, Mask16)

    @instruction(end(start))
    def convert(builder, value):
        floating = start in (F32x16, F64x16)
        if start == end or (start in (I64x16, U64x16) and end in (I64x16, U64x16)):
            return value
        if end == Mask16:
            zero = ir.Constant(value.type, None)
            if floating:
                return builder.fcmp_unordered("!=", value, zero)
            return builder.icmp_signed("!=", value, zero)
        if end in (I64x16, U64x16):
            if not floating:
                return builder.zext(value, VI64)
            bits = target.bits if target.bits >= 8 else 64
            name = "llvm.fptosi.sat" if target.signed or target.bits < 8 else "llvm.fptoui.sat"
            whole = ir.VectorType(ir.IntType(bits), LANES)
            found = call(builder, f"{name}.{named(whole)}.{named(value.type)}", whole, value)
            return found if bits == 64 else builder.zext(found, VI64)
        if not floating:
            to_float = builder.uitofp if unsigned else builder.sitofp
            if end == F64x16 or target.size == 4:
                return to_float(value, end.llvm)
            value = to_float(value, VF64)
        if end == F64x16:
            return builder.fpext(value, VF64)
        return builder.fptrunc(value, VF32) if target.size == 4 else _to_odd(builder, value)

    return convert


def _to_odd(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """<16 x double> to <16 x float>: of two neighbours the one with an odd last bit, so that a rounding to
    fewer bits that follows gives what it would give of the double.
    """
    near = builder.fptrunc(value, VF32)
    back, word = builder.fpext(near, VF64), builder.bitcast(near, VI32)
    fabs = [call(builder, "llvm.fabs.v16f64", VF64, each) for each in (back, value)]
    beyond = builder.zext(builder.fcmp_ordered(">", *fabs), VI32)
    odd = builder.or_(builder.sub(word, beyond), constant(VI32, 1))
    inexact = builder.fcmp_ordered("!=", back, value)
    return builder.bitcast(builder.select(inexact, odd, word), VF32)
