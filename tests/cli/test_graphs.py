"""`assay check`, `show` and `infer` on an ONNX file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

from assay.cli.arrays import arrays
from assay.errors import RequestError
from assay.graph.listing import parse

TEXT = """<ir_version: 10, opset_import: ["" : 21, "l" : 1]>
g (float[n, 4] x, bool c, int64 k) => (float[n, 4] y, int64 z) <float[4] w = {1, 2, 3, 4}>
{
  [f] h = l.Twice(x)
  [i] b = If(c) <then_branch = t () => (p) { p = Add(h, w) }, else_branch = e () => (q) { q = Neg(h) }>
  [r] y = Relu(b)
  z = Identity(k)
}
<domain: "l", opset_import: ["" : 21]> Twice (a) => (d) { d = Add(a, a) }
"""
X = np.array([[1, -2, 3, -4]], np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(TEXT), file)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "all.npz", x=X, c=np.array(False), k=np.array(7))
    return file


def broken(path: Path) -> Path:
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros(3, np.float32), "w"))
    model.graph.node[2].op_type = "Rellu"
    onnx.save(model, path)
    return path


def test_check(cli, path: Path) -> None:
    outcome = cli("check", str(path))
    assert (outcome.code, outcome.out) == (0, f"{path}: 7 nodes, every contract is kept\n")
    assert json.loads(cli("check", str(path), "--json").out)["ok"] is True
    outcome = cli("check", str(broken(path)))
    assert outcome.code == 1 and not outcome.err
    places = re.findall(r"^\S+ › line (\d+) › node \"(\w+)\" \((\w+)\): ", outcome.out, re.MULTILINE)
    assert places == [("17", "p", "Add"), ("24", "r", "Rellu")]
    assert outcome.out.splitlines()[-1] == f"{path}: 2 violations in 7 nodes"
    shown = cli("show", str(path)).out.splitlines()
    assert "p = Add(h, w)" in shown[16] and "Rellu(b)" in shown[23]
    found = json.loads(cli("check", str(path), "--json").out)
    assert [each["line"] for each in found["violations"]] == [17, 24]
    log = json.loads(cli("check", str(path), "--sarif").out)
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["contract/Add", "contract/Rellu"]
    assert cli("check", str(path), "--json", "--sarif").code == 2
    assert cli("check", str(path.with_name("none.onnx"))).code == 2


def test_the_listing_has_all_types_and_parses_back(cli, path: Path) -> None:
    outcome = cli("show", str(path))
    assert outcome.code == 0
    graph = parse(outcome.out)
    assert graph.opsets == {"ai.onnx": 21, "l": 1}
    (function,) = graph.functions
    body = graph.nodes[1].bodies[0][1]
    for part in (graph, function, body):
        for node in part.nodes:
            assert {str(part.types[name]) for name in node.outputs} <= {"float32[n, 4]", "int64[]"}
    shown = json.loads(cli("show", str(path), "--json").out)
    lines = outcome.out.splitlines()
    for node in shown["nodes"]:
        assert (
            lines[node["line"] - 1].split()[0] == str(node["line"])
            and f"{node['op']}(" in lines[node["line"] - 1]
        )
    assert shown["nodes"][1]["attributes"]["then_branch"]["outputs"] == {"p": "float32[n, 4]"}


def test_plans_have_stages_and_memory(cli, path: Path) -> None:
    (stage,) = json.loads(cli("show", str(path), "--plan", "--json").out)
    assert stage["calls"] == sum(stage["kernels"].values()) == 1 and stage["hosts"] == []
    assert 0 <= stage["arena_bytes"] <= stage["bytes_of_all_values"]
    text = cli("show", str(path), "--plan", "--shape", "x=5,4").out
    assert re.search(r"^  elementwise.chain +1$", text, re.MULTILINE)
    assert cli("show", str(path), "--plan", "--shape", "x=5,3").code == 1
    assert cli("show", str(path), "--plan", "--shape", "xx=5,4").code == 2
    assert cli("show", str(path), "--shape", "x=5,4").code == 2
    assert "--activations: of language models" in cli("show", str(path), "--activations", "int8").err


@pytest.mark.parametrize(("given", "rows"), [("x=7,4", 7), ("y=3", 1), ("z=9,4", 9)])
def test_plans_are_of_the_sizes_that_are_given(cli, tmp_path: Path, given: str, rows: int) -> None:
    """A batch of 1 is for what isn't given; an input that shares the batch has it too."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n, 4] x, float[m] y, float[n, 4] z) => (float[n, 1] v)
    <float[4, 1] w = {1, 2, 3, 4}> { s = Add(x, z) r = Neg(y) v = MatMul(s, w) }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    (stage,) = json.loads(cli("show", str(tmp_path / "m.onnx"), "--plan", "--shape", given, "--json").out)
    assert stage["bytes_of_all_values"] == rows * 4 * 4


