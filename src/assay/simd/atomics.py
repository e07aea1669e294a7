"""Words in memory that several threads change."""

from __future__ import annotations

from numba.core import types

from assay.simd.emit import I64, instruction, pointer


@instruction(types.int64(types.int64, types.int64))
def fetch_add(builder, address, amount):
    """Add to the int64 at `address` atomically (acquire, release); the old value."""
    return builder.atomic_rmw("add", pointer(builder, address, I64), amount, "acq_rel")


@instruction(types.int64(types.int64, types.int64))
def fetch_max(builder, address, value):
    """Raise the int64 at `address` to `value` atomically, if it is less; the old value."""
    return builder.atomic_rmw("max", pointer(builder, address, I64), value, "acq_rel")


@instruction(types.int64(types.int64))
def atomic_get(builder, address):
    """The int64 at `address`, with acquire order."""
    return builder.load_atomic(pointer(builder, address, I64), "acquire", 8)


@instruction(types.int64(types.int64, types.int64, types.int64))
def swap_if(builder, address, old, new):
    """Store `new` in the int64 at `address` atomically if it holds `old` (acquire, release); what it held."""
    place = pointer(builder, address, I64)
    return builder.extract_value(builder.cmpxchg(place, old, new, "acq_rel", "acquire"), 0)
