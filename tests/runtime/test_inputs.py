"""What a graph is given and what it gives: nothing is taken for something else, and nothing is shared."""

from __future__ import annotations

import re
import threading
from typing import cast

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from numpy.typing import NDArray

from assay.errors import ContractError
from assay.formats.onnx_file import from_proto
from assay.runtime.host import Value
from assay.runtime.model import Model

HEAD = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n'
X = np.arange(6, dtype=np.float32)


def model(text: str, threads: int = 1) -> Model:
    return Model(from_proto(onnx.parser.parse_model(HEAD + text)), threads)


NEG = "g (float[n] x) => (float[n] y) { y = Neg(x) }"
TEXTS = "g (string[n] x) => (string[n] y) { y = StringConcat(x, x) }"
LIST = "g (seq(float[n]) x) => (y) { y = ConcatFromSequence<axis = 0>(x) }"
MAYBE = "g (optional(float[n]) x) => (y) { y = OptionalHasElement(x) }"


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        (NEG, X.astype(">f4"), "wrong dtype"),
        (NEG, X.astype(object), "wrong dtype"),
        (NEG, X.astype(ml_dtypes.bfloat16), "wrong dtype"),
        (NEG, np.zeros(3, "V4"), "wrong dtype"),
        (NEG, np.zeros(3, "M8[s]"), "wrong dtype"),
        (NEG, np.ma.array(X, mask=X > 3), "a masked array"),
        (NEG, X[::2], "not contiguous in C's order"),
        (NEG, X.reshape(2, 3), "wrong shape"),
        (NEG, [1.0], "not an array"),
        (NEG, None, "not an array"),
        (TEXTS, np.array(["a", "b"]), "wrong dtype"),
        (TEXTS, np.array([b"a"]), "wrong dtype"),
        (TEXTS, np.array(["a", None], object), "not a text"),
        (TEXTS, np.array(["a", b"b"], object), "not a text"),
        (LIST, X, "not a list"),
        (LIST, (X,), "not a list"),
        (LIST, None, "not a list"),
        (LIST, [X, X.astype(np.float64)], "wrong dtype"),
        (LIST, [X[::2]], "not contiguous in C's order"),
        (LIST, [X.astype(">f4")], "wrong dtype"),
        (LIST, [X.reshape(2, 3)], "wrong shape"),
        (LIST, [[X]], "not an array"),
        (MAYBE, X.astype(np.float64), "wrong dtype"),
        (MAYBE, [X], "not an array"),
    ],
)
def test_what_does_not_fit_is_refused_before_and_after_what_fits(text: str, value: Value, rule: str) -> None:
    fits: dict[str, Value] = {NEG: X, TEXTS: np.array(["a", "b"], object), LIST: [X, X], MAYBE: None}
    made = model(text)
    for _ in range(2):
        with pytest.raises(ContractError) as caught:
            made.run({"x": value})
        assert caught.value.rule == rule
        assert caught.value.place.startswith("g › input x")
        made.run({"x": fits[text]})


@pytest.mark.parametrize("inputs", [None, [("x", X)], {1: X}, {"x": X, 2: X}, {}, "x"])
def test_inputs_that_are_not_by_name(inputs: object) -> None:
    with pytest.raises(ContractError):
        model(NEG).run(cast(dict[str, Value], inputs))


@pytest.mark.parametrize("name", ["bfloat16", "float16", "int4", "string", "bool"])
def test_the_hint_names_a_type_that_there_is(name: str) -> None:
    made = model(f"g ({name}[n] x) => (y) {{ y = Shape(x) }}")
    with pytest.raises(ContractError) as caught:
        made.run({"x": X})
    found = re.fullmatch(r"np\.ascontiguousarray\(x, dtype=(np|ml_dtypes)\.(\w+)\)", caught.value.hint)
    assert found
    dtype = getattr({"np": np, "ml_dtypes": ml_dtypes}[found[1]], found[2])
    fixed = np.ascontiguousarray(np.zeros(6, "U1") if name == "string" else X, dtype=dtype)
    assert made.run({"x": fixed})["y"] == [6]


def test_outputs_have_memory_of_their_own() -> None:
    made = model(
        """g (float[n] x, seq(float[n]) s) => (x, y, w, v, f, z, t)
        <float[4] w = {1, 2, 3, 4}> {
            y = Identity(x)
            v = Identity(w)
            f = Neg(w)
            z = Add(x, f)
            t = Identity(s)
        }"""
    )
    given: dict[str, Value] = {"x": X[:4].copy(), "s": [X.copy()]}
    first = made.run(given)
    kept = {name: [np.copy(each) for each in _flat(value)] for name, value in first.items()}
    arrays = [each for value in (*first.values(), *given.values()) for each in _flat(value)]
    for at, each in enumerate(arrays):
        assert not any(np.shares_memory(each, other) for other in arrays[:at])
    for each in (each for value in first.values() for each in _flat(value)):
        each[...] = -7
    for name, value in made.run(given).items():
        assert all(map(np.array_equal, _flat(value), kept[name]))


