"""Single elements of a type that is known when the kernel runs: one of four in sizes.py."""

from __future__ import annotations

from assay.kernels.sizes import FLOAT32, FLOAT64, GREATEST, UINT64
from assay.simd.device import device
from assay.simd.memory import (
    copy_bytes,
    get_f32,
    get_f64,
    get_i32,
    get_i64,
    get_u8,
    put_f32,
    put_f64,
    put_i32,
    put_i64,
    put_u8,
)
from assay.simd.numbers import combine
from assay.simd.rounding import f64_bits

SIGN = -(2**63)
MOST = 2**63 - 1


@device
def width(kind):
    """The bytes of one element."""
    return 4 if kind == FLOAT32 else 8


@device
def turned(kind, how, value):
    """An integer so that it has its order as a signed word, where that counts; the same turns it back."""
    return value ^ SIGN if kind == UINT64 and how >= GREATEST else value


@device
def combine_at(kind, how, target, a, b):
    """Store at `target` what `combine` makes of the elements at a and at b."""
    if kind == FLOAT32:
        put_f32(target, combine(how, get_f32(a), get_f32(b)))
    elif kind == FLOAT64:
        put_f64(target, combine(how, get_f64(a), get_f64(b)))
    else:
        left, right = turned(kind, how, get_i64(a)), turned(kind, how, get_i64(b))
        put_i64(target, turned(kind, how, combine(how, left, right)))


@device
def order(kind, address):
    """A word that is the greater the greater the element is. NaN is greater than all, −0 the same as +0."""
    if kind <= UINT64:
        return turned(kind, GREATEST, get_i64(address))
    value = float(get_f32(address)) if kind == FLOAT32 else get_f64(address)
    word = f64_bits(value)
    if value != value:
        return MOST
    return SIGN - word if word < 0 else word


@device
def copy_block(target, source, size):
    """Copy so many bytes, often those of one element."""
    if size == 4:
        put_i32(target, get_i32(source))
    elif size == 8:
        put_i64(target, get_i64(source))
    elif size == 1:
        put_u8(target, get_u8(source))
    else:
        copy_bytes(target, source, size)
