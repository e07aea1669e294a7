"""What each older meaning of an operator is in the words of its next version.

A step takes a node that its own version admits; its docstring stands on the operator's page. What it puts
beside the node (Unsqueeze, Reshape, …) is meant as in the newest version. Sources: the texts of all versions;
where they leave a choice, the standard's cases of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from assay.errors import ContractError, near
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Node
from assay.ops.standard.schema import DEFAULT, newest
from assay.tensor.dtype import I64

if TYPE_CHECKING:
    from assay.ops.standard.rewriting import Rewriting


@dataclass
class Draft:
    """The nodes that stand for one node, in the making."""

    node: Node
    context: Rewriting
    nodes: list[Node] = field(default_factory=list)

    def __call__(self, op: str, *inputs: str, out: str = "", **attributes: AttributeValue) -> str:
        """Adds a node under the name and line of the old one; its output's name, which is new unless said."""
        return self.apply(replace(self.node, op=op, attributes=attributes), *inputs, out=out)

    def apply(self, node: Node, *inputs: str, out: str = "") -> str:
        """Adds a node on other inputs; its output's name."""
        output = out or self.context.fresh(node.op.lower())
        self.nodes.append(replace(node, inputs=inputs, outputs=(output,)))
        return output

    def vector(self, values: ArrayLike, dtype: DTypeLike = np.int64) -> str:
        return self.context.constant(np.atleast_1d(np.array(values, dtype)))

    def like_data(self, value: float) -> str:
        """A constant of the element type of the node's first input."""
        dtype = self.context.dtype(self.node.inputs[0])
        with np.errstate(over="ignore"):  # beyond the greatest float16 there is no bound to speak of
            return self.context.constant(np.array(value, dtype.numpy))

    def shaped(self, x: str, like: str, out: str) -> list[Node]:
        """Ends with the elements of `x` in the shape of `like`."""
        self("Reshape", x, self("Shape", like), out=out, allowzero=1)
        return self.nodes

    def inner(self, count: int, node: Node) -> list[Node]:
        """Ends with the node, which gets `count` dimensions of 1 behind those of its second input."""
        first, second = node.inputs
        if count > 0:
            rank = cast(int, self.context.rank(second))
            second = self("Unsqueeze", second, self.vector(range(rank, rank + count)))
        return [*self.nodes, replace(node, inputs=(first, second))]


Value = TypeVar("Value")
Step = Callable[[Node, Draft], list[Node]]


class Rewrite(NamedTuple):
    """One step, and the sentence that the operator's page has of it."""

    text: str
    step: Step


REWRITES: dict[str, dict[int, Rewrite]] = {}
"""By operator, and by the last version that has the old meaning."""


def until(last: int, ops: str, text: str = "") -> Callable[[Step], Step]:
    """Registers a step for some operators."""

    def register(step: Step) -> Step:
        said = text or " ".join((step.__doc__ or "").split())
        for op in ops.split():
            REWRITES.setdefault(op, {})[last] = Rewrite(said, step)
        return step

    return register


def changed(node: Node, *gone: str, **attributes: AttributeValue) -> Node:
    """The node with some attributes taken away and some set."""
    kept = {key: value for key, value in node.attributes.items() if key not in gone}
    return replace(node, attributes=kept | attributes)


def given(node: Node, name: str, default: Value) -> Value:
    """An attribute, of the kind of its default."""
    return cast(Value, node.attributes.get(name, default))


def without(name: str) -> Step:
    return lambda node, new: [changed(node, name)]


def defaults(**attributes: AttributeValue) -> Step:
    """Defaults that later changed, written out."""
    return lambda node, new: [changed(node, **attributes | dict(node.attributes))]


def inputs(*names: str, dtype: DTypeLike = np.int64) -> Step:
    """Attributes that become vectors behind the inputs that there are."""

    def step(node: Node, new: Draft) -> list[Node]:
        values = [cast(ArrayLike, node.attributes[name]) for name in names if name in node.attributes]
        more = (new.vector(value, dtype) for value in values)
        return [replace(changed(node, *names), inputs=(*node.inputs, *more))]

    return step


