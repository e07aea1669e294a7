"""Random cases: sizes and attributes from an operator's contract, values that keep what its ports say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, ValueType
from assay.kernels.sizes import PAGE
from assay.ops.operator import Array, Attribute, Operator, Site
from assay.ops.pattern import parse
from assay.ops.sample import BORDER, drawn
from assay.tensor.dtype import DType
from every_op.case import Case, random_weight

Draw = Callable[[st.SearchStrategy[int]], int]
Values = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, int]], Array]

SIZES: dict[tuple[str, str], st.SearchStrategy[int]] = {
    ("attention", "D"): st.sampled_from((16, 32, 64, 80, 256)),
    ("attention", "H"): st.integers(1, 3),
    ("cache_write", "H"): st.integers(1, 3),
    ("cache_write", "pages"): st.integers(1, 4),
    ("rotary", "P"): st.integers(1, 40),
    ("linear", "K"): st.integers(1, 700),
    ("linear", "N"): st.integers(1, 130),
    ("linear_quantized", "B"): st.integers(1, 30),
    ("linear_quantized", "N"): st.integers(1, 130),
    ("lora", "G"): st.integers(1, 4),
    ("lora", "K"): st.integers(1, 700),
    ("lora", "R"): st.one_of(st.integers(1, 40), st.integers(250, 520)),
    ("rms_norm", "N"): st.integers(1, 800),
    ("sample", "V"): st.integers(1, 300),
    ("adjust", "V"): st.integers(1, 300),
}
"""Sizes of names that are not 1 to 40."""
WHOLE = {"linear": ("K", 1), "embedding": ("K", 1), "linear_quantized": ("B", 32)}
"""The name that counts along the blocks of quantised weights, and how many elements it counts."""


def _floats(rng: np.random.Generator, shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    scale = 10.0 ** rng.integers(-3, 3, (*shape[:1], *(1,) * (len(shape) - 1)))
    numbers = rng.normal(0, 1, shape) * scale
    return np.asarray(np.where(rng.random(shape) < 0.02, 0, numbers), np.float32)


def _below(name: str) -> Values:
    return lambda rng, shape, dims: rng.integers(0, dims[name], shape, dtype=np.int32)


def _slots(rng: np.random.Generator, shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    assume(shape[0] <= PAGE * dims["pages"])
    return rng.permutation(PAGE * dims["pages"])[: shape[0]].astype(np.int32)


VALUES: dict[tuple[str, str], Values] = {
    ("embedding", "tokens"): _below("V"),
    ("gather_rows", "rows"): lambda rng, shape, dims: rng.integers(-1, dims["T"] + 1, shape, dtype=np.int32),
    ("segment_mean", "first"): lambda rng, shape, dims: rng.integers(-1, dims["T"], shape, dtype=np.int32),
    ("segment_mean", "last"): lambda rng, shape, dims: rng.integers(0, dims["T"] + 2, shape, dtype=np.int32),
    ("cache_write", "slots"): _slots,
    ("lora", "adapter"): lambda rng, shape, dims: rng.integers(-1, dims["G"], shape, dtype=np.int32),
    ("rotary_table", "positions"): lambda rng, shape, dims: rng.integers(0, 2**20, shape, dtype=np.int32),
    ("rotary_table", "frequencies"): lambda rng, shape, dims: rng.uniform(0, 1, shape).astype(np.float32),
    ("linear_quantized", "q"): lambda rng, shape, dims: rng.integers(-127, 128, shape, dtype=np.int8),
    ("linear_quantized", "scale"): lambda rng, shape, dims: rng.uniform(0, 1, shape).astype(np.float32),
    ("linear_quantized", "sum"): lambda rng, shape, dims: np.zeros(shape, np.int32),
    ("adjust", "asking"): _below("R"),
    ("adjust", "allowed"): lambda rng, shape, dims: rng.integers(-(2**31), 2**31, shape, dtype=np.int32),
    ("adjust", "spans"): lambda rng, shape, dims: np.sort(
        rng.integers(0, dims["E"] + 1, shape, dtype=np.int32)
    ),
    ("adjust", "ids"): _below("V"),
    ("adjust", "counts"): lambda rng, shape, dims: rng.integers(-1, 5, shape, dtype=np.int32),
    ("adjust", "penalties"): lambda rng, shape, dims: rng.uniform(0.3, 2, shape).astype(np.float32),
    ("sample", "source"): lambda rng, shape, dims: rng.integers(-1, dims["A"], shape, dtype=np.int32),
    ("sample", "min_p"): lambda rng, shape, dims: rng.choice(np.float32([0, 0.03, 1]), shape),
    ("sample", "typical_p"): lambda rng, shape, dims: rng.choice(np.float32([1, 0.4]), shape),
    ("sample", "top_n"): lambda rng, shape, dims: rng.integers(0, 21, shape, dtype=np.int32),
    ("sample", "temperature"): lambda rng, shape, dims: rng.choice(np.float32([0, 0.3, 1, 2]), shape),
    ("sample", "top_k"): lambda rng, shape, dims: rng.integers(0, 50, shape, dtype=np.int32),
    ("sample", "top_p"): lambda rng, shape, dims: rng.uniform(0.05, 1.2, shape).astype(np.float32),
    ("sample", "seed"): lambda rng, shape, dims: rng.integers(-(2**63), 2**63, shape, dtype=np.int64),
    ("sample", "choice"): lambda rng, shape, dims: rng.integers(0, 4, shape, dtype=np.int32),
    ("sample", "position"): lambda rng, shape, dims: rng.integers(0, 10**6, shape, dtype=np.int32),
}  # fmt: skip
"""Ports whose values mean more than a number."""


def _attribute(draw: st.DrawFn, attribute: Attribute) -> AttributeValue:
    low = 0 if attribute.low is None else attribute.low
    if attribute.choices:
        return draw(st.sampled_from(attribute.choices))
    if attribute.kind is bool:
        return draw(st.booleans())
    if attribute.kind is int:
        return draw(st.integers(int(low), int(min(low + 80, attribute.high or low + 80))))
    return draw(st.sampled_from((1e-6, 1e-5, 0.125, 1.0)))


def _generic(draw: st.DrawFn, operator: Operator) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    attributes = {attribute.name: _attribute(draw, attribute) for attribute in operator.attributes}
    patterns = {port.name: parse(port.dims) for port in operator.inputs}
    rest = tuple(draw(st.lists(st.integers(1, 12), min_size=0, max_size=4)))
    kinds: dict[str, DType] = {}
    for port in operator.inputs:
        kinds[port.name] = kinds[port.like] if port.like else draw(st.sampled_from(port.dtypes))
    block = max(kind.block for kind in kinds.values())
    along, elements = WHOLE.get(operator.name, ("", 1))
    names = {axis.binds for pattern in patterns.values() for axis in pattern.axes if axis.binds}
    dims = {name: value for name, value in attributes.items() if type(value) is int}
    for name in sorted(names - dims.keys()):
        size = draw(SIZES.get((operator.name, name), st.integers(1, 40)))
        unit = max(1, block // elements) if name == along else 1
        dims[name] = -(-size // unit) * unit
    types, arrays = [], []
    for port in operator.inputs:
        pattern, kind = patterns[port.name], kinds[port.name]
        shape = (*(rest if pattern.rest else ()), *(axis.dim.at(dims) for axis in pattern.axes))
        types.append(ValueType.of(kind, *shape))
        if (operator.name, port.name) in VALUES:
            arrays.append(VALUES[operator.name, port.name](rng, shape, dims))
        elif port.panels:
            arrays.append(random_weight(rng, kind, *shape))
        else:
            assert kind.kind == "float", (
                f"{operator.name}: say in draws.py which numbers {port.name} may hold"
            )
            arrays.append(_floats(rng, shape, dims).astype(kind.numpy))
    symbolic = {name: Dim.of(size) for name, size in dims.items()}
    site = Site(operator, tuple(types), (), symbolic, attributes)
    assume(all(relation.holds(site) for relation in operator.relations))
    return Case(tuple(arrays), tuple(types), attributes, f"{dims} {attributes}")


def _with_sums(case: Case) -> Case:
    q, scale, _, w = case.inputs
    total = q.reshape(len(q), -1, 32).sum(-1).astype(np.int32)
    return Case((q, scale, total, w), case.types, case.attributes, case.name)


def _off_borders(case: Case) -> Case:
    """Rows whose draw is so near to a border that reference and kernel may differ become greedy."""
    for row in range(len(case.inputs[0])):
        if drawn(case.inputs, row)[1] <= BORDER:
            case.inputs[3][row] = 0
    return case


def _attention(draw: st.DrawFn, operator: Operator) -> Case:
    """Sequences with pages in any order; slots that nobody has written hold NaN."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(operator.inputs[1].dtypes))
    d, kv_heads = draw(SIZES["attention", "D"]), draw(SIZES["attention", "H"])
    heads = kv_heads * draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    pasts = [draw(st.one_of(st.integers(0, 130), st.sampled_from((511, 512, 575, 1024)))) for _ in lengths]
    window = draw(st.one_of(st.just(0), st.integers(1, 200)))
    needed = [-(-(past + length) // PAGE) for past, length in zip(pasts, lengths, strict=True)]
    pages = sum(needed) + draw(st.integers(0, 2))
    order = rng.permutation(pages).astype(np.int32)
    table = np.full((len(lengths), max(needed)), draw(st.sampled_from((0, pages - 1))), np.int32)
    keys = np.full((pages, kv_heads, d, PAGE), np.nan, dtype.numpy)
    values = np.full((pages, kv_heads, PAGE, d), np.nan, dtype.numpy)
    for sequence, count in enumerate(needed):
        table[sequence, :count] = mine = order[sum(needed[:sequence]) :][:count]
        for index, page in enumerate(mine):
            filled = min(PAGE, pasts[sequence] + lengths[sequence] - PAGE * index)
            keys[page, :, :, :filled] = rng.normal(0, 1, (kv_heads, d, filled))
            values[page, :, :filled] = rng.normal(0, 1, (kv_heads, filled, d))
    spans = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    q = rng.normal(0, 1, (int(spans[-1]), heads * d)).astype(np.float32)
    inputs = (q, keys, values, spans, np.array(pasts, np.int32), table)
    kinds = (operator.inputs[0].dtypes[0], dtype, dtype, *(port.dtypes[0] for port in operator.inputs[3:]))
    types = tuple(ValueType.of(kind, *array.shape) for kind, array in zip(kinds, inputs, strict=True))
    attributes: dict[str, AttributeValue] = {
        "heads": heads,
        "scale": float(np.float32(d) ** np.float32(-0.5)),
        "window": window,
    }
    return Case(
        inputs, types, attributes, f"{lengths} after {pasts}, {heads}/{kv_heads}×{d}, window {window}"
    )


@st.composite
def drawn_cases(draw: st.DrawFn, operator: Operator) -> Case:
    """A case that keeps the operator's contract."""
    if operator.name == "attention":
        return _attention(draw, operator)
    case = _generic(draw, operator)
    finish = {"linear_quantized": _with_sums, "sample": _off_borders}
    return finish[operator.name](case) if operator.name in finish else case
