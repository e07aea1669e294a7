"""Nodes of old versions against the same nodes rewritten, both run by ONNX Runtime, or against NumPy where
that has no old version. onnx.reference is no oracle for old versions: it gives them the newest meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper

from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Node
from assay.ops.standard.older import REWRITES
from assay.ops.standard.versions import changes, upgrade
from assay.tensor.dtype import BY_NAME, STRING

NEWEST, NEWEST_ML = 21, 4  # what ONNX Runtime runs whole; no meaning changed since


@dataclass
class Known:
    """A context that knows the inputs' types, and the values of some."""

    arrays: dict[str, np.ndarray]
    values: tuple[str, ...] = ()
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    count: int = 0

    def fresh(self, stem):
        self.count += 1
        return f"{stem}.{self.count}"

    def constant(self, array):
        name = self.fresh("constant")
        self.constants[name] = array
        return name

    def rank(self, name):
        return self.arrays[name].ndim if name in self.arrays else None

    def shape(self, name):
        return tuple(map(Dim.of, self.arrays[name].shape)) if name in self.arrays else None

    def dtype(self, name):
        array = self.arrays[name]
        return STRING if array.dtype == object else BY_NAME[array.dtype.name]

    def value(self, name):
        return self.arrays[name] if name in self.values else None


def proto_of(node):
    attributes = {
        key: graph_of(value) if isinstance(value, Graph) else value for key, value in node.attributes.items()
    }
    domain, _, op = node.op.rpartition(".")
    return helper.make_node(op, node.inputs, node.outputs, domain=domain, **attributes)


def graph_of(graph):
    if isinstance(graph, onnx.GraphProto):
        return graph
    names = [[onnx.ValueInfoProto(name=name) for name in some] for some in (graph.inputs, graph.outputs)]
    return helper.make_graph(list(map(proto_of, graph.nodes)), "body", *names)


def run(nodes, outputs, opset, arrays, constants=None, ml=1):
    given = [
        helper.make_tensor_value_info(
            name,
            TensorProto.STRING if a.dtype == object else helper.np_dtype_to_tensor_dtype(a.dtype),
            a.shape,
        )
        for name, a in arrays.items()
    ]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(map(proto_of, nodes)), "test", given, results, weights)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    # copies: a BatchNormalization that trains may write into its inputs
    return session.run(list(outputs), {name: array.copy() for name, array in arrays.items()})


def written(op, arrays, outputs=1, **attributes):
    """A node on arrays, whose names they get; None is a missing input."""
    names = tuple(f"x{i}" if array is not None else "" for i, array in enumerate(arrays))
    node = Node(op, names, tuple(f"y{i}" for i in range(outputs)), attributes, name="it", line=7)
    return node, {name: array for name, array in zip(names, arrays, strict=True) if name}


def rewritten(version, node, arrays, values=()):
    """The outputs of what is written for the newest version."""
    context = Known(arrays, tuple(f"x{i}" for i in values))
    nodes = upgrade(node, since(node.op, version), context)
    assert all((new.name, new.line) == ("it", 7) for new in nodes)
    return run(nodes, node.outputs, NEWEST, arrays, context.constants, NEWEST_ML)


def since(op, version):
    domain, _, name = op.rpartition(".")
    return defs.get_schema(name, version, domain).since_version


def same(got, want, rtol=2e-6, atol=1e-6):
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == np.asarray(other).dtype or other.dtype == object
        if one.dtype.kind == "f":  # both round a few sums of up to 100 float32 numbers, in other orders
            np.testing.assert_allclose(one, other, rtol, atol)
        else:
            np.testing.assert_array_equal(one, other)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


X2, X3, X4 = normal(4, 5), normal(2, 3, 4), normal(2, 3, 4, 5)
IMAGE = normal(1, 2, 4, 6)
REDUCTIONS = sorted(op for op in REWRITES if op.startswith("Reduce"))
BATCH = [normal(2, 3, 4, 2), *(np.abs(normal(3, seed=seed)) + 0.5 for seed in range(4))]
FEATURES = [BATCH[0], *(np.abs(normal(3, 4, 2, seed=seed)) + 0.5 for seed in range(4))]
GRID = np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)
ROIS = [normal(1, 2, 8, 8), floats([0, 0, 5, 5], [1, 2, 7, 6]), ints(0, 0)]

