"""Memory at an address: vector and scalar loads and stores, float16 and bfloat16, tails."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from assay.simd.device import device
from assay.simd.emit import F32, I1, I8, I16, I32, I64, call, constant, instruction, load_at, spread, store_at
from assay.simd.target import has_f16c
from assay.simd.vector import LANES, VF32, VF64, VI32, F32x16, F64x16, I32x16

VI16 = ir.VectorType(I16, LANES)


def _loader(result: types.Type, stored: ir.Type, align: int, convert=lambda builder, value: value):
    """The instruction that loads `stored` at an int64 address and converts it into `result`."""

    @instruction(result(types.int64))
    def load(builder, address):
        return convert(builder, load_at(builder, address, stored, align))

    return load


def _storer(value_type: types.Type, align: int, convert=lambda builder, value: value):
    @instruction(types.void(types.int64, value_type))
    def store(builder, address, value):
        store_at(builder, address, convert(builder, value), align)

    return store


def half_to_float(builder: ir.IRBuilder, half: ir.Value) -> ir.Value:
    """<n x i16> holding float16 to <n x float>, exact. Integer arithmetic where there is no F16C."""
    count = half.type.count
    vf32, vi32 = ir.VectorType(F32, count), ir.VectorType(I32, count)
    if has_f16c():
        return builder.fpext(builder.bitcast(half, ir.VectorType(ir.HalfType(), count)), vf32)
    wide = builder.zext(half, vi32)
    sign = builder.shl(builder.and_(wide, constant(vi32, 0x8000)), constant(vi32, 16))
    magnitude = builder.and_(wide, constant(vi32, 0x7FFF))
    shifted = builder.shl(magnitude, constant(vi32, 13))
    # In float32's place the exponent is 112 too small; one exact product corrects it, subnormals too.
    scaled = builder.bitcast(builder.fmul(builder.bitcast(shifted, vf32), constant(vf32, 2.0**112)), vi32)
    special = builder.or_(shifted, constant(vi32, 0x7F800000))
    is_special = builder.icmp_unsigned(">=", magnitude, constant(vi32, 0x7C00))
    return builder.bitcast(builder.or_(sign, builder.select(is_special, special, scaled)), vf32)


def float_to_half(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """<n x float> to <n x i16> holding float16, to nearest even; too large becomes infinity."""
    count = value.type.count
    vf32, vi32, vi16 = (ir.VectorType(kind, count) for kind in (F32, I32, I16))
    if has_f16c():
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(ir.HalfType(), count)), vi16)
    word = builder.bitcast(value, vi32)
    sign = builder.and_(word, constant(vi32, 0x80000000))
    magnitude = builder.xor(word, sign)
    # Normal results: add half an ulp less one plus the last kept bit, then shift. 0xC8000000 moves the
    # exponent by −112.
    odd = builder.and_(builder.lshr(magnitude, constant(vi32, 13)), constant(vi32, 1))
    rounded = builder.add(builder.add(magnitude, constant(vi32, 0xC8000FFF)), odd)
    normal = builder.lshr(rounded, constant(vi32, 13))
    # Subnormal results: adding 0.5 puts the last bit of float16's subnormals at float32's last bit, so the
    # adder rounds.
    half = constant(vf32, 0.5)
    tiny = builder.sub(
        builder.bitcast(builder.fadd(builder.bitcast(magnitude, vf32), half), vi32),
        builder.bitcast(half, vi32),
    )
    result = builder.select(builder.icmp_unsigned("<", magnitude, constant(vi32, 0x38800000)), tiny, normal)
    infinite = builder.icmp_unsigned(">=", magnitude, constant(vi32, 0x477FF000))
    result = builder.select(infinite, constant(vi32, 0x7C00), result)
    nan = builder.icmp_unsigned(">", magnitude, constant(vi32, 0x7F800000))
    result = builder.select(nan, constant(vi32, 0x7E00), result)
    return builder.trunc(builder.or_(result, builder.lshr(sign, constant(vi32, 16))), vi16)


def brain_to_float(builder: ir.IRBuilder, brain: ir.Value) -> ir.Value:
    """<n x i16> holding bfloat16 to <n x float>, exact."""
    count = brain.type.count
    wide = builder.shl(
        builder.zext(brain, ir.VectorType(I32, count)), constant(ir.VectorType(I32, count), 16)
    )
    return builder.bitcast(wide, ir.VectorType(F32, count))


def f32_at(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
    """<count x float> at an address."""
    return load_at(builder, address, ir.VectorType(F32, count), 4)


def f16_at(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
    """<count x float> of float16 at an address."""
    return half_to_float(builder, load_at(builder, address, ir.VectorType(I16, count), 2))


def bf16_at(builder: ir.IRBuilder, address: ir.Value, count: int) -> ir.Value:
    """<count x float> of bfloat16 at an address."""
    return brain_to_float(builder, load_at(builder, address, ir.VectorType(I16, count), 2))


def fetch_at(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Bring what lies at an address into the cache, if it is memory."""
    start = builder.inttoptr(address, I8.as_pointer())
    call(builder, "llvm.prefetch.p0", ir.VoidType(), start, I32(0), I32(3), I32(1))