def _flat(value: Value) -> list[NDArray[np.float32]]:
    return value if isinstance(value, list) else [cast(NDArray[np.float32], value)]


def test_constants_of_a_plan_are_its_own_and_go_with_it() -> None:
    """More plans than are kept, each with a constant that is large and another's size, at places that come
    free again.
    """
    made = model(
        """g (float[k] t, float[50000] x) => (y) <int64[1] size = {50000}> {
            length = Shape(t)
            value = Cast<to = 1>(length)
            all = Expand(value, size)
            y = Add(x, all)
        }"""
    )
    x = np.zeros(50000, np.float32)
    for k in range(1, 200):
        assert (made.run({"t": np.zeros(k, np.float32), "x": x})["y"] == k).all()
    used = made.program.store.device.pool.figures.used
    assert used < 80 * x.nbytes, "64 plans are kept"


def test_threads_take_turns() -> None:
    made = model("g (float[n, 8] x) => (y) { b = Transpose(x) a = MatMul(x, b) y = Tanh(a) }", 2)
    given = {n: np.linspace(-1, 1, 8 * n, dtype=np.float32).reshape(n, 8) for n in (1, 3, 50, 90)}
    wanted = {n: made.run({"x": x})["y"] for n, x in given.items()}
    wrong: list[int] = []

    def work() -> None:
        for _ in range(30):
            for n, x in given.items():
                wrong.extend([n] * (not np.array_equal(made.run({"x": x})["y"], wanted[n])))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_weight_that_is_an_input_is_a_default() -> None:
    made = model("g (float[n] x, float[n] w) => (y) <float[2] w = {1, 2}> { y = Mul(x, w) }")
    x, w = np.ones(2, np.float32), np.array([5, 6], np.float32)
    assert [spec.name for spec in made.inputs] == ["x"]
    for _ in range(2):
        assert made.run({"x": x})["y"].tolist() == [1, 2]
        assert made.run({"x": x, "w": w})["y"].tolist() == [5, 6]
    with pytest.raises(ContractError) as caught:
        made.run({"x": x, "w": w.astype(np.float64)})
    assert caught.value.place == "g › input w"


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        (["x"], X),
        (["x", "h"], X.clip(2)),
        (["x", "", "h"], X.clip(None, 2)),
        (["x", "h", "h"], X * 0 + 2),
    ],
)
def test_a_function_may_be_called_without_optional_inputs(
    inputs: list[str], wanted: NDArray[np.float32]
) -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[6] x, float h) => (y) { y = own.Outer(x) }
        <domain: "own", opset_import: ["" : 21, "own" : 1]>
        Outer (a, low, high) => (b) { b = own.Limit(a, low, high) }
        <domain: "own", opset_import: ["" : 21]>
        Limit (a, low, high) => (b) { b = Clip(a, low, high) }"""
    )
    proto.graph.node[0].input[:] = inputs
    found = Model(from_proto(proto), 1).run({"x": X, "h": np.array(2, np.float32)})
    np.testing.assert_array_equal(cast(NDArray[np.float32], found["y"]), wanted)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_of_no_steps_keep_their_states(op: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    made = model(
        f"""g (float[steps, 2, 3] x, float[1, {4 * gates}, 3] w, float[1, {4 * gates}, 4] r, float[1, 2, 4] h)
        => (y, last) {{ y, last = {op}<hidden_size = 4>(x, w, r, , , h) }}"""
    )
    given = {name: np.ones((1, 4 * gates, size), np.float32) for name, size in (("w", 3), ("r", 4))}
    h = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    found = made.run({**given, "x": np.ones((0, 2, 3), np.float32), "h": h})
    assert cast(NDArray[np.float32], found["y"]).shape == (0, 1, 2, 4)
    np.testing.assert_array_equal(cast(NDArray[np.float32], found["last"]), h)


@pytest.mark.parametrize("off", [frozenset[str](), frozenset({"fold"})])
def test_what_is_folded_to_a_view_goes_through_several_steps_of_the_host(off: frozenset[str]) -> None:
    """It is large and repeats one element; two values whose sizes data decides come before its use."""
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[5000] x, int64 n) => (y, z)
        <int64[1] k = {5000}, int64[1] one = {1}, int64[1] zero = {0}> {
            a = NonZero(x)
            b = Size(a)
            c = Cast<to = 1>(b)
            h = Add(x, c)
            d = NonZero(h)
            e = Size(d)
            f = Cast<to = 1>(e)
            i = Add(h, f)
            m = Cast<to = 1>(n)
            v = Expand(m, k)
            y = Add(i, v)
            last = Reshape(n, one)
            z = Slice(y, zero, last)
        }"""
    )
    made = Model(from_proto(proto), 1, off=off)
    found = made.run({"x": np.zeros(5000, np.float32), "n": np.array(2)})
    assert np.asarray(found["y"]).tolist() == [2.0] * 5000, "of zeros none is counted"
    found = made.run({"x": np.ones(5000, np.float32), "n": np.array(2)})
    assert np.asarray(found["y"]).tolist() == [10003.0] * 5000