RUNTIME = [
    *((op, v, [x], {"axis": axis})
      for op in ("Softmax", "LogSoftmax", "Hardmax") for v, x, axis in
      ((7, X2, 0), (10, X4, 2), (11, X4, 0), (11, X4, 1), (12, X4, -1), (12, X4, -2), (11, X4, 3))),
    ("Softmax", 9, [X3], {}), ("Softmax", 11, [X3[..., :0]], {"axis": 1}),
    *((op, 11, [np.abs(X4)], attributes) for op in REDUCTIONS for attributes in
      ({}, {"axes": (1, -1)}, {"axes": (2,), "keepdims": 0})),
    ("ReduceMean", 13, [X4], {"axes": (0, 1)}),
    ("ReduceLogSum", 11, [ints([3, 5], [7, 2])], {"axes": (0,)}),
    ("ReduceLogSumExp", 18, [ints([3, 5], [7, 2]), ints(1)], {}),
    ("Squeeze", 7, [X3[:, :1]], {"axes": (1,)}), ("Squeeze", 11, [X3[:1, :1]], {}),
    ("Squeeze", 12, [X3[:1, :1]], {"axes": (-2,)}),
    ("Unsqueeze", 7, [X2], {"axes": (0, 3)}), ("Unsqueeze", 12, [X2], {"axes": (-1, 1)}),
    ("Slice", 9, [X3], {"starts": (1, -2), "ends": (9, -1)}),
    ("Slice", 7, [X3], {"starts": (0, 1), "ends": (2, 3), "axes": (2, 0)}),
    ("Split", 7, [X4], {"axis": 2}, 2), ("Split", 11, [X4], {"axis": -1, "split": (2, 3)}, 2),
    ("Split", 13, [X4, ints(1, 2)], {"axis": 1}, 2), ("Split", 16, [X4], {"axis": 2}, 4),
    ("TopK", 9, [X2], {"k": 3}, 2), ("TopK", 9, [X2], {"k": 2, "axis": 0}, 2),
    ("Clip", 10, [X2], {}), ("Clip", 6, [X2], {"min": -0.5}), ("Clip", 9, [X2], {"min": -0.5, "max": 0.25}),
    ("Clip", 10, [floats(np.inf, -np.inf, 1)], {"max": 2.0}),
    *(("Pad", 10, [X3], {"pads": (0, 1, 1, 1, -1, 2), "mode": mode, "value": 0.5})
      for mode in ("constant", "edge", "reflect")),
    ("Pad", 2, [X2.astype(np.float64)], {"pads": (1, 0, 0, 1)}),
    ("Upsample", 7, [IMAGE], {"scales": (1.0, 1.0, 2.0, 1.5)}),
    *(("Upsample", 9, [IMAGE, floats(1, 1, 1.7, 2)], {"mode": mode}) for mode in ("nearest", "linear")),
    *(("Resize", 10, [IMAGE, floats(1, 1, *scales)], {"mode": mode})
      for scales in ((2, 1.6), (0.6, 0.7), (2.2, 0.6), (1, 1)) for mode in ("nearest", "linear")),
    ("Resize", 11, [IMAGE, floats(), floats(), ints(1, 2, 7, 5)], {"mode": "linear"}),
    *(("Resize", 11, [IMAGE, floats(), floats(1, 1, 2.5, 0.7)],
       {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": nearest})
      for nearest in ("floor", "round_prefer_floor")),
    ("Scatter", 9, [X2, ints([0, 2]), floats([7, 8])], {"axis": 1}),
    ("Scatter", 10, [X2, ints([0, 2]), floats([7, 8])], {}),
    ("OneHot", 9, [ints(0, 2, 3), ints(3), floats(0.5, 2)], {"axis": 0}),
    *(("BatchNormalization", v, BATCH, {}) for v in (7, 9, 14)),
    ("BatchNormalization", 7, FEATURES, {"spatial": 0}),
    ("BatchNormalization", 9, BATCH, {"momentum": 0.75, "epsilon": 0.125}, 5),
    ("BatchNormalization", 8, BATCH, {}, 5), ("BatchNormalization", 15, BATCH, {"training_mode": 1}, 3),
    ("Dropout", 7, [X2], {"ratio": 0.25}), ("Dropout", 10, [X2], {}, 2),
    ("Dropout", 10, [X2], {"ratio": 0.75}), ("Dropout", 7, [X2], {}, 2),
    ("RoiAlign", 10, ROIS, {"output_height": 2, "output_width": 3, "sampling_ratio": 2}),
    ("RoiAlign", 16, ROIS, {"output_height": 2}),
    *(("GridSample", 16, [IMAGE, GRID], {"mode": mode}) for mode in ("bilinear", "bicubic", "nearest")),
    ("GridSample", 16, [IMAGE, GRID], {"padding_mode": "border", "align_corners": 1}),
    ("GroupNormalization", 18, [normal(2, 6, 3, 5), floats(2, 0.5), floats(1, -1)], {"num_groups": 2}),
    *(("DFT", 17, [X4[..., :size], length], attributes) for size, length, attributes in
      ((1, None, {}), (2, np.array(3, np.int64), {"axis": 2}), (2, None, {"axis": 0, "inverse": 1}))),
    ("DFT", 17, [X4[..., :1]], {"onesided": 1}),
    ("Gemm", 7, [X2, X2.T.copy(), floats(1, 2, 3, 4)], {"alpha": 0.5}),
    ("LpPool", 2, [IMAGE], {"kernel_shape": (2, 2), "p": 1}), ("Reshape", 5, [X3, ints(0, -1)], {}),
    ("GRU", 7, [X3, normal(1, 6, 4), normal(1, 6, 2)], {"hidden_size": 2}, 2),
    ("MaxPool", 8, [IMAGE], {"kernel_shape": (2, 2), "storage_order": 1}, 2),
    ("AveragePool", 7, [IMAGE], {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": 1}),
    ("QuantizeLinear", 10, [X2, np.array(0.02, np.float32), np.array(100, np.uint8)], {}),
    ("ConvTranspose", 10, [X3, normal(3, 2, 3)], {"output_shape": (8,), "strides": (2,)}),
    ("Mod", 10, [ints(-7, 7), ints(3, -3)], {}), ("ArgMax", 7, [floats([1, 3, 3])], {"axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize("case", RUNTIME, ids=lambda case: f"{case[0]}-{case[1]}")
def test_means_the_same_in_onnx_runtime(case):
    op, version, arrays, attributes, outputs = (*case, 1)[:5]
    node, given = written(op, arrays, outputs, **attributes)
    want = run([node], node.outputs, version, given)
    if op == "Dropout":  # the mask of a test is unspecified there: 0 in ONNX Runtime's old version
        want[1:] = [np.ones_like(mask) for mask in want[1:]]
    if op == "BatchNormalization" and outputs == 5:  # the "saved variance" is 1 / sqrt(variance) there
        want[4] = 1 / want[4] ** 2 - node.attributes.get("epsilon", 1e-5)
    same(rewritten(version, node, given), want)


@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.7), (1, 2.5)])
def test_a_resize_whose_scales_are_known_is_one_node(scales):
    node, given = written("Resize", [IMAGE, floats(1, 1, *scales)], mode="nearest")
    assert len(upgrade(node, 10, Known(given, ("x1",)))) == 1
    same(rewritten(10, node, given, values=(1,)), run([node], node.outputs, 10, given))


def batch(x, scale, shift, mean, var, epsilon):
    scale, shift, mean, var = (each.reshape(-1, 1, 1) for each in (scale, shift, mean, var))
    return ((x - mean) / np.sqrt(var + epsilon) * scale + shift).astype(np.float32)


def selu(x, gamma):
    return (gamma * np.where(x <= 0, 1.6732 * np.expm1(x), x)).astype(np.float32)


def statistics(x, mean, var, momentum=0.9):
    own = x.mean((0, 2, 3)), x.var((0, 2, 3))
    return [*(r * momentum + o * (1 - momentum) for r, o in zip((mean, var), own, strict=True)), *own]


OWN = statistics(BATCH[0], *BATCH[3:])
SIZES = np.abs(IMAGE.astype(np.float64))
SQUARE, FOUR = X2 @ X2.T, floats(1, 2, 3, 4)
NUMPY = [
    ("Add", 6, [X4, X4[0, :, :, 0].copy()], {"broadcast": 1, "axis": 1}, [X4 + X4[:1, :, :, :1][0, :, :]]),
    ("Mul", 1, [X4, floats(2, 3)], {"broadcast": 1, "axis": 0}, [X4 * floats(2, 3).reshape(2, 1, 1, 1)]),
    ("Sub", 6, [X4, X4[0, 0]], {"broadcast": 1}, [X4 - X4[0, 0]]),
    ("Div", 6, [X4, floats([2])], {"broadcast": 1}, [X4 / 2]),
    ("Pow", 1, [np.abs(X3), floats(1, 2, 3)], {"broadcast": 1, "axis": -2},
     [np.abs(X3) ** floats(1, 2, 3).reshape(3, 1)]),
    ("Add", 1, [X2, X2], {"consumed_inputs": (0, 0)}, [X2 + X2]),
    ("Greater", 1, [X3, np.array(0.5, np.float32)], {"broadcast": 1, "axis": 1}, [X3 > 0.5]),
    ("Less", 1, [X3, X3[0]], {"broadcast": 1}, [np.less(X3, X3[0])]),
    ("Equal", 1, [ints([1, 2], [3, 3]), ints(1, 3)], {"broadcast": 1, "axis": 0},
     [np.array([[True, False], [True, True]])]),
    *((op, 1, [X2 > 0, X2[:, 0] > 0], {"broadcast": 1, "axis": 0}, [f(X2 > 0, X2[:, :1] > 0)])
      for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor))),
    ("PRelu", 6, [X4, floats(1, 2, 3)], {}, [np.where(X4 < 0, X4 * floats(1, 2, 3).reshape(3, 1, 1), X4)]),
    ("PRelu", 6, [floats(-1, 2), floats(3)], {}, [floats(-3, 2)]),
    ("PRelu", 1, [X4, floats(3)], {"consumed_inputs": (0,)}, [np.where(X4 < 0, X4 * 3, X4)]),
    ("Gemm", 6, [X2, X2, FOUR], {"broadcast": 1, "transB": 1}, [SQUARE + FOUR]),
    ("Gemm", 1, [X2, X2, SQUARE], {"transB": 1}, [2 * SQUARE]),
    ("Abs", 1, [X2], {"consumed_inputs": (0,)}, [np.abs(X2)]),
    ("Sum", 1, [X2, X2], {"consumed_inputs": (0, 0)}, [X2 + X2]),
    ("BatchNormalization", 6, BATCH, {"is_test": 1}, [batch(*BATCH, 1e-5)]),
    ("BatchNormalization", 1, BATCH, {"is_test": 1, "consumed_inputs": (0, 0, 0, 1, 1)},
     [batch(*BATCH, 1e-5)]),
    ("BatchNormalization", 6, BATCH, {}, [batch(*BATCH[:3], *OWN[2:], 1e-5)]),
    ("BatchNormalization", 6, BATCH, {}, [batch(*BATCH[:3], *OWN[2:], 1e-5), *OWN]),
    ("BatchNormalization", 9, BATCH, {}, [batch(*BATCH[:3], *OWN[2:], 1e-5), *OWN]),
    ("BatchNormalization", 7, FEATURES, {"spatial": 0, "momentum": 0.0},
     [(FEATURES[0] - FEATURES[0].mean(0)) / np.sqrt(FEATURES[0].var(0) + 1e-5) * FEATURES[1] + FEATURES[2],
      FEATURES[0].mean(0), FEATURES[0].var(0), FEATURES[0].mean(0), FEATURES[0].var(0)]),
    ("Dropout", 6, [X2], {"is_test": 1}, [X2]),
    ("Cast", 1, [X2], {"to": "INT32"}, [X2.astype(np.int32)]),
    ("Concat", 1, [X2, X2], {}, [np.concatenate([X2, X2], 1)]),
    ("Concat", 1, [X2, X2], {"axis": 0}, [np.concatenate([X2, X2])]),
    ("Selu", 1, [X2], {"consumed_inputs": (0,)}, [selu(X2, 1.0507)]),
    ("Selu", 1, [X2], {"gamma": 2.0}, [selu(X2, 2)]),
    ("Reshape", 1, [X3], {"shape": (0, -1)}, [X3.reshape(2, 12)]),
    ("Reshape", 1, [floats(3)], {"shape": ()}, [np.array(3, np.float32)]),
    ("LpPool", 1, [IMAGE], {"kernel_shape": (1, 6), "p": 2}, [np.sqrt((IMAGE**2).sum(-1, keepdims=True))]),
    ("LpPool", 1, [IMAGE], {"kernel_shape": (4, 6), "p": 2.5},
     [((SIZES**2.5).sum((2, 3), keepdims=True) ** 0.4).astype(np.float32)]),
    ("GlobalLpPool", 1, [IMAGE], {"p": 0.5},
     [((SIZES**0.5).sum((2, 3), keepdims=True) ** 2).astype(np.float32)]),
    ("GlobalLpPool", 1, [IMAGE], {}, [np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))]),
    ("Split", 1, [X2, floats(1, 3)], {"axis": 0}, [X2[:1], X2[1:]]),
    ("Split", 1, [X2], {"axis": 1, "split": (2, 3)}, [X2[:, :2], X2[:, 2:]]),
    ("Split", 1, [X2], {}, [X2[:2], X2[2:]]),
    ("Tile", 1, [X3, floats(3), floats(1)], {}, [np.tile(X3, (1, 3, 1))]),
    ("Tile", 1, [X3, np.array(2, np.float32), np.array(2, np.float32)], {}, [np.tile(X3, (1, 1, 2))]),
    ("Upsample", 1, [IMAGE], {"height_scale": 2.0, "width_scale": 3.0}, [IMAGE.repeat(2, 2).repeat(3, 3)]),
    ("Upsample", 1, [floats([[[0, 1]]])], {"height_scale": 1.0, "width_scale": 2.0, "mode": "bilinear"},
     [floats([[[0, 0.5, 1, 1]]])]),
    ("Clip", 1, [floats(np.inf, -3, 1)], {"min": -2.0}, [floats(np.inf, -2, 1)]),
    ("Clip", 1, [floats(-np.inf, 3)], {"max": 2.0}, [floats(-np.inf, 2)]),
    ("Clip", 6, [floats(np.inf)], {"min": -2.0}, [floats(np.finfo(np.float32).max)]),
    ("Clip", 6, [np.array([7, -9], np.float16)], {"min": -2.0}, [np.array([7, -2], np.float16)]),
    ("Pad", 1, [X2], {"paddings": (0, 2, 1, 0), "value": 3.0},
     [np.pad(X2, ((0, 1), (2, 0)), constant_values=3)]),
    ("OneHot", 9, [ints(0, -1, -4), ints(3), ints(0, 1)], {}, [ints([1, 0, 0], [0, 0, 0], [0, 0, 0])]),
    ("OneHot", 10, [floats(1, -2), np.array(3, np.int64), ints(4, 5)], {}, [ints([4, 5, 4], [4, 4, 4])]),
    ("Scatter", 11, [X2[:1], ints([0, 2]), floats([7, 8])], {"axis": -1},
     [np.concatenate([floats([7]), X2[:1, 1:2], floats([8]), X2[:1, 3:]], 1)]),
    ("TopK", 1, [floats([1, 4, 2])], {"k": 2}, [floats([4, 2]), ints([1, 2])]),
]  # fmt: skip


