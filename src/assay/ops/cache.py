"""The paged cache of keys and values: writing a step's tokens into their slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import PAGE
from assay.ops.operator import (
    BITWISE,
    Address,
    Argument,
    Array,
    Attributes,
    Case,
    Kernel,
    Operator,
    Port,
    Site,
)
from assay.ops.registry import register
from assay.tensor.dtype import F16, F32, I32, DType

CACHE_TYPES = (F16, F32)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    k, v, slots, keys, values = inputs
    heads, d = keys.shape[1:3]
    keys, values = keys.copy(), values.copy()
    page, place = slots // PAGE, slots % PAGE
    keys[page, :, :, place] = k.reshape(len(k), heads, d).astype(keys.dtype)
    values[page, :, place, :] = v.reshape(len(v), heads, d).astype(values.dtype)
    return keys, values


def _arguments(site: Site) -> Sequence[Argument]:
    ports = tuple(map(Address, ("k", "v", "slots", "keys", "values")))
    return *ports, site.dims["T"], site.dims["H"], site.dims["D"]


def _kernel(dtype: DType) -> Kernel:
    return Kernel(
        f"kvcache.write_f{8 * dtype.size}",
        _arguments,
        f"the cache is {dtype}",
        lambda site: site.inputs[3].dtype is dtype,
        rows="T",
    )


def _cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for dtype in CACHE_TYPES:
        for t, pages, h, d in ((1, 1, 1, 16), (70, 3, 2, 64), (5, 4, 3, 80)):
            k, v = (rng.normal(0, 2, (t, h * d)).astype(np.float32) for _ in range(2))
            slots = rng.permutation(pages * PAGE)[:t].astype(np.int32)
            keys = rng.normal(0, 1, (pages, h, d, PAGE)).astype(dtype.numpy)
            values = rng.normal(0, 1, (pages, h, PAGE, d)).astype(dtype.numpy)
            types = (
                ValueType.of(F32, t, h * d),
                ValueType.of(F32, t, h * d),
                ValueType.of(I32, t),
                ValueType.of(dtype, pages, h, d, PAGE),
                ValueType.of(dtype, pages, h, PAGE, d),
            )
            cases.append(
                Case((k, v, slots, keys, values), types, {}, f"{dtype} {t} of {pages} pages, {h}×{d}")
            )
    return cases


register(
    Operator(
        name="cache_write",
        since=1,
        summary="Writes keys and values of a step's tokens into their slots of the paged cache.",
        formula=(
            "keys[slot / 64, h, d, slot mod 64] = k[t, h, d];  values[slot / 64, h, slot mod 64, d] = "
            "v[t, h, d]"
        ),
        inputs=(
            Port("k", (F32,), "T H*D", "keys, heads side by side"),
            Port("v", (F32,), "T H*D", "values, heads side by side"),
            Port("slots", (I32,), "T", "64 · page + place in the page, all different"),
            Port("keys", CACHE_TYPES, "pages H D 64", "cached keys, transposed in their page"),
            Port("values", CACHE_TYPES, "pages H 64 D", "cached values", like="keys"),
        ),
        outputs=(
            Port("keys_after", CACHE_TYPES, "pages H D 64", "the same memory, changed", like="keys"),
            Port("values_after", CACHE_TYPES, "pages H 64 D", "the same memory, changed", like="values"),
        ),
        in_place={"keys_after": "keys", "values_after": "values"},
        reference=_reference,
        exactness=BITWISE,
        kernels=tuple(map(_kernel, CACHE_TYPES)),
        cases=_cases,
        numerics=(
            "To the cache's type, nearest even; a value that becomes infinite or is not finite is "
            "PrecisionOverflow.",
        ),
        not_differentiable=dict.fromkeys(
            ("k", "v", "slots", "keys", "values"), "a cache is written, not computed"
        ),
    )
)
