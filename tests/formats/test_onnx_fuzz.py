"""A sample of `fuzz_onnx.py`: damaged models are refused with a typed error or sound, in little time."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_node, make_tensor

from assay.runtime.model import Model
from formats import fuzz_onnx
from formats.hostile_onnx import ADD, INT64, call, ints, loop, model_of, relu, weight


def test_seeds_are_sound_and_run(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = tmp_path / fuzz_onnx.NAME
    for data in fuzz_onnx.seeds():
        path.write_bytes(data)
        assert fuzz_onnx.attempt(path) == "sound"
        fuzz_onnx.run(path)


@settings(deadline=1000, max_examples=250)
@given(rng=st.randoms(use_true_random=False))
def test_mutations(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fuzz_onnx.attempt(fuzz_onnx.made(rng, Path(folder)))


def test_truncations(tmp_path: Path) -> None:
    """A shorter file is refused, or sound where only what nobody needs is missing."""
    path = tmp_path / fuzz_onnx.NAME
    whole = fuzz_onnx.seeds()[0]
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        fuzz_onnx.attempt(path)


def ended_by(maker: onnx.NodeProto) -> onnx.ModelProto:
    """A loop whose condition this makes, or doesn't."""
    made = loop(5, relu)
    made.graph.node[0].attribute[0].g.node[0].CopyFrom(maker)
    return made


def of_version(version: int, name: str) -> onnx.ModelProto:
    """An operator of a domain that is of this version, and has none of that name."""
    made = model_of([call(name)])
    made.opset_import[1].version = version
    return made


def a_sparse_scalar() -> onnx.ModelProto:
    made = model_of(ADD)
    place = make_tensor("i", INT64, [1], [0])
    made.graph.sparse_initializer.add(values=weight(float_data=[1]), indices=place, dims=[4])
    return made


def a_loop_of_no_number() -> onnx.ModelProto:
    made = loop(5, relu)
    made.graph.initializer[0].CopyFrom(ints("m", []))
    return made


def an_input_of_no_type() -> onnx.ModelProto:
    made = model_of([make_node("Relu", ["w"], ["y"])], [weight(dims=[1], float_data=[1])])
    made.graph.input[0].ClearField("type")
    return made


@pytest.mark.parametrize(
    "model",
    [
        ended_by(make_node("Identity", [], ["c"])),
        ended_by(make_node("Identity", ["d"], [])),
        ended_by(make_node("Constant", [], ["c"])),
        ended_by(make_node("Constant", [], ["c"], value_string="x")),
        ended_by(make_node("Constant", [], ["c"], x=1)),
        ended_by(make_node("Identity", ["v"], ["c"])),
        a_loop_of_no_number(),
        a_sparse_scalar(),
        an_input_of_no_type(),
        of_version(-(1 << 63), "Reluu"),
        of_version((1 << 63) - 1, "Reluu"),
    ],
)
def test_found(model: onnx.ModelProto, tmp_path: Path) -> None:
    """What mutations led to: refused, and within a second since no version below 1 is looked at."""
    path = tmp_path / fuzz_onnx.NAME
    path.write_bytes(model.SerializeToString())
    assert fuzz_onnx.attempt(path) != "sound"


LOOP = """
    <ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y, float[3, 4] z, float[3, 4] y2)
    <int64 n = {3}, bool t = {1}> {
        y, z, y2 = Loop (n, t, x) <body: graph = b (int64 i, bool c, float[4] v) => (
            bool c2, float[4] w, float[4] w, float[4] w
        ) { c2 = Identity (c) w = Add (v, x) }>
    }
"""


def test_a_body_may_give_one_value_several_times(tmp_path: Path) -> None:
    path = tmp_path / fuzz_onnx.NAME
    onnx.save(onnx.parser.parse_model(LOOP), path)
    with Model.load(path, 1) as model:
        found = model.run({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(found["y"], [4] * 4)
    np.testing.assert_array_equal(found["z"], [[2] * 4, [3] * 4, [4] * 4])
    np.testing.assert_array_equal(found["y2"], found["z"])