@pytest.mark.parametrize("case", NUMPY, ids=lambda case: f"{case[0]}-{case[1]}")
def test_means_the_same_in_numpy(case):
    op, version, arrays, attributes, want = case
    node, given = written(op, arrays, len(want), **attributes)
    same(rewritten(version, node, given), want, rtol=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"ratio": 0.25}])
def test_dropout_without_is_test_drops(attributes):
    node, given = written("Dropout", [np.ones((100, 100), np.float32)], 2, **attributes)
    y, mask = rewritten(6, node, given)
    kept = 1 - attributes.get("ratio", 0.5)
    assert set(np.unique(mask)) == {0, 1} and mask.dtype == np.float32
    np.testing.assert_allclose(y, mask / kept, rtol=1e-6)
    assert abs(mask.mean() - kept) < 0.025  # five standard deviations of 10,000 draws


def test_labels_go_either_way():
    names = ("cat", "dog")
    words = np.array(["dog", "cow", "cat"], object)
    node, given = written("ai.onnx.ml.LabelEncoder", [words], classes_strings=names, default_int64=7)
    same(rewritten(1, node, given), [ints(1, 7, 0)])
    node, given = written(
        "ai.onnx.ml.LabelEncoder", [ints(1, 5, 0)], classes_strings=names, default_string="?"
    )
    same(rewritten(1, node, given), [np.array(["dog", "?", "cat"], object)])