until(
    1,
    "Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization"
    " LeakyRelu Log Max Mean Min Mul Neg PRelu Reciprocal Relu Reshape Selu Sigmoid Sqrt Sub Sum Tanh",
    "`consumed_inputs`, a hint about memory, is dropped.",
)(without("consumed_inputs"))
until(3, "GRU", "`output_sequence` is dropped: outputs are optional.")(without("output_sequence"))
until(1, "LSTM RNN", "`output_sequence` is dropped: outputs are optional.")(without("output_sequence"))
until(1, "Concat", "The default of `axis`, 1, is written out.")(defaults(axis=1))
until(5, "Clip", "Missing bounds are written out as infinities.")(defaults(min=-np.inf, max=np.inf))
until(5, "Selu", "The rounder defaults of `alpha` and `gamma` are written out.")(
    defaults(alpha=float(np.float32(1.6732)), gamma=float(np.float32(1.0507)))
)
until(10, "RoiAlign", "The coordinates that were meant, `output_half_pixel`, are written out.")(
    defaults(coordinate_transformation_mode="output_half_pixel")
)
until(
    13,
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
    " ReduceSumSquare",
    "The attribute `axes` becomes an input.",
)(inputs("axes"))
until(11, "ReduceSum Squeeze Unsqueeze", "The attribute `axes` becomes an input.")(inputs("axes"))
until(4, "Reshape", "The attribute `shape` becomes an input.")(inputs("shape"))
until(11, "Split", "The attribute `split` becomes an input.")(inputs("split"))
until(1, "TopK", "The attribute `k` becomes an input.")(inputs("k"))
until(7, "Upsample", "The attribute `scales` becomes an input.")(inputs("scales", dtype=np.float32))
until(1, "Pad", "`paddings` is renamed to `pads`.")(
    lambda node, new: [changed(node, "paddings", pads=node.attributes["paddings"])]
)
until(6, "Dropout", "`is_test` becomes the training mode, which is on without it.")(
    lambda node, new: [changed(node, "is_test", training_mode=int(not given(node, "is_test", 0)))]
)
until(11, "Scatter", "It is ScatterElements now.")(lambda node, new: [replace(node, op="ScatterElements")])
until(13, "Split", "Without sizes, the number of outputs is written out as `num_outputs`.")(
    lambda node, new: [node if any(node.inputs[1:]) else changed(node, num_outputs=len(node.outputs))]
)


@until(6, "Add Div Mul Sub")
@until(1, "And Equal Greater Less Or Pow Xor")
def broadcast(node: Node, new: Draft) -> list[Node]:
    """With `broadcast` and `axis`, the second input gets dimensions of 1 behind its own (Unsqueeze)."""
    shapes = [shape for shape in map(new.context.shape, node.inputs) if shape is not None]
    plain = changed(node, "axis", "broadcast")
    if not given(node, "broadcast", 0):
        if len(shapes) == 2 and differ(*shapes):
            left, right = (f"[{', '.join(map(str, shape))}]" for shape in shapes)
            hint = "set the attribute broadcast to 1"
            raise ContractError("shapes differ without broadcast", want=left, got=right, hint=hint)
        return [plain]
    if "axis" not in node.attributes:
        return [plain]
    if len(shapes) < 2:
        raise ContractError("axis needs known ranks", want="inputs of known rank", got="an unknown rank")
    rank, room, axis = len(shapes[0]), len(shapes[0]) - len(shapes[1]), given(node, "axis", 0)
    start = axis + rank if axis < 0 else axis
    if not 0 <= start <= room:
        raise ContractError("axis out of range", want=f"0 to {room}", got=str(axis))
    return new.inner(room - start, plain)