@pytest.mark.parametrize("command", ["show --plan", "bench onnx"])
def test_sizes_given_twice_or_beyond_memory_are_refused(cli, path: Path, command: str) -> None:
    outcome = cli(*command.split(), str(path), "--shape", "x=3,4", "--shape", "x=5,4")
    assert outcome.code == 2 and "--shape x: an input given twice" in outcome.err
    outcome = cli(*command.split(), str(path), "--shape", "x=9999999999999999999,0")
    assert outcome.code == 1 and "memory gave out" in outcome.err


def test_infer(cli, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    given = "-i", f"x=@{tmp_path / 'x.npy'}", "-i", "c=true", "-i", "k=-5"
    outcome = cli("infer", str(path), *given, "-o", str(out), "--threads", "1")
    assert outcome.code == 0, outcome.err
    want = np.maximum(2 * X + [1, 2, 3, 4], 0)
    with np.load(out) as saved:
        assert set(saved) == {"y", "z"} and saved["z"] == -5
        np.testing.assert_array_equal(saved["y"], want.astype(np.float32), strict=True)
    rows = [line.split() for line in outcome.out.splitlines()]
    assert rows[0] == ["name", "dtype", "shape", "min", "max", "mean"]
    assert rows[1] == ["y", "float32", "[1,", "4]", "0", "9", "3"]
    assert rows[2] == ["z", "int64", "[]", "-5", "-5", "-5"]
    archive = [f"-i={name}=@{tmp_path / 'all.npz'}" for name in "xck"]
    found = json.loads(cli("infer", str(path), *archive, "--json").out)
    assert found[0] == {"name": "y", "dtype": "float32", "shape": [1, 4], "min": 0, "max": 8, "mean": 3}


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["-i", "c=1"], 2, "-i c: no such value"),
        (["-i", "k=1.5"], 2, "-i k: no such value"),
        (["-i", "k=[1]"], 1, "input k: wrong shape"),
        (["-i", "xx=1"], 2, "did you mean x?"),
        (
            ["-i", "k=99999999999999999999"],
            2,
            "wanted int64 from -9223372036854775808 to 9223372036854775807 in",
        ),
        (["-i", "x=[[1,2,3,1e40]]"], 2, "wanted float32 from -3.40282e+38 to 3.40282e+38 in JSON, or @FILE"),
        (["-i", "x=[[1,2,3,1e999]]"], 2, "-i x: no such value"),
        (["-i", "x=" + 9999 * "["], 2, "-i x: no such value"),
        (["-i", "x=[]"], 1, "got    float32[0]"),
        (
            ["-i", "x=@none.npy"],
            2,
            "-i x › none.npy: it can't be read\n  wanted an array that NumPy wrote\n  got    No such file",
        ),
        (["-i", f"x=@{__file__}"], 2, "got    something else, or Python's objects"),
        (["-i", f"x={__file__}"], 2, f"hint   -i x=@{__file__}"),
        (["-o", "none/out.npz"], 2, "-o none/out.npz: it can't be written"),
        (["--on", "kernel"], 2, "--on: it is for a node alone"),
        (["-i", "x=1", "-i", "x=2"], 2, "given twice"),
        (["-i", "x"], 2, "NAME=VALUE"),
        (["-o", "out.txt"], 2, ".npz or .npy"),
        ([], 1, "no x, c, k"),
    ],
)
def test_what_does_not_fit_is_refused(cli, path: Path, more: list[str], code: int, said: str) -> None:
    given = {"x": "[[1,2,3,4]]", "c": "true", "k": "1"}
    if more and more[0] == "-i":
        given.pop(more[1].partition("=")[0], None)
    full = [word for name, value in given.items() for word in ("-i", f"{name}={value}")] if more else []
    outcome = cli("infer", str(path), *full, *more)
    assert outcome.code == code and said in outcome.err, outcome.err


def test_a_copy_or_cast_is_never_made(cli, path: Path, tmp_path: Path) -> None:
    others = "-i", "c=true", "-i", "k=1"
    for array, want in (
        (X.astype(np.float64), "dtype=np.float32"),
        (np.asfortranarray(np.tile(X, (2, 1))), ""),
    ):
        np.save(tmp_path / "other.npy", array)
        outcome = cli("infer", str(path), "-i", f"x=@{tmp_path / 'other.npy'}", *others)
        assert outcome.code == 1 and f"np.ascontiguousarray(x{', ' * bool(want)}{want})" in outcome.err