def scan_of(arrays, **attributes):
    """A Scan that adds each element to its state and gives twice the sum."""
    nodes = (
        Node("Add", ("s", "e"), ("t",)),
        Node("Add", ("t", "t"), ("d",)),
        Node("Identity", ("t",), ("n",)),
    )
    body = Graph("sum", ("s", "e"), (), (), nodes, ("n", "d"), {})
    return written("Scan", arrays, 2, body=body, num_scan_inputs=1, **attributes)


@pytest.mark.parametrize("attributes", [{}, {"directions": (1,)}])
def test_a_batch_of_scans(attributes):
    node, given = scan_of([None, normal(3, 2), normal(3, 4, 2)], **attributes)
    same(rewritten(8, node, given), run([node], node.outputs, 8, given))


def test_a_batch_of_scans_of_several_lengths():
    x = normal(3, 4, 2)
    node, given = scan_of([ints(2, 4, 1), np.zeros((3, 2), np.float32), x])
    kept = x * (np.arange(4) < ints(2, 4, 1)[:, None])[..., None]
    sums = kept.cumsum(1)
    state, doubled = rewritten(8, node, given)
    same([state, doubled], [sums[:, -1], np.where(kept != 0, 2 * sums, 0)])


@pytest.mark.parametrize(
    "attributes", [{}, {"direction": "foward"}, {"direction": "reverse", "output_sequence": 1}]
)
def test_old_recurrences(attributes):
    node, _ = written("GRU", [X3, X3, X3], 2, hidden_size=2, **attributes)
    (new,) = upgrade(node, 1, Known({}))
    way = "reverse" if "reverse" in attributes.values() else "forward"
    assert dict(new.attributes) == {"hidden_size": 2, "direction": way}


