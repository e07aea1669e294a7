"""Operators that change the type of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops import chain
from assay.ops.standard.definition import FLAG, one_of
from assay.ops.standard.pointwise import one
from assay.ops.standard.registry import define
from assay.ops.standard.schema import numbered, spelled
from assay.ops.standard.site import Array, Made, Site
from assay.tensor.dtype import F32, DType
from assay.tensor.narrow import numpy_of, outside

FEW = {"int4": 4, "float4e": 4, "int2": 2, "float6e": 6}
"""Bits of the types that take more in memory."""


def named(site: Site, key: str, otherwise: DType | None = None, of: DType | None = None) -> DType:
    """The output's element type, whose number is an attribute; another one by default. `of`: a sequence, of
    whose elements it is.
    """
    schema, number = site.definition.schema, site[key]
    default = schema.attributes[key].default
    found = otherwise if otherwise and not number and number == default else numbered(site.integer(key))
    kind = found and ValueType(found, ())
    kind = ValueType(of, (), kind) if of and kind else kind
    if kind is None or spelled(kind) not in schema.outputs[0].types:
        want, got = "the number of a type of the output", found or number
        site.refuse(f"attribute {key}: type not admitted", want=want, got=got)
    return found or F32


def _cast(site: Site) -> Sequence[Made]:
    return [ValueType(named(site, "to"), site.shape(0))]


def _run_cast(input: Array, *, to: int, saturate: int, round_mode: str) -> Array:
    dtype = numbered(to)
    assert dtype
    target = numpy_of(dtype)
    if dtype.kind == "string":
        return input.astype(str).astype(object)
    if input.dtype != object:
        return _narrowed(input, target, dtype.name, saturate, round_mode)
    if any(isinstance(each, Dim) for each in input.flat):
        if dtype.kind not in ("int", "uint"):
            raise ValueError("sizes as other numbers")
        return input
    if target.kind in "fc" or dtype.kind in ("narrow", "float"):
        wide = input.astype(np.float64)
    else:
        wide = np.array([int(each) for each in input.flat], object).reshape(input.shape)
    return wide.astype(target)


def _narrowed(array: Array, target: np.dtype[np.generic], name: str, saturate: int, round_mode: str) -> Array:
    if name == "float8e8m0":
        from onnx.numpy_helper import to_float8e8m0

        return np.asarray(to_float8e8m0(array, bool(saturate), round_mode)).astype(target)
    if name.startswith("float8") and saturate:
        from onnx.numpy_helper import saturate_cast

        return np.asarray(saturate_cast(array, target))
    return array.astype(target)


def _cast_link(site: Site) -> list[chain.Link]:
    (found,) = one("cast", site)
    loose = not site["saturate"] and site.made_type().dtype.name.startswith("float8")
    return [replace(found, function=f"{found.function}_unsaturated") if loose else found]


define(
    "Cast", _cast, ranges={"saturate": FLAG, "round_mode": one_of("up", "down", "nearest")},
    formula="output = input as numbers of the type `to`", shapes="input's.",
    reference=_run_cast, sizes=True, pointwise=_cast_link, unranked=True,
    kernels=(("elementwise.chain with blocks.cast_<from>_<to>", "for all types but strings and float8e8m0"),),
    numerics=("Floats are rounded to nearest, ties to even; they become integers towards zero, the nearest "
              "one in range, and NaN 0. Integers wrap around.",),
)  # fmt: skip
define(
    "CastLike", lambda site: [replace(site.type(1), shape=site.shape(0))], expand=True, unranked=True,
    ranges={"saturate": FLAG, "round_mode": one_of("up", "down", "nearest")},
    formula="output = input as numbers of the type of target_type (Cast)", shapes="input's.",
)  # fmt: skip


def _bit_cast(site: Site) -> Sequence[Made]:
    dtype, bits = named(site, "to"), _bits(site.dtype(0))
    site.require(bits == _bits(dtype), "attribute to: types differ in size",
                 want=f"a type of {bits} bits, as {site.dtype(0)} has", got=dtype)  # fmt: skip
    return [ValueType(dtype, site.shape(0))]


def _run_bit_cast(input: Array, *, to: int) -> Array:
    dtype = numbered(to)
    assert dtype
    return outside(input, dtype)


def _bits(dtype: DType) -> int:
    """Those of one element, as the standard counts them."""
    return next((bits for part, bits in FEW.items() if part in dtype.name), 8 * dtype.size)


define(
    "BitCast", _bit_cast, view=True, formula="output = the bits of input as of the type `to`",
    shapes="input's.", reference=_run_bit_cast,
)  # fmt: skip
