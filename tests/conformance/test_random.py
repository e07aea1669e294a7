"""Operators that draw: the distribution they promise, and the same draw for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model

COUNT = 20_000
SIGMAS = 5
"""A frequency is farther than this many standard deviations off once in two million draws."""


def model(op: str, inputs: list[str], opset: int = 21, **attributes: object) -> Model:
    node = helper.make_node(op, inputs, ["y"], **attributes)
    infos = {
        "x": (TensorProto.FLOAT, ["n"]),
        "ratio": (TensorProto.FLOAT, []),
        "mode": (TensorProto.BOOL, []),
    }
    given = [helper.make_tensor_value_info(name, *infos[name]) for name in inputs]
    graph = helper.make_graph(
        [node], op, given, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    )
    return Model(from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])), 2)


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_bernoulli_is_one_as_often_as_it_says(chance: float) -> None:
    x = np.full(COUNT, chance, np.float32)
    y = np.asarray(model("Bernoulli", ["x"], seed=3.0).run({"x": x})["y"])
    assert set(np.unique(y)) <= {0.0, 1.0}
    assert abs(y.mean() - chance) <= SIGMAS * np.sqrt(chance * (1 - chance) / COUNT)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.75])
def test_dropout_keeps_the_rest_and_scales_it(ratio: float) -> None:
    x = np.linspace(1, 2, COUNT, dtype=np.float32)
    given = {"x": x, "ratio": np.array(ratio, np.float32), "mode": np.array(True)}
    y = np.asarray(model("Dropout", ["x", "ratio", "mode"], seed=5).run(given)["y"])
    kept = y != 0
    np.testing.assert_allclose(y[kept], x[kept] / (1 - ratio), rtol=1e-6)
    assert abs(kept.mean() - (1 - ratio)) <= SIGMAS * np.sqrt(ratio * (1 - ratio) / COUNT)


@pytest.mark.parametrize("op", ["Bernoulli", "RandomUniformLike", "RandomNormalLike"])
def test_the_same_seed_draws_the_same(op: str) -> None:
    x = {"x": np.full(COUNT, 0.5, np.float32)}
    first, again = (np.asarray(model(op, ["x"], seed=7.0).run(x)["y"]) for _ in range(2))
    other = np.asarray(model(op, ["x"], seed=8.0).run(x)["y"])
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_without_a_seed_runs_differ() -> None:
    drawing, x = model("Bernoulli", ["x"]), {"x": np.full(COUNT, 0.5, np.float32)}
    assert np.asarray(drawing.run(x)["y"]).tobytes() != np.asarray(drawing.run(x)["y"]).tobytes()


def test_normal_and_uniform_numbers_have_their_moments() -> None:
    x = {"x": np.zeros(COUNT, np.float32)}
    normal = np.asarray(model("RandomNormalLike", ["x"], mean=2.0, scale=3.0, seed=1.0).run(x)["y"])
    assert abs(normal.mean() - 2) <= SIGMAS * 3 / np.sqrt(COUNT)
    assert abs(normal.std() - 3) <= SIGMAS * 3 / np.sqrt(2 * COUNT)
    uniform = np.asarray(model("RandomUniformLike", ["x"], low=-1.0, high=3.0, seed=1.0).run(x)["y"])
    assert uniform.min() >= -1 and uniform.max() < 3
    assert abs(uniform.mean() - 1) <= SIGMAS * 4 / np.sqrt(12 * COUNT)