def test_erf_of_integers():
    node, given = written("Erf", [ints(1)])  # ONNX Runtime has neither that nor erf of float64
    nodes = upgrade(node, 9, Known(given))
    assert [new.op for new in nodes] == ["Cast", "Erf", "CastLike"]
    assert upgrade(written("Erf", [X2])[0], 9, Known({"x0": X2})) == [written("Erf", [X2])[0]]


def test_what_has_the_newest_meaning_stays():
    node, given = written("Softmax", [X2])
    assert upgrade(node, 13, Known(given)) == [node]


BROKEN = [
    ("Add", 6, [X3, X3[0]], {}, "shapes differ without broadcast", "[2, 3, 4]", "[3, 4]"),
    ("Add", 6, [X3, floats(1, 2)], {"broadcast": 1, "axis": 3}, "axis out of range", "0 to 2", "3"),
    ("Gemm", 6, [X2, X2.T, floats(1)], {}, "C is no matrix without broadcast", "rank 2", "rank 1"),
    ("Softmax", 11, [X2], {"axis": 2}, "axis out of range", "-2 to 1", "2"),
    ("Cast", 1, [X2], {"to": "FLOAT17"}, "attribute to: no element type", "FLOAT, INT64, …", "FLOAT17"),
    ("GlobalLpPool", 1, [X3], {"p": 0.0}, "attribute p out of range", "more than 0", "0.0"),
    ("Resize", 11, [X3, floats(), floats(1, 1, 2)],
     {"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
     "tf_half_pixel_for_nn has no newer form here", "mode nearest with floor or round_prefer_floor",
     "mode linear with round_prefer_floor"),
]  # fmt: skip


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case[0]}-{case[1]}: {case[4]}")
def test_what_has_no_newer_form(case):
    op, version, arrays, attributes, rule, want, got = case
    node, given = written(op, arrays, **attributes)
    with pytest.raises(ContractError) as raised:
        upgrade(node, since(op, version), Known(given))
    error = raised.value
    assert (error.rule, error.want, error.got) == (rule, want, got)