def _scalar(widen):
    """The conversion of one number by way of a vector's."""

    def convert(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        vector = builder.insert_element(constant(ir.VectorType(I16, 4), 0), number, I32(0))
        return builder.extract_element(widen(builder, vector), I32(0))

    return convert


load = _loader(F32x16, VF32, 4)
load_f64 = _loader(F64x16, VF64, 8)
load_i32 = _loader(I32x16, VI32, 4)
load_f16 = _loader(F32x16, VI16, 2, half_to_float)
load_i8 = _loader(I32x16, ir.VectorType(I8, LANES), 1, lambda builder, value: builder.sext(value, VI32))
store = _storer(F32x16, 4)
store_f64 = _storer(F64x16, 8)
store_i32 = _storer(I32x16, 4)
store_i8 = _storer(I32x16, 1, lambda builder, value: builder.trunc(value, ir.VectorType(I8, LANES)))

get_f32 = _loader(types.float32, F32, 4)
get_f64 = _loader(types.float64, ir.DoubleType(), 8)
get_f16 = _loader(types.float32, I16, 2, _scalar(half_to_float))
get_bf16 = _loader(types.float32, I16, 2, _scalar(brain_to_float))
get_i64 = _loader(types.int64, I64, 8)
get_i32 = _loader(types.int64, I32, 4, lambda builder, value: builder.sext(value, I64))
get_u32 = _loader(types.int64, I32, 4, lambda builder, value: builder.zext(value, I64))
get_u16 = _loader(types.int64, I16, 2, lambda builder, value: builder.zext(value, I64))
get_u8 = _loader(types.int64, I8, 1, lambda builder, value: builder.zext(value, I64))
get_i8 = _loader(types.int64, I8, 1, lambda builder, value: builder.sext(value, I64))
load_bytes = _loader(F32x16, VF32, 1)
store_bytes = _storer(F32x16, 1)

put_f32 = _storer(types.float32, 4)
put_f64 = _storer(types.float64, 8)
put_i64 = _storer(types.int64, 8)
put_i32 = _storer(types.int64, 4, lambda builder, value: builder.trunc(value, I32))
put_u16 = _storer(types.int64, 2, lambda builder, value: builder.trunc(value, I16))
put_u8 = _storer(types.int64, 1, lambda builder, value: builder.trunc(value, I8))


@instruction(types.boolean(types.int64, types.float32))
def put_half(builder, address, value):
    """Store a float32 as float16, to nearest even; whether it became infinite or was not a number."""
    four = builder.insert_element(constant(ir.VectorType(F32, 4), 0.0), value, I32(0))
    half = builder.extract_element(float_to_half(builder, four), I32(0))
    store_at(builder, address, half, 2)
    return builder.icmp_unsigned("==", builder.and_(half, I16(0x7C00)), I16(0x7C00))


@instruction(F32x16(types.int64, types.int64, types.float32))
def load_filled(builder, address, count, fill):
    """The first `count` floats at `address` (1 to 16); other lanes are `fill`, their memory is not read."""
    start, others = builder.inttoptr(address, VF32.as_pointer()), spread(builder, fill, LANES)
    return call(builder, "llvm.masked.load.v16f32.p0", VF32, start, I32(4), _first(builder, count), others)


@instruction(types.void(types.int64, F32x16, types.int64))
def store_part(builder, address, value, count):
    """Store the first `count` lanes; no other memory is written."""
    start, mask = builder.inttoptr(address, VF32.as_pointer()), _first(builder, count)
    call(builder, "llvm.masked.store.v16f32.p0", ir.VoidType(), value, start, I32(4), mask)


@instruction(types.void(*[types.int64] * 3))
def copy_bytes(builder, to, source, count):
    """Copy bytes between places that don't overlap."""
    places = (builder.inttoptr(address, I8.as_pointer()) for address in (to, source))
    call(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *places, count, I1(0))


@device
def load_part(address, count):
    """The first `count` floats at `address` (1 to 16); other lanes are +0, their memory is not read."""
    return load_filled(address, count, 0.0)


@device
def load_row(x, i, n, fill=0.0):
    """Lanes i to i + 15 of a row of n floats, `fill` behind its end."""
    if i + 16 <= n:
        return load(x + 4 * i)
    return load_filled(x + 4 * i, n - i, fill)


@device
def store_row(y, i, n, value):
    """Store lanes i to i + 15 of a row of n floats, as many as it has."""
    if i + 16 <= n:
        store(y + 4 * i, value)
    else:
        store_part(y + 4 * i, value, n - i)


def _first(builder: ir.IRBuilder, count: ir.Value) -> ir.Value:
    lanes = ir.Constant(VI32, list(range(LANES)))
    return builder.icmp_signed("<", lanes, spread(builder, builder.trunc(count, I32), LANES))


@instruction(types.float32(types.int64))
def as_f32(builder, word):
    """The low 32 bits of an int64 as a float32: how a kernel's arguments carry floats."""
    return builder.bitcast(builder.trunc(word, I32), F32)


@intrinsic(prefer_literal=True)
def words(typingctx, args, count):
    """The first `count` arguments of a kernel, a tuple of int64: what follows the address of its counter."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    many = count.literal_value

    def emit(context, builder, sig, values):
        places = [builder.add(values[0], I64(8 * index)) for index in range(1, many + 1)]
        found = [load_at(builder, place, I64, 8) for place in places]
        return context.make_tuple(builder, sig.return_type, found)

    return UniTuple(types.int64, many)(types.int64, count), emit
