"""Random numbers: Philox, a pure function of (seed, node, position). Without a seed each run draws one."""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, ValueType
from assay.ops.standard.cast import named
from assay.ops.standard.definition import POSITIVE
from assay.ops.standard.function import Function, Name, number_of, written
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site
from assay.tensor.dtype import BOOL, F32, F64, I64
from assay.tensor.narrow import numpy_of

WORD = 0xFFFFFFFF
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Random bits of a number: so many are exact."""
DRAWN = (
    "Philox4x32-10 with the seed as its key and the counter (position, node, 0), the node by the first 32 "
    "bits of SHA-256 of its output's name.",
)
UNIFORM = "u = the first bits of 64 random ones, as many as the type has digits, times their last one's value"


def philox(seed: int, node: int, count: int) -> NDArray[np.uint64]:
    """64 random bits for each of so many positions."""
    k0, k1 = seed & WORD, (seed >> 32) & WORD
    place = np.arange(count, dtype=np.uint64)
    word, half = np.uint64(WORD), np.uint64(32)
    c0, c1, c2, c3 = place & word, np.full(count, node & WORD, np.uint64), place >> half, np.zeros_like(place)
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (b >> half) ^ c1 ^ np.uint64(k0),
            b & word,
            (a >> half) ^ c3 ^ np.uint64(k1),
            a & word,
        )
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c1 << half | c0


def _kind(site: Site) -> Sequence[Made]:
    """The type that `dtype` names, or the input's, in the shape of the attribute or the input."""
    shape = site.integers("shape")
    whole = site.shape(0) if site.types else tuple(map(Dim.of, shape or ()))
    for size in shape or ():
        site.require(size >= 0, "attribute shape: negative size", want="0 or more", got=size)
    return [ValueType(named(site, "dtype", site.dtype(0) if site.types else F32), whole)]


def _uniform(
    *inputs: Array, site: Site, low: float, high: float, seed: float | None, **more: AttributeValue
) -> Array:
    made = site.made_type()
    sizes = inputs[0].shape if inputs else made.sizes or ()
    key = secrets.randbits(64) if seed is None else struct.unpack("<Q", struct.pack("<d", seed))[0]
    node = int.from_bytes(hashlib.sha256(site.node.outputs[0].encode()).digest()[:4], "little")
    digits = DIGITS[made.dtype.name]
    bits = philox(key, node, int(np.prod(sizes, dtype=np.int64))) >> np.uint64(64 - digits)
    numbers = (bits.astype(np.float64) * 2.0**-digits).reshape(sizes)
    return np.asarray(low + (high - low) * numbers).astype(numpy_of(made.dtype))


def _draw(f: Function, shape: Sequence[int], dtype: int) -> Name:
    """Numbers from 0 to below 1, by the node's seed."""
    seed = f.site["seed"]
    given: dict[str, AttributeValue] = {} if seed is None else {"seed": seed}
    return f("RandomUniform", shape=tuple(shape), dtype=dtype, **given)


def _normal(f: Function) -> Sequence[Name]:
    both = _draw(f, (2, *f.site.out()), number_of(F64))
    first, second = (f("Gather", both, f.number(which), axis=0) for which in (0, 1))
    number = [
        f.number(each, F64) for each in (1, -2, 2 * np.pi, f.site.number("scale"), f.site.number("mean"))
    ]
    size = f("Sqrt", f("Mul", f("Log", f("Sub", number[0], first)), number[1]))
    normal = f("Mul", size, f("Cos", f("Mul", second, number[2])))
    return [f.cast(f("Add", f("Mul", normal, number[3]), number[4]), f.site.made_type().dtype)]


for _like in ("", "Like"):
    define(
        f"RandomUniform{_like}", _kind, reference=_uniform, informed=True, unranked=True, numerics=DRAWN,
        formula=f"output = low + (high − low) · u, {UNIFORM}", shapes="The input's." if _like else "`shape`.",
    )  # fmt: skip
    define(
        f"RandomNormal{_like}", _kind, function=written(_normal), unranked=True, numerics=DRAWN,
        formula="output = mean + scale · √(−2 ln(1 − u)) · cos 2πv, u and v uniform, in float64",
        shapes="The input's." if _like else "`shape`.",
        kernels=(("elementwise.chain", "what is made of u and v"),),
    )  # fmt: skip


