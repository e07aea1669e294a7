"""A graph beside ONNX Runtime, whatever its inputs are: figures, or an error that says what to do."""

from __future__ import annotations

import json

import onnx.parser
import pytest

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
MODELS = {
    "texts": "g (string[n] x) => (string[n] y) { y = StringConcat(x, x) }",
    "narrow": "g (bfloat16[n] x) => (bfloat16[n] y) { y = Neg(x) }",
    "nothing": "g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }",
    "plain": "g (float[n] x) => (float[n] y) { y = Neg(x) }",
    "list": "g (seq(float[n]) x) => (y) { y = ConcatFromSequence<axis = 0>(x) }",
}
QUICK = ("--repeats", "1", "--json")


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path) -> str:
    path = tmp_path / f"{request.param}.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + MODELS[request.param]), path)
    return str(path)


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("texts", ["-i", 'x=["a", "b"]']),
        ("nothing", []),
        ("plain", ["--shape", "x=3"]),
        ("narrow", ["--shape", "x=3", "--peer", "none"]),
    ],
    indirect=["path"],
)
def test_figures(cli, path: str, more: list[str]) -> None:
    outcome = cli("bench", "onnx", path, *more, *QUICK)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["ms"] > 0 and ("onnxruntime" in found["conditions"]) == ("--peer" not in more)
    assert "--peer" in more or (
        found["ratio"]["median"] > 0 and found["correctness"]["worst_relative_difference"] == 0
    )
    assert cli("bench", "onnx", path, *more, *QUICK[:-1]).code == 0


@pytest.mark.parametrize(
    ("path", "more", "code", "told"),
    [
        ("texts", [], 2, "an input that can't be drawn"),
        ("list", [], 2, "an input that can't be drawn"),
        ("plain", [], 2, "an input's sizes are open\n  wanted [n]\n"),
        ("plain", ["--shape", "y=3"], 2, "no such input"),
        ("plain", ["--shape", "x=3", "-i", "x=[1]"], 2, "--shape x: an array has its own sizes"),
        ("plain", ["--shape", "x=99999999999999"], 1, "memory gave out"),
        ("narrow", ["--shape", "x=3"], 2, "the peer can't run this model"),
    ],
    indirect=["path"],
)
def test_what_can_not_be_measured_is_told(cli, path: str, more: list[str], code: int, told: str) -> None:
    outcome = cli("bench", "onnx", path, *more, *QUICK)
    assert (outcome.code, outcome.out) == (code, "")
    assert told in outcome.err
