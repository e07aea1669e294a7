"""The paged cache of keys and values: writing a step's tokens into their slots."""

from __future__ import annotations

from dataclasses import replace

from assay.kernels.sizes import PAGE
from assay.ops import operator as op
from assay.ops.registry import define
from assay.tensor.dtype import F16, F32, I32

CACHE_TYPES = (F16, F32)
KEYS = op.Port("keys", CACHE_TYPES, "pages H D 64", "cached keys, transposed in their page")
VALUES = op.Port("values", CACHE_TYPES, "pages H 64 D", "cached values", like="keys")


def _reference(
    k: op.Array, v: op.Array, slots: op.Integers, keys: op.Array, values: op.Array
) -> tuple[op.Array, op.Array]:
    heads, d = keys.shape[1:3]
    keys, values = keys.copy(), values.copy()
    page, place = slots // PAGE, slots % PAGE
    keys[page, :, :, place] = k.reshape(len(k), heads, d).astype(keys.dtype)
    values[page, :, place, :] = v.reshape(len(v), heads, d).astype(values.dtype)
    return keys, values


define(
    name="cache_write",
    summary="Writes keys and values of a step's tokens into their slots of the paged cache.",
    formula=(
        "keys[slot / 64, h, d, slot mod 64] = k[t, h, d];  values[slot / 64, h, slot mod 64, d] = v[t, h, d]"
    ),
    inputs=(
        op.Port("k", (F32,), "T H*D", "keys, heads side by side"),
        op.Port("v", (F32,), "T H*D", "values, heads side by side"),
        op.Port("slots", (I32,), "T", "64 · page + place in the page, all different"),
        KEYS,
        VALUES,
    ),
    outputs=(
        replace(KEYS, name="keys_after", doc="the same memory, changed", like="keys"),
        replace(VALUES, name="values_after", doc="the same memory, changed", like="values"),
    ),
    in_place={"keys_after": "keys", "values_after": "values"},
    reference=_reference,
    exactness=op.BITWISE,
    kernels=tuple(
        op.Kernel(name, "k v slots keys values T H D", ("keys", dtype), rows="T")
        for name, dtype in (("kvcache.write_f16", F16), ("kvcache.write_f32", F32))
    ),
    numerics=(
        "To the cache's type, nearest even; a value that becomes infinite or is not finite is "
        "PrecisionOverflow.",
    ),
    not_differentiable=dict.fromkeys(
        ("k", "v", "slots", "keys", "values"), "a cache is written, not computed"
    ),
)