def test_bfloat16_goes_through_files(cli, tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (bfloat16[n] x) => (bfloat16[n] y) { y = Neg(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "b.onnx")
    array = np.array([1, -2.5], ml_dtypes.bfloat16)
    np.save(tmp_path / "b.npy", array)
    given = "-i", f"x=@{tmp_path / 'b.npy'}", "-o", str(tmp_path / "c.npy")
    outcome = cli("infer", str(tmp_path / "b.onnx"), *given)
    assert outcome.code == 0 and "bfloat16" in outcome.out, outcome.err
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy").view(ml_dtypes.bfloat16), -array)


@pytest.mark.parametrize(
    ("dtype", "fit", "unfit"),
    [
        ("uint8", "[0, 255]", ["[-1]", "[256]", "[1.0]", "[true]"]),
        ("int4", "[-8, 7]", ["[8]"]),
        ("bool", "[true, false]", ["[1]"]),
        ("float16", "[-65504, 1e-30, Infinity]", ["[65536]", '["1"]', "[1e400]"]),
        ("bfloat16", "[3e38, NaN]", ["[1e39]"]),
        ("float8e4m3fn", "[448, NaN]", ["[500]", "[Infinity]"]),
        ("float4e2m1", "[6, -0.5]", ["[7]", "[NaN]"]),
        ("string", '["", "é"]', ["[1]"]),
    ],
)
def test_what_a_dtype_can_not_hold_is_no_value(dtype: str, fit: str, unfit: list[str]) -> None:
    """What fits comes out as it went in, to rounding; nothing overflows or wraps around silently."""
    made = arrays({"x": dtype}, [("x", fit)])["x"]
    wanted = json.loads(fit)
    if dtype not in ("bool", "string"):
        made = made.astype(np.float64)
        np.testing.assert_allclose(made, wanted, rtol=1e-2, atol=1e-7)
    assert made.shape == (len(wanted),) and (made.dtype.kind == "f" or made.tolist() == wanted)
    assert arrays({"x": dtype}, [("x", "[]")])["x"].shape == (0,)
    for text in unfit:
        with pytest.raises(RequestError, match="no such value"):
            arrays({"x": dtype}, [("x", text)])


def test_one_array_goes_to_npy_and_several_do_not(cli, path: Path, tmp_path: Path) -> None:
    given = "-i", f"x=@{tmp_path / 'x.npy'}", "-i", "c=true", "-i", "k=1"
    outcome = cli("infer", str(path), *given, "-o", str(tmp_path / "out.npy"))
    assert outcome.code == 2 and "several outputs" in outcome.err


@pytest.mark.parametrize(
    ("body", "given", "values"),
    [
        ("(string[n] x) => (string[n] y) { y = Identity(x) }", '["a", "é"]', ["a", "é"]),
        ("(float[n] x) => (y) { y = SequenceConstruct(x, x) }", "[1, Infinity]", [[1, "inf"], [1, "inf"]]),
        (
            "(float[n, 2] x) => (y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(x) }",
            "[[1, 2], [0, 9]]",
            [{"3": 1, "5": 2}, {"3": 0, "5": 9}],
        ),
    ],
)
def test_what_is_no_array_of_numbers_is_shown(
    cli, tmp_path: Path, body: str, given: str, values: list[object]
) -> None:
    file = tmp_path / "m.onnx"
    onnx.save(
        parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]> g {body}'), file
    )
    (row,) = json.loads(cli("infer", str(file), "-i", f"x={given}", "--json").out)
    assert row["values"] == values and row["shape"] == [2] and row["min"] is None
    head, line = cli("infer", str(file), "-i", f"x={given}").out.splitlines()
    assert head.split()[-1] == "values" and line.split()[0] == "y" and "[2]" in line
    assert json.loads(line.partition("[2]")[2]) == values
    outcome = cli("infer", str(file), "-i", f"x={given}", "-o", str(tmp_path / "out.npz"))
    assert outcome.code == 2 and "output y: NumPy's files hold numbers alone" in outcome.err


def test_one_node_alone(cli, path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "h.npy", X)
    for given in (["-i", f"x=@{tmp_path / 'x.npy'}"], ["-i", f"h=@{tmp_path / 'h.npy'}"]):
        sums = [
            json.loads(
                cli("infer", str(path), "--node", node, *given, "-i", "c=false", "--on", on, "--json").out
            )
            for node in ("i", "r")
            for on in ("kernel", "kernel" if node == "i" else "reference")
        ]
        assert sums[0] == sums[1] and sums[2] == sums[3]
        assert [row[0]["name"] for row in sums] == ["b", "b", "y", "y"]
        factor = 2 if "x=" in given[1] else 1
        assert (sums[0][0]["max"], sums[2][0]["max"]) == (4 * factor, 4 * factor)
    given = "-i", "h=[[1, -2, 3, -4]]", "-i", "c=false"
    assert json.loads(cli("infer", str(path), "--node", "i", *given, "--json").out)[0]["max"] == 4
    for name in ("hh", "w"):
        assert "no such input" in cli("infer", str(path), "--node", "i", *given, "-i", f"{name}=@x.npy").err
    for wrong, hint in (("rr", "did you mean r?"), ("nope", "there is h, i, b, ")):
        error = cli("infer", str(path), "--node", wrong).err
        assert "no such node" in error and hint in error
    assert "values missing" in cli("infer", str(path), "--node", "r").err
    assert (
        "a node that runs graphs" in cli("infer", str(path), "--node", "i", "--on", "reference", *given).err
    )


def test_graphs_and_texts_are_told_apart(cli, path: Path) -> None:
    assert "assay infer" in cli("run", str(path), "Hello").err
    assert "assay run" in cli("infer", "smollm2").err
    assert "assay bench llm" in cli("bench", "onnx", "smollm2").err
    for line in (["quantize", str(path), "out", "q4_k"], ["merge", str(path), "adapter", "out"]):
        outcome = cli(*line)
        assert outcome.code == 2 and "a .gguf file or a folder with safetensors" in outcome.err
