"""Operators that move, take and hold values, where the standard's own cases don't reach: what their contracts
refuse, sizes that are symbols, and NumPy's indexing as the oracle of copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from assay.errors import ContractError, HardwareFault
from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model, analyse

Shape = Sequence[int | str]
F, I64 = TensorProto.FLOAT, TensorProto.INT64
NONE = np.zeros(0, np.float32)
IMAGE, WEIGHTS = (1, 1, 4, 4), (1, 1, 3, 3)


def model(
    op: str, shapes: Sequence[Shape], known: Mapping[int, object] = {}, outputs: int = 1, **attributes: object
) -> onnx.ModelProto:
    """A node on float inputs of these shapes; `known` are the values of those that are weights."""
    names = [f"x{index}" for index in range(len(shapes) + len(known))]
    node = helper.make_node(op, names, [f"y{index}" for index in range(outputs)], **attributes)
    free = [name for index, name in enumerate(names) if index not in known]
    inputs = [helper.make_tensor_value_info(name, F, shape) for name, shape in zip(free, shapes, strict=True)]
    weights = [numpy_helper.from_array(np.asarray(value), names[index]) for index, value in known.items()]
    made = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def refused(proto: onnx.ModelProto) -> str:
    """The first violation's rule."""
    errors = analyse(from_proto(proto)).errors
    assert errors
    return errors[0].rule


def inferred(proto: onnx.ModelProto) -> list[str]:
    found = analyse(from_proto(proto))
    assert not found.errors, found.errors
    return [str(found.known(name)) for name in found.graph.outputs]


@pytest.mark.parametrize(
    ("op", "shapes", "known", "attributes", "rule"),
    [
        ("Transpose", [(2, 3)], {}, {"perm": [0, 0]}, "attribute perm: no permutation of the axes"),
        ("Concat", [(2, 3), (2, 4)], {}, {"axis": 0}, "sizes along axis 1 disagree"),
        ("Slice", [(4,)], {1: [0], 2: [3], 3: [0], 4: [0]}, {}, "a step of 0"),
        ("Slice", [(4,)], {1: [0, 0], 2: [3, 3]}, {}, "more starts than axes"),
        ("Expand", [(2, 3)], {1: [4]}, {}, "shapes can't be broadcast"),
        ("Tile", [(2, 3)], {1: [2]}, {}, "numbers of repeats and of axes disagree"),
        ("Pad", [(2,)], {1: [-2, -1]}, {}, "axis 0 is cut to less than nothing"),
        ("Pad", [(0,)], {1: [1, 0]}, {"mode": "edge"}, "nothing along axis 0 to pad with"),
        ("DepthToSpace", [(1, 6, 2, 2)], {}, {"blocksize": 2}, "channels aren't whole blocks"),
        ("Gather", [(4, 3)], {1: [4]}, {}, "index out of range"),
        ("Multinomial", [(2, 2)], {}, {"dtype": 1}, "attribute dtype: type not admitted"),
        ("HannWindow", [], {0: 4}, {"output_datatype": 8}, "attribute output_datatype: type not admitted"),
        ("Conv", [IMAGE, WEIGHTS], {}, {"kernel_shape": [3]}, "window of another rank"),
        ("ConvTranspose", [IMAGE, WEIGHTS], {}, {"kernel_shape": [2, 2]}, "kernel_shape isn't the weights'"),
        ("ConvTranspose", [IMAGE, WEIGHTS], {}, {"output_shape": [3]}, "output_shape: wrong length"),
        ("ConvTranspose", [IMAGE, WEIGHTS], {}, {"output_shape": [-3, 5]}, "negative size"),
        ("ConvTranspose", [IMAGE, (1, 1, 1, 1)], {}, {"pads": [3, 3, 3, 3]}, "negative size"),
        ("ConvTranspose", [(1, 3, 4, 4), (3, 1, 3, 3)], {}, {"group": 2}, "groups don't divide"),
        ("DeformConv", [IMAGE, WEIGHTS, (1, 18, 2, 2)], {}, {"kernel_shape": [3]}, "window of another rank"),
        ("RNN", [(2, 1, 3), (1, 2, 3), (1, 2, 2)], {}, {"hidden_size": 2, "activations": ["Foo"]},
         "attribute activations: none of these"),
        ("MaxPool", [IMAGE], {}, {"kernel_shape": [9999, 9999], "pads": [5000] * 4}, "window too large"),
        ("RotaryEmbedding", [IMAGE, IMAGE[1:], IMAGE[1:]], {}, {"rotary_embedding_dim": 8}, "the head size"),
        ("RotaryEmbedding", [(1, 1, 4, 3), (1, 4, 1), (1, 4, 1)], {}, {}, "of an odd number of elements"),
        *[("Resize", [(4,)], {1: NONE, 2: np.float32([scale])}, {}, "no such scale")
          for scale in (0, -1, np.nan, np.inf)],
        ("Resize", [(4,)], {1: NONE, 2: NONE, 3: [-4]}, {}, "negative size"),
        ("MaxUnpool", [(1, 1, 1, 2)], {1: [[[[0, 1]]]]}, {"kernel_shape": [1, 2], "strides": [2]},
         "attribute strides: wrong length"),
        ("GatherND", [(4, 3)], {1: [[0, 3]]}, {}, "index of axis 1 out of range"),
        ("GatherND", [(4, 3)], {1: [[0, 0, 0]]}, {}, "indices say another number of axes"),
        ("ScatterND", [(4, 3), (2, 2)], {1: [[0], [1]]}, {}, "sizes of updates along axis 1 disagree"),
        ("OneHot", [(4,)], {1: [-1], 2: [0.0, 1.0]}, {}, "negative depth"),
        ("Cast", [(4,)], {}, {"to": 99}, "attribute to: type not admitted"),
        ("Compress", [(2, 3)], {1: [True] * 4}, {"axis": 1}, "a condition longer than the axis"),
        ("EyeLike", [(2, 3, 4)], {}, {}, "wrong rank"),
        ("SplitToSequence", [(4,)], {1: [1, 2]}, {}, "size and sum of split disagree"),
    ],
)  # fmt: skip
def test_what_contracts_refuse(
    op: str, shapes: Sequence[Shape], known: Mapping[int, object], attributes: Mapping[str, object], rule: str
) -> None:
    assert refused(model(op, shapes, known, **attributes)).endswith(rule)