def _bernoulli(site: Site) -> Sequence[Made]:
    return [ValueType(named(site, "dtype", site.dtype(0)), site.shape(0))]


def _toss(f: Function) -> Sequence[Name]:
    dtype = F64 if f.site.dtype(0) == F64 else F32
    drawn = _draw(f, f.site.sizes(0), number_of(dtype))
    return [f.cast(f("Less", drawn, f.cast(f.input(0), dtype)), f.site.made_type().dtype)]


define(
    "Bernoulli", _bernoulli, function=written(_toss), formula="output = (u < input), u uniform",
    shapes="The input's.",
    kernels=(("elementwise.chain", "the comparison"),), numerics=DRAWN,
    not_differentiable={"input": "a choice has no slope"},
)  # fmt: skip


def _classes(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 2):
        return [None]
    return [ValueType(named(site, "dtype", F32), (site.shape(0)[0], Dim.of(site.integer("sample_size"))))]


def _choose(f: Function) -> Sequence[Name]:
    (batch, classes), many = f.site.sizes(0), f.site.integer("sample_size")
    x, last = f.cast(f.input(0), F64), f.number([1])
    weights = f("Exp", f("Sub", x, f("ReduceMax", x, last)))
    sums = f("CumSum", weights, f.number(1))
    drawn = f("Mul", _draw(f, (batch, many), number_of(F64)), f.slice(sums, 1, classes - 1, classes))
    below = f("LessOrEqual", f.reshape(sums, batch, 1, classes), f.reshape(drawn, batch, many, 1))
    found = f("ReduceSum", f.cast(below, I64), f.number([2]), keepdims=0)
    return [f.cast(f("Min", found, f.number(classes - 1)), f.site.made_type().dtype)]


define(
    "Multinomial", _classes, function=written(_choose), numerics=(*DRAWN,
    "Weights and their sums are float64."),
    formula="output[b, s] = the first class at which the running sum of e^(input[b] − max) is above u · the "
    "whole, u "
    "uniform", shapes="[batch, sample_size]", ranges={"sample_size": POSITIVE},
    kernels=(("elementwise.chain, reduce.float64 and index.cumulate", "all but u"),),
    not_differentiable={"input": "a choice has no slope"},
)  # fmt: skip


def _dropout(site: Site) -> Sequence[Made]:
    for index in (1, 2):
        site.want_rank(index, 0, 1)
    ratio = site.peek(1)
    good = ratio is None or bool(np.all((ratio.astype(np.float64) >= 0) & (ratio.astype(np.float64) < 1)))
    site.require(good, "ratio out of range", want="0 to below 1", got=ratio, input=1)
    site.value(2)
    return [site.shape(0), ValueType(BOOL, site.shape(0))]


def _drop(f: Function) -> Sequence[Name] | None:
    mode, sizes = f.site.peek(2), f.site.sizes(0)
    if f.site.has(2) and mode is None:
        return None
    if mode is None or not mode.reshape(-1)[0]:
        return [
            f("Identity", f.input(0)),
            f("Expand", f.number(True, BOOL), f.number(np.array(sizes, np.int64))),
        ]
    dtype = F64 if f.site.dtype(0) == F64 else F32
    ratio = f.cast(f.reshape(f.input(1)), dtype) if f.site.has(1) else f.number(0.5, dtype)
    mask = f("GreaterOrEqual", _draw(f, sizes, number_of(dtype)), ratio)
    scale = f("Div", f.number(1, dtype), f("Sub", f.number(1, dtype), ratio))
    scaled = f("Mul", f.cast(f.input(0), dtype), scale)
    return [f.cast(f("Where", mask, scaled, f.number(0, dtype)), f.site.dtype(0)), mask]


define(
    "Dropout", _dropout, function=written(_drop), shapes="data's.",
    formula="output = data, mask = true; in training mask = (u ≥ ratio), u uniform, and output = mask ? "
    "data / "
    "(1 − ratio) : 0", numerics=DRAWN, kernels=(("elementwise.chain", "all but u"),),
)  # fmt: skip
