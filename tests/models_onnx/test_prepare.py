"""Plans that are made ahead, and what `assay.load` makes of an ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import assay
from assay.errors import ContractError, RequestError

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n, t] x, float[n, 2*t] unused, int64 k, float[?, 3] z) => (float[n, t] y, float[?, 3] v)
{ h = Add(x, x) y = Relu(h) v = Neg(z) }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    model = parser.parse_model(TEXT.replace("2*t", "s").replace("?", "m"))
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "2*t"
    for info in (model.graph.input[3], model.graph.output[1]):
        info.type.tensor_type.shape.dim[0].Clear()
    onnx.save(model, file)
    return file


def given(n: int, t: int, m: int) -> dict[str, object]:
    return {
        "x": np.ones((n, t), np.float32), "unused": np.ones((n, 2 * t), np.float32),
        "k": np.array(1), "z": np.ones((m, 3), np.float32),
    }  # fmt: skip


def test_a_plan_is_there_before_the_first_request(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = assay.load(path, threads=1)
    assert isinstance(model, assay.Model)
    assert model.inputs[0] == assay.TensorSpec("x", "float32", ("n", "t"))
    assert model.outputs[0] == assay.TensorSpec("y", "float32", ("n", "t"))
    model.optimize_for_batch(5)
    model.preheat({"x": np.ones((1, 7), np.float32)})

    def no(*arguments: object) -> None:
        raise AssertionError("a plan is made")

    monkeypatch.setattr("assay.runtime.program.Program._make", no)
    found = model.run(given(5, 64, 5))
    np.testing.assert_array_equal(found["y"], np.full((5, 64), 2, np.float32), strict=True)
    model.run(given(1, 7, 1))
    with pytest.raises(AssertionError):
        model.run(given(2, 7, 2))


def test_what_cannot_be_prepared_is_refused(path: Path) -> None:
    with assay.load(path, threads=1) as model:
        assert isinstance(model, assay.Model)
        with pytest.raises(RequestError, match="batch"):
            model.optimize_for_batch(0)
        with pytest.raises(ContractError):
            model.preheat({"nothing": np.zeros(1)})


@pytest.mark.parametrize(
    "option", [{"activations": "float32"}, {"guesses": False}, {"context": 8}, {"draft": "x"}]
)
def test_options_of_language_models_are_refused(path: Path, option: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=f"{next(iter(option))}: a graph has no such option"):
        assay.load(path, threads=1, **option)  # type: ignore[arg-type]