def differ(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
    return len(left) != len(right) or any(a.equals(b) is False for a, b in zip(left, right, strict=True))


@until(9, "Erf")
@until(18, "ReduceLogSum ReduceLogSumExp")
def real(node: Node, new: Draft) -> list[Node]:
    """Integers are cast to float64, and what comes of them back."""
    x, *rest = node.inputs
    if new.context.dtype(x).kind not in ("int", "uint"):
        return [node]
    new("CastLike", new.apply(node, new("Cast", x, to=11), *rest), x, out=node.outputs[0])
    return new.nodes


@until(6, "PRelu")
def slopes(node: Node, new: Draft) -> list[Node]:
    """A vector of slopes is one for each channel: it gets dimensions of 1 behind its own (Unsqueeze)."""
    rank, own = map(new.context.rank, node.inputs)
    return new.inner(rank - 2 if rank is not None and own == 1 else 0, node)


@until(11, "Hardmax LogSoftmax Softmax")
def flat(node: Node, new: Draft) -> list[Node]:
    """It works on all dimensions from `axis` on at once: Flatten, the operator on rows, Reshape."""
    (x,), (y,), axis = node.inputs, node.outputs, given(node, "axis", 1)
    rank = new.context.rank(x)
    if rank is not None and not -rank <= axis < rank:
        raise ContractError("axis out of range", want=f"{-rank} to {rank - 1}", got=str(axis))
    if axis == -1 or (rank is not None and axis == rank - 1):
        return [changed(node, axis=-1)]
    done = new.apply(changed(node, axis=1), new("Flatten", x, axis=axis))
    return new.shaped(done, x, y)


@until(6, "Gemm")
def matrix_sum(node: Node, new: Draft) -> list[Node]:
    """`broadcast` is dropped: C is always broadcast."""
    rank = new.context.rank(node.inputs[2])
    if not given(node, "broadcast", 0) and rank not in (None, 2):
        hint = "set the attribute broadcast to 1"
        raise ContractError("C is no matrix without broadcast", want="rank 2", got=f"rank {rank}", hint=hint)
    return [changed(node, "broadcast")]


@until(6, "BatchNormalization")
def norm_mode(node: Node, new: Draft) -> list[Node]:
    """`is_test` becomes the number of outputs; without it, statistics are made from the batch."""
    plain, more = changed(node, "is_test"), any(node.outputs[1:])
    if given(node, "is_test", 0) and more:
        raise ContractError("statistics of a test", want="the output Y alone", got=", ".join(node.outputs))
    if more or given(node, "is_test", 0):
        return [plain]
    return [replace(plain, outputs=(node.outputs[0], new.context.fresh("mean")))]


@until(7, "BatchNormalization")
def norm_features(node: Node, new: Draft) -> list[Node]:
    """With `spatial` 0 the input is flattened to rows, whose elements are the channels, and shaped back."""
    plain = changed(node, "spatial")
    if given(node, "spatial", 1):
        return [plain]
    x, *vectors = node.inputs
    row = new.vector(-1)
    flats = (new("Flatten", x, axis=1), *(new("Reshape", name, row) for name in vectors))
    done = tuple(new.context.fresh("flat") if name else "" for name in node.outputs)
    new.nodes.append(replace(plain, inputs=flats, outputs=done))
    for result, name, like in zip(done, node.outputs, (x, *[vectors[2]] * 4), strict=False):
        if name:
            new.shaped(result, like, name)
    return new.nodes


@until(9, "BatchNormalization")
def norm_outputs(node: Node, new: Draft) -> list[Node]:
    """More than one output becomes `training_mode`; the batch's own mean and variance, outputs 4 and 5, are
    the running ones of a second node whose momentum is 0.
    """
    y, *four = (*node.outputs, "", "", "", "")[:5]
    if not any(four):
        return [replace(node, outputs=(y,))]
    mean, var, *own = (name or new.context.fresh("statistic") for name in four)
    train = changed(node, training_mode=1)
    own_node = replace(changed(train, momentum=0.0), outputs=(new.context.fresh("y"), *own))
    return [replace(train, outputs=(y, mean, var)), *([own_node] if any(four[2:]) else [])]


@until(7, "Dropout")
def drop_mask(node: Node, new: Draft) -> list[Node]:
    """The mask is cast to the data's type (CastLike)."""
    if not any(node.outputs[1:]):
        return [node]
    y, mask = node.outputs
    kept = new.context.fresh("kept")
    new("CastLike", kept, node.inputs[0], out=mask)
    return [replace(node, outputs=(y, kept)), *new.nodes]


@until(10, "Dropout")
def drop_inputs(node: Node, new: Draft) -> list[Node]:
    """The attribute `ratio` becomes an input."""
    ratio = new.context.constant(np.array(given(node, "ratio", 0.5), np.float32))
    mode = (new.context.constant(np.array(True)),) if given(node, "training_mode", 0) else ()
    return [replace(changed(node, "ratio", "training_mode"), inputs=(node.inputs[0], ratio, *mode))]


@until(1, "Cast")
def cast_to(node: Node, new: Draft) -> list[Node]:
    """The type's name in `to` becomes its number."""
    from onnx import TensorProto

    name, numbers = given(node, "to", ""), dict(TensorProto.DataType.items())
    if name not in numbers:
        hint = near(name.upper(), numbers)
        raise ContractError("attribute to: no element type", want="FLOAT, INT64, …", got=name, hint=hint)
    return [changed(node, to=numbers[name])]


@until(6, "Clip")
def bounds(node: Node, new: Draft) -> list[Node]:
    """`min` and `max` become inputs; missing ones are the bounds of float32."""
    most = float(np.finfo(np.float32).max)
    ends = [new.like_data(given(node, *end)) for end in (("min", -most), ("max", most))]
    return [replace(changed(node, "min", "max"), inputs=(node.inputs[0], *ends))]


@until(2, "Pad")
def pads(node: Node, new: Draft) -> list[Node]:
    """The attributes `pads` and `value` become inputs."""
    widths = new.vector(given(node, "pads", tuple[int, ...]()))
    value = new.like_data(given(node, "value", 0.0))
    return [replace(changed(node, "pads", "value"), inputs=(node.inputs[0], widths, value))]


@until(17, "DFT")
def dft_axis(node: Node, new: Draft) -> list[Node]:
    """The attribute `axis`, by default 1, becomes an input."""
    x, length = (*node.inputs, "")[:2]
    axis = new.context.constant(np.array(given(node, "axis", 1)))
    return [replace(changed(node, "axis"), inputs=(x, length, axis))]


@until(1, "GRU")
def direction(node: Node, new: Draft) -> list[Node]:
    """The default of `direction`, misspelt `foward`, is written out as it was meant."""
    return [changed(node, direction="forward") if given(node, "direction", "foward") == "foward" else node]


@until(1, "GlobalLpPool LpPool")
def power_pool(node: Node, new: Draft) -> list[Node]:
    """`p` becomes an integer; one that isn't whole is written with Abs and Pow around a `p` of 1."""
    p, (x,), (y,) = float(given(node, "p", 2.0)), node.inputs, node.outputs
    if not isfinite(p) or p <= 0:
        raise ContractError("attribute p out of range", want="more than 0", got=repr(p))
    if p.is_integer():
        return [changed(node, p=int(p))]
    powers = new("Pow", new("Abs", x), new.like_data(p))
    total = new.apply(changed(node, p=1), powers)
    new("Pow", total, new.like_data(1 / p), out=y)
    return new.nodes


@until(18, "GroupNormalization")
def group_scales(node: Node, new: Draft) -> list[Node]:
    """With a scale and a bias for each group, groups become the channels of InstanceNormalization."""
    x, scale, bias = node.inputs
    groups = new("Reshape", x, new.vector((0, given(node, "num_groups", 1), -1)))
    normal = replace(changed(node, "num_groups"), op="InstanceNormalization")
    done = new.apply(normal, groups, scale, bias)
    return new.shaped(done, x, node.outputs[0])


@until(16, "GridSample")
def linear_names(node: Node, new: Draft) -> list[Node]:
    """The modes `bilinear` and `bicubic` are called `linear` and `cubic`."""
    mode = given(node, "mode", "")
    return [changed(node, mode=mode.removeprefix("bi")) if mode in ("bilinear", "bicubic") else node]


@until(1, "ai.onnx.ml.LabelEncoder")
def labels(node: Node, new: Draft) -> list[Node]:
    """`classes_strings` becomes keys and values: which of them, the input's type says."""
    names = given(node, "classes_strings", tuple[str, ...]())
    places = tuple(range(len(names)))
    plain = changed(node, "classes_strings")
    if new.context.dtype(node.inputs[0]) == I64:
        return [changed(plain, "default_int64", keys_int64s=places, values_strings=names)]
    return [changed(plain, "default_string", keys_strings=names, values_int64s=places)]


@until(9, "OneHot")
def no_negative(node: Node, new: Draft) -> list[Node]:
    """Negative indices are outside, not counted from the end: they are replaced (Where)."""
    indices, *rest = node.inputs
    zero, beyond = (new.context.constant(np.array(value)) for value in (0, np.iinfo(np.int64).max))
    whole = new("Cast", indices, to=7)
    moved = new("Where", new("Less", whole, zero), beyond, whole)
    return [*new.nodes, replace(node, inputs=(moved, *rest))]


@until(10, "Resize")
def asymmetric(node: Node, new: Draft) -> list[Node]:
    """Coordinates are `asymmetric`; nearest takes the element below where the size grows, and above where it
    shrinks (two nodes where it may do either).
    """
    x, scales = node.inputs
    grow = changed(node, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    shrink = changed(grow, nearest_mode="ceil")
    known = cast("NDArray[np.float32] | None", new.context.value(scales))
    if given(node, "mode", "nearest") != "nearest" or (known is not None and np.all(known >= 1)):
        return [replace(grow, inputs=(x, "", scales))]
    if known is not None and np.all(known <= 1):
        return [replace(shrink, inputs=(x, "", scales))]
    one = new.vector(1, np.float32)
    more, less, grown = new("Max", scales, one), new("Min", scales, one), new.context.fresh("grown")
    both = (replace(grow, inputs=(x, "", more), outputs=(grown,)), replace(shrink, inputs=(grown, "", less)))
    return [*new.nodes, *both]


@until(11, "Resize")
def half_pixels(node: Node, new: Draft) -> list[Node]:
    """Empty inputs become missing ones; `tf_half_pixel_for_nn` becomes `half_pixel` with the rounding that
    takes the same elements.
    """
    shapes = [(name, new.context.shape(name) if name else None) for name in node.inputs]
    node = replace(node, inputs=tuple("" if shape and shape[0].constant == 0 else x for x, shape in shapes))
    if node.attributes.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        return [node]
    mode, nearest = given(node, "mode", "nearest"), given(node, "nearest_mode", "round_prefer_floor")
    rounding = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}  # of what is 1/2 less
    if mode != "nearest" or nearest not in rounding:
        want, got = "mode nearest with floor or round_prefer_floor", f"mode {mode} with {nearest}"
        raise ContractError("tf_half_pixel_for_nn has no newer form here", want=want, got=got)
    return [changed(node, coordinate_transformation_mode="half_pixel", nearest_mode=rounding[nearest])]


@until(8, "Scan")
def scan_batch(node: Node, new: Draft) -> list[Node]:
    """The batch becomes an outer Scan over its rows; rows of given lengths are cut and padded with zeros."""
    lengths, *values = node.inputs
    names = [new.context.fresh("row") for _ in values]
    states = len(values) - given(node, "num_scan_inputs", 1)
    if not 0 <= states < len(values):
        got = str(len(values) - states)
        raise ContractError("num_scan_inputs out of range", want=f"1 to {len(values)}", got=got)
    state, scanned, length = names[:states], names[states:], lengths and new.context.fresh("length")
    zero, end = new.vector(0), ""
    if length:
        end = new("Reshape", length, new.vector(-1))
        scanned = [new("Slice", name, zero, end) for name in scanned]
    done = [new.context.fresh("row") for _ in node.outputs]
    ways = {"scan_input_directions": node.attributes["directions"]} if "directions" in node.attributes else {}
    row = replace(changed(node, "directions", **ways), inputs=(*state, *scanned), outputs=tuple(done))
    new.nodes.append(row)
    if length:
        rest = new("Sub", new("Shape", names[-1], start=0, end=1), end)
        widths = new("Concat", zero, rest, axis=0)
        done[states:] = [new("Pad", name, widths, "", zero) for name in done[states:]]
    own = (*names, length) if length else tuple(names)
    body = Graph(node.name, own, (), (), tuple(new.nodes), tuple(done), {}, {DEFAULT: newest(DEFAULT)})
    outer = replace(node, inputs=(*values, lengths) if length else tuple(values))
    return [replace(outer, attributes={"body": body, "num_scan_inputs": len(own)})]


@until(1, "Slice")
def slice_inputs(node: Node, new: Draft) -> list[Node]:
    """The attributes `starts`, `ends` and `axes`, by default the first ones, become inputs."""
    first = tuple(range(len(given(node, "starts", tuple[int, ...]()))))
    return inputs("starts", "ends", "axes")(changed(node, axes=given(node, "axes", first)), new)


@until(1, "Split")
def split_sizes(node: Node, new: Draft) -> list[Node]:
    """Sizes in an input are cast to int64."""
    x, sizes = (*node.inputs, "")[:2]
    cast_first = replace(node, inputs=(x, new("Cast", sizes, to=7))) if sizes else node
    return [*new.nodes, cast_first]


@until(1, "Tile")
def tile_axis(node: Node, new: Draft) -> list[Node]:
    """The number and the axis become a number for each dimension (ScatterElements into ones)."""
    x, *both = node.inputs
    row, one = new.vector(-1), new.vector(1)
    tiles, axis = (new("Reshape", new("Cast", name, to=7), row) for name in both)
    ones = new("Expand", one, new("Shape", new("Shape", x)))
    repeats = new("ScatterElements", ones, axis, tiles)
    return [*new.nodes, replace(node, inputs=(x, repeats))]


@until(1, "Upsample")
def image_scales(node: Node, new: Draft) -> list[Node]:
    """`height_scale` and `width_scale` become `scales` of all four dimensions, and `bilinear` `linear`."""
    scales = (1.0, 1.0, given(node, "height_scale", 1.0), given(node, "width_scale", 1.0))
    return linear_names(changed(node, "height_scale", "width_scale", scales=scales), new)


@until(10, "Upsample")
def upsample(node: Node, new: Draft) -> list[Node]:
    """It is Resize now, with `asymmetric` coordinates and `floor`."""
    x, scales = node.inputs
    resize = changed(node, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    return [replace(resize, op="Resize", inputs=(x, "", scales))]
