"""Graphs drawn at random, most of them broken: what the check refuses is refused by ONNX Runtime or by the
standard's evaluator too (either takes some that it shouldn't), and what passes the check loads, runs, and
gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from assay.errors import ContractError
from assay.formats.onnx_file import from_proto
from assay.graph.listing import listing, parse
from assay.ops.standard.typed import typed
from assay.runtime.model import Model, analyse

Draw = Callable[[st.SearchStrategy[int]], int]
axis = st.integers(-3, 3)
size = st.integers(-1, 3)


def ints(low: int, high: int, most: int = 3) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=most)


# Operator, how many values it reads, its attributes, its inputs that are lists of integers.
KINDS: tuple[
    tuple[str, int, dict[str, st.SearchStrategy[object]], tuple[st.SearchStrategy[list[int]], ...]], ...
] = (
    ("Add", 2, {}, ()),
    ("Relu", 1, {}, ()),
    ("MatMul", 2, {}, ()),
    ("Transpose", 1, {"perm": ints(0, 2)}, ()),
    ("Concat", 2, {"axis": axis}, ()),
    ("Reshape", 1, {}, (ints(-1, 6),)),
    ("Squeeze", 1, {}, (ints(-2, 2, 2),)),
    ("Unsqueeze", 1, {}, (ints(-2, 3, 2),)),
    ("Softmax", 1, {"axis": axis}, ()),
    ("ReduceMax", 1, {"keepdims": st.integers(0, 1)}, (ints(-2, 2, 2),)),
    ("Gather", 1, {"axis": axis}, (ints(-3, 2),)),
    ("Expand", 1, {}, (ints(1, 3),)),
    ("Flatten", 1, {"axis": axis}, ()),
    ("Tile", 1, {}, (ints(1, 2),)),
    ("Gemm", 2, {"transA": st.integers(0, 1), "transB": st.integers(0, 1)}, ()),
)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """One to three nodes on inputs of sizes from 1 to 3."""
    shapes = [draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)) for _ in range(2)]
    values, nodes, weights = ["x0", "x1"], [], []
    for number in range(draw(st.integers(1, 3))):
        op, reads, attributes, lists = draw(st.sampled_from(KINDS))
        inputs = [draw(st.sampled_from(values)) for _ in range(reads)]
        for place, each in enumerate(lists):
            name = f"w{number}_{place}"
            weights.append(numpy_helper.from_array(np.array(draw(each), np.int64), name))
            inputs.append(name)
        given = {key: draw(each) for key, each in attributes.items()}
        nodes.append(helper.make_node(op, inputs, [f"y{number}"], **given))
        values.append(f"y{number}")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info(f"x{number}", 1, shape) for number, shape in enumerate(shapes)],
        [info(values[-1], 1, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run_by_others(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray | None]:
    """What ONNX Runtime and the standard's evaluator make of it; None where one refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    runs = (
        lambda: onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs),
        lambda: ReferenceEvaluator(model).run(None, inputs),
    )
    found: list[np.ndarray | None] = []
    for run in runs:
        try:
            with np.errstate(all="ignore"):
                found.append(np.asarray(run()[0]))
        except Exception:
            found.append(None)
    return found


@pytest.mark.filterwarnings("ignore")
@given(models(), st.integers(0, 99))
@settings(max_examples=120, phases=[Phase.explicit, Phase.generate])
def test_the_check_is_right(model: onnx.ModelProto, seed: int) -> None:
    random = np.random.default_rng(seed)
    inputs = {
        each.name: random.normal(size=[d.dim_value for d in each.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for each in model.graph.input
    }
    others = run_by_others(model, inputs)
    read = from_proto(model)
    inference = analyse(read)
    shown = typed(read.graph, inference)
    assert parse(listing(shown)) == shown
    if inference.errors:
        assert any(each is None for each in others), str(inference.errors[0])
        with pytest.raises(ContractError) as caught:
            Model(from_proto(model), 1)
        assert len(caught.value.violations) == len(inference.errors)
        return
    found = Model(read, 1).run(inputs)[model.graph.output[0].name]
    kind = inference.known(model.graph.output[0].name)
    assert isinstance(found, np.ndarray) and kind and kind.sizes == found.shape
    wants = [each for each in others if each is not None]
    assert wants, "both others refuse it"
    for want in wants:
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, strict=True)