def test_an_axis_needs_ranks():
    node, _ = written("Add", [X3, X3], broadcast=1, axis=0)
    with pytest.raises(ContractError, match="axis needs known ranks"):
        upgrade(node, 6, Known({}))


def test_statistics_of_the_batch_alone_cost_a_second_node():
    names = [("y", "mean", "var", "", ""), ("y", "", "", "own", "")]
    nodes = [upgrade(Node("BatchNormalization", tuple("xsbmv"), each), 9, Known({})) for each in names]
    assert list(map(len, nodes)) == [1, 2]


def test_a_scan_scans_something():
    node, given = scan_of([None, X3, X3])
    node = Node("Scan", node.inputs, node.outputs, {**node.attributes, "num_scan_inputs": 0})
    with pytest.raises(ContractError, match="num_scan_inputs out of range") as raised:
        upgrade(node, 8, Known(given))
    assert (raised.value.want, raised.value.got) == ("1 to 2", "0")


def test_a_test_has_no_statistics():
    node, given = written("BatchNormalization", BATCH, 3, is_test=1)
    with pytest.raises(ContractError, match="statistics of a test"):
        upgrade(node, 6, Known(given))


def versions_of():
    found = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault(f"{schema.domain}.{schema.name}".lstrip("."), []).append(schema)
    return {op: sorted(each, key=lambda schema: schema.since_version) for op, each in found.items()}