@pytest.mark.parametrize(
    ("op", "shapes", "known", "attributes", "made"),
    [
        ("Slice", [("T", 4)], {1: [1], 2: [2**63 - 1]}, {}, "float32[max(0, T - 1), 4]"),
        ("Slice", [("T", 4)], {1: [0], 2: [-1]}, {}, "float32[max(0, T - 1), 4]"),
        ("Slice", [("T", 4)], {1: [-2], 2: [2**63 - 1]}, {}, "float32[min(2, T), 4]"),
        ("Pad", [("T", 4)], {1: [1, 0, 2, -1]}, {}, "float32[T + 3, 3]"),
        ("Tile", [("T", 4)], {1: [2, 3]}, {}, "float32[2*T, 12]"),
        ("Expand", [("T", 1)], {1: [1, 7]}, {}, "float32[T, 7]"),
        ("SpaceToDepth", [(1, "C", 6, "W")], {}, {"blocksize": 2}, "float32[1, 4*C, 3, floor(W / 2)]"),
        ("Gather", [("T", 4)], {1: [[0, 0]]}, {}, "float32[1, 2, 4]"),
    ],
)  # fmt: skip
def test_sizes_that_are_symbols(
    op: str, shapes: Sequence[Shape], known: Mapping[int, object], attributes: Mapping[str, object], made: str
) -> None:
    assert inferred(model(op, shapes, known, **attributes)) == [made]


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(0, 6),
    start=st.integers(-8, 8),
    end=st.integers(-8, 8),
    step=st.sampled_from([-3, -2, -1, 1, 2, 3]),
)
def test_slices_are_the_standards(size: int, start: int, end: int, step: int) -> None:
    """A start below 0 is put to 0, which NumPy does only for steps above 0."""
    x = np.arange(size * 2, dtype=np.float32).reshape(size, 2)
    proto = model("Slice", [(size, 2)], {1: [start], 2: [end], 3: [0], 4: [step]})
    places = range(size)[slice(start, end, step)] if step > 0 or start >= -size else ()
    if step < 0 and start < -size and size and end < -size:
        places = range(1)
    np.testing.assert_array_equal(Model(from_proto(proto), 1).run({"x0": x})["y0"], x[list(places)])


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.uint8])
def test_integers_are_resized_by_way_of_float32(dtype: type[np.generic]) -> None:
    halved = {1: NONE, 2: np.ones(1, np.float32) / 2}
    proto = model("Resize", [(4,)], halved, mode="linear")
    proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    found = Model(from_proto(proto), 1).run({"x0": np.array([2, 4, 6, 9], dtype)})["y0"]
    np.testing.assert_array_equal(found, np.array([3, 7], dtype))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_wider_than_the_value_repeat_it(mode: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    proto = model("Pad", [(2, 3)], {1: [5, 7, 4, -1]}, mode=mode)
    want = np.pad(x[:, :2], ((5, 4), (7, 0)), mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(Model(from_proto(proto), 2).run({"x0": x})["y0"], want)


def test_a_table_that_memory_cant_hold_is_a_fault() -> None:
    proto = model("AffineGrid", [(1, 2, 3)], {1: [1, 1, 1 << 22, 1 << 20]})
    with pytest.raises(HardwareFault, match="memory"):
        Model(from_proto(proto), 1).run({"x0": np.ones((1, 2, 3), np.float32)})


def test_an_index_that_only_the_run_knows_ends_it() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    infos = [helper.make_tensor_value_info(*each) for each in (("x", F, [3]), ("i", I64, [2]), ("y", F, [2]))]
    graph = helper.make_graph([node], "g", infos[:2], infos[2:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    found = Model(from_proto(proto), 1)
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(found.run({"x": x, "i": np.array([-1, 0])})["y"], [2, 0])
    with pytest.raises(ContractError, match="index out of range"):
        found.run({"x": x, "i": np.array([0, 3])})


def test_a_size_without_symbols_is_a_number_among_sizes_with_some() -> None:
    """An exporter's arithmetic: of [N, 6, H, W], half the channels and the rows, by way of floats."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["c"]),
        helper.make_node("Slice", ["s", "two", "three"], ["rows"]),
        helper.make_node("Cast", ["c"], ["real"], to=F),
        helper.make_node("Mul", ["real", "half"], ["less"]),
        helper.make_node("Cast", ["less"], ["whole"], to=I64),
        helper.make_node("Concat", ["whole", "rows"], ["sizes"], axis=0),
        helper.make_node("ConstantOfShape", ["sizes"], ["y"]),
    ]
    values = {"one": np.array([1]), "two": np.array([2]), "three": np.array([3]), "half": np.float32([0.5])}
    weights = [numpy_helper.from_array(value, name) for name, value in values.items()]
    inputs = [helper.make_tensor_value_info("x", F, ["N", 6, "H", "W"])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_value_info("y", onnx.TypeProto())], weights)
    assert inferred(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)) == [
        "float32[3, H]"
    ]
