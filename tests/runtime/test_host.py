"""Nodes that the host runs: what comes back is what the contract says, or the operator is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx.parser
import onnxruntime
import pytest

from assay.errors import ContractError
from assay.formats.onnx_file import from_proto
from assay.ops.standard import registry
from assay.runtime.model import Model

HEAD = '<ir_version: 9, opset_import: ["" : 21, "ai.onnx.ml" : 3]>\n'
VECTOR = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("x", [VECTOR, VECTOR.reshape(2, 4)], ids=["vector", "matrix"])
def test_extracted_features(x: np.ndarray, shape: tuple[int, ...]) -> None:
    sizes, extents = (f"[{', '.join(map(str, each))}]" if each else "" for each in (x.shape, shape))
    proto = onnx.parser.parse_model(
        HEAD + f"g (float{sizes} x, int64{extents} i) => (y) {{ y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }}"
    )
    inputs = {"x": x, "i": np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 4)}
    model = Model(from_proto(proto), 1)
    y = np.asarray(model.run(inputs)["y"])
    assert model.outputs[0].shape == y.shape
    if shape:  # ONNX Runtime takes no single number
        np.testing.assert_array_equal(y, _peer(proto, inputs)[0])


@pytest.mark.parametrize(
    "node",
    [
        "y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0, 4.0], intercepts = [0.5]>(x)",
        """y, z = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0],
        intercepts = [0.5, 0.25], classlabels_ints = [7, 9]>(x)""",
    ],
    ids=["regressor", "classifier"],
)
def test_a_vector_is_a_row(node: str) -> None:
    names = "y, z" if "z" in node else "y"
    proto = onnx.parser.parse_model(HEAD + f"g (float[4] x) => ({names}) {{ {node} }}")
    inputs = {"x": VECTOR[:4]}
    for ours, theirs in zip(
        Model(from_proto(proto), 1).run(inputs).values(), _peer(proto, inputs), strict=True
    ):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)


def test_maps_beside_sizes_that_data_decides() -> None:
    model = Model(
        from_proto(
            onnx.parser.parse_model(
                HEAD
                + """g (float[n, 2] x) => (m, y) {
                    m = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b"]>(x)
                    i = NonZero(x)
                    y = Cast<to = 1>(i)
                }"""
            )
        ),
        1,
    )
    found = model.run({"x": np.array([[0, 1], [2, 0]], np.float32)})
    assert found["m"] == [{"a": 0.0, "b": 1.0}, {"a": 2.0, "b": 0.0}]
    assert np.asarray(found["y"]).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "reference",
    [
        lambda X: np.negative(X, dtype=np.float64),
        lambda X: -X[:1],
        lambda X: np.zeros(100_000, np.float32),
        lambda X: -X[None],
    ],
    ids=["dtype", "shorter", "longer", "rank"],
)
def test_a_reference_that_breaks_its_own_contract(reference, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator of a user's own that has no kernel, say."""
    broken = replace(registry.find("Neg"), reference=reference, pointwise=None)
    monkeypatch.setitem(registry._definitions, "Neg", broken)
    proto = onnx.parser.parse_model(HEAD + "g (float[n] x) => (y) { n = Neg(x) y = Abs(n) }")
    with pytest.raises(ContractError) as caught:
        Model(from_proto(proto), 1).run({"x": VECTOR})
    assert caught.value.rule == "the operator's reference breaks its own contract"
    assert "(Neg)" in caught.value.place


def _peer(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)