VERSIONS = versions_of()


def default(attribute):
    value = attribute.default_value
    return attribute.type, helper.get_attribute_value(value) if value.name else None


def admitted_by(new, old):
    """Whether a newer version takes all that an older one did, by the forms alone."""
    kept = all(name in new.attributes and default(new.attributes[name]) == default(a)
               for name, a in old.attributes.items())  # fmt: skip
    required = {name for name, a in new.attributes.items() if a.required}
    added = required <= {name for name, a in old.attributes.items() if a.required}
    ports = [(old.inputs, new.inputs), (old.outputs, new.outputs)]
    wider = all(set(b.types) >= set(a.types) for o, n in ports for a, b in zip(o, n, strict=False))
    return (
        kept
        and added
        and wider
        and all(len(n) >= len(o) for o, n in ports)
        and new.min_input <= old.min_input
    )


@pytest.mark.parametrize("op", sorted(op for op, each in VERSIONS.items() if len(each) > 1))
def test_versions_without_a_step_take_what_older_ones_did(op):
    for old, new in zip(VERSIONS[op], VERSIONS[op][1:], strict=False):
        stepped = any(old.since_version <= last < new.since_version for last in REWRITES.get(op, ()))
        assert stepped or admitted_by(new, old), (old.since_version, new.since_version)


def test_steps_are_of_versions_that_there_were():
    for op, steps in REWRITES.items():
        assert VERSIONS[op][0].since_version <= min(steps)
        assert VERSIONS[op][-1].since_version > max(steps) or VERSIONS[op][-1].deprecated


@pytest.mark.parametrize("op", sorted(VERSIONS))
def test_changes_name_each_older_version(op):
    found = [version for version, _ in changes(op)]
    older = [schema.since_version for schema in VERSIONS[op]]
    gone = op in ("Scatter", "Upsample")
    assert found == older[: None if gone else -1]
    assert all(text.endswith(".") and text[0] in "ABCDEFGHIJKLMNOPQRSTUVWXYZ`" for _, text in changes(op))


def test_what_changes_say():
    assert changes("Squeeze")[1:3] == [
        (11, "The attribute `axes` becomes an input."),
        (13, "Version 21 keeps the meaning and admits more types."),
    ]
    assert changes("Reshape")[0] == (
        1,
        "`consumed_inputs`, a hint about memory, is dropped. The attribute `shape` becomes an input.",
    )
    assert [text for _, text in changes("GRU")[:2]] == [
        "The default of `direction`, misspelt `foward`, is written out as it was meant.",
        "`output_sequence` is dropped: outputs are optional.",
    ]
    assert changes("Max")[1] == (6, "Version 8 keeps the meaning.")
    assert changes("Attention")[0] == (23, "Version 24 adds `nonpad_kv_seqlen`; without, it means the same.")
