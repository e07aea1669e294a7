"""The preview domains: steps of training, which run by the standard's own evaluator, and FlexAttention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from assay.graph.graph import ValueType
from assay.ops.operator import Exactness
from assay.ops.standard.control import differ
from assay.ops.standard.definition import one_of
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.registry import define
from assay.ops.standard.schema import numbered
from assay.ops.standard.site import Made, Site
from assay.tensor.dtype import BF16, F16, F32, F64, DType

TRAINING = "ai.onnx.preview.training"


def _trained(states: int, site: Site) -> Sequence[Made]:
    """R, T, then values, their gradients and `states` more of each; out come new values and states."""
    values, rest = divmod(len(site.types) - 2, states + 2)
    want = f"2 + n · {states + 2}: R, T, values, gradients and {states} states of each"
    good = rest == 0 and len(site.node.outputs) == values * (states + 1)
    got = f"{len(site.types)}, and {len(site.node.outputs)} outputs"
    if not site.require(good, "numbers of inputs and outputs", want=want, got=got):
        return []
    for index in (0, 1):
        site.single(index)
    kinds = [site.type(2 + index) for index in range(values)]
    for index in range(2 + values, len(site.types)):
        kind = kinds[(index - 2) % values]
        other = site.dtype(index)
        site.require(other == kind.dtype, "types differ", want=f"{kind.dtype}", got=other, input=index)
        site.match(index, *kind.shape)
    return kinds * (states + 1)


for _name, _states, _formula in (
    (
        "Adagrad",
        1,
        "h += g²; x −= R / (1 + T · decay_factor) · g / (√h + epsilon), g with norm_coefficient · x",
    ),
    (
        "Adam",
        2,
        "v = α v + (1 − α) g; h = β h + (1 − β) g²; x −= R' · v / (√h + epsilon), R' corrected for T",
    ),
    ("Momentum", 1, "v = α v + β g; x −= R · v, or with nesterov R · (g + α v)"),
):
    _more = {"ranges": {"mode": one_of("standard", "nesterov")}} if _name == "Momentum" else {}
    define(
        f"{TRAINING}.{_name}",
        partial(_trained, _states),
        formula=_formula,
        shapes="Those of the values.",
        **_more,
    )


def _gradient(site: Site) -> Sequence[Made]:
    site.refuse("gradients of a graph aren't computed", want="a graph without Gradient", got=site.text("y"),
                hint="export the model for inference")  # fmt: skip
    return []


define(f"{TRAINING}.Gradient", _gradient, formula="Outputs[i] = ∂y / ∂xs[i]", shapes="Those of xs.")


# FlexAttention


def _attention(site: Site) -> Sequence[Made]:
    for index in range(3):
        site.want_rank(index, 4)
    if site.problems:
        return [None]
    (b, heads, length, e), (b2, shared, keys, e2), (b3, shared2, keys2, width) = map(site.shape, range(3))
    for index, left, right, what in (
        (1, b, b2, "batch"), (2, b, b3, "batch"), (1, e, e2, "head size"), (2, keys, keys2, "keys"),
        (2, shared, shared2, "heads of keys"),
    ):  # fmt: skip
        site.agree(left, right, f"sizes of {what}", index)
    site.multiple(heads, shared, "heads aren't whole groups", 0)
    dtype = _precision(site.dtype(0), site["softmax_precision"])
    site.require(dtype is not None, "attribute softmax_precision: no type of floats", want="1, 10, 11 or 16",
                 got=site["softmax_precision"])  # fmt: skip
    scores = ValueType(dtype or F32, (b, heads, length, keys))
    for key in ("score_mod", "prob_mod"):
        if site[key] is not None:
            made = site.infer_body(key, [scores])
            good = len(made) == 1 and not differ(made[0], scores)
            site.require(good, f"what {key} makes", want=str(scores), got=[str(each) for each in made])
    return [(b, heads, length, width)]


def _precision(dtype: DType, number: object) -> DType | None:
    """The type of scores."""
    if isinstance(number, int):
        found = numbered(number)
        return found if found in (F16, BF16, F32, F64) else None
    return F64 if dtype is F64 else F32


def _inline(f: Function, key: str, x: Name) -> Name:
    """A graph in an attribute, on a value; the value as it is where there is none."""
    if f.site[key] is None:
        return x
    body = f.site.body(key)
    names = {name: f"{key}/{name}" for node in body.nodes for name in node.outputs} | {body.inputs[0]: x}
    for node in body.nodes:
        inner = {name: body.renamed(names) for name, body in node.bodies}
        inputs, outputs = (
            tuple(names.get(name, name) for name in each) for each in (node.inputs, node.outputs)
        )
        more = {**node.attributes, **inner}
        f.nodes.append(replace(node, inputs=inputs, outputs=outputs, attributes=more))
    return names.get(body.outputs[0], body.outputs[0])


def _write(f: Function) -> Sequence[Name]:
    (b, heads, length, size), (_, few, keys, _), dtype = f.site.sizes(0), f.site.sizes(1), f.site.dtype(0)
    precision = _precision(dtype, f.site["softmax_precision"])
    wide, rows = F64 if dtype is F64 else F32, heads // few * length
    assert precision
    scale = f.number(size**-0.5 if f.site["scale"] is None else f.site.number("scale"), wide)
    q, k, v = (f.cast(f.input(index), wide) for index in range(3))
    q = f.reshape(f("Mul", q, scale), b, few, rows, size)
    scores = f.reshape(f("MatMul", q, f.moved(k, (0, 1, 3, 2))), b, heads, length, keys)
    weights = f("Softmax", _inline(f, "score_mod", f.cast(scores, precision)), axis=3)
    weights = f.reshape(f.cast(_inline(f, "prob_mod", weights), wide), b, few, rows, keys)
    return [f.cast(f.reshape(f("MatMul", weights, v), b, heads, length, f.site.sizes(2)[3]), dtype)]


define(
    "ai.onnx.preview.FlexAttention", _attention, function=written(_write),
    exactness=Exactness("ulp", "(K + N) / 8 + 512", "of the greatest |V|: two products and a softmax"),
    formula="Y = prob_mod(softmax(score_mod(Q · Kᵀ · scale))) · V",
    shapes="[batch, heads of Q, length, width of V]",
    numerics=("Products are float32, or float64 where Q is; what is between them has softmax_precision.",),
    kernels=(("matmul.<type>, softmax.float32, and what score_mod and prob_mod take", "always"),),
)  # fmt: skip
