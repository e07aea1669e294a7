"""The report: what a sound model gets, the fields of a violation, the layer in the source, and how long it
takes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import assay
from assay.errors import ModelNotFoundError, Violation
from assay.formats.onnx_file import from_proto
from assay.formats.onnx_scopes import modules
from assay.runtime.model import Model, analyse

TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 3] x) => (float[N, 4] y) '
BODY = "<float[3, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0}, float[4] b = {1,2,3,4}>"


def saved(tmp_path: Path, nodes: str) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(f"{TEXT}{BODY} {{ {nodes} }}"), path)
    return path


def test_what_passes_loads_and_runs(tmp_path: Path) -> None:
    path = saved(tmp_path, "h = MatMul(x, w) k = Add(h, b) y = Relu(k)")
    report = assay.check(path)
    assert report.ok and report.violations == () and report.nodes == 3
    assert str(report) == f"{path}: 3 nodes, every contract is kept"
    assert report.json() == {"file": str(path), "ok": True, "nodes": 3, "violations": []}
    made = Model.load(path, 1).run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(made["y"], [[1, 2, 3, 4]] * 2)


def test_one_is_no_plural(tmp_path: Path) -> None:
    assert str(assay.check(saved(tmp_path, "y = MatMul(x, w)"))).endswith(": 1 node, every contract is kept")
    assert str(assay.check(saved(tmp_path, "y = MatMul(x, b)"))).endswith(": 1 violation in 1 node")


def test_a_violation_has_all_fields(tmp_path: Path) -> None:
    path = saved(tmp_path, "[up] h = Gemm(x, w) [fc] k = MatMul(h, w) y = Relu(k)")
    (error,) = assay.check(path).violations
    assert isinstance(error, Violation)
    assert (error.line, error.node, error.operator, error.value) == (7, "fc", "MatMul", "w")
    fields = json.loads(json.dumps(assay.check(path).json()))["violations"][0]
    assert fields["kind"] == "Violation" and fields["text"] == str(error)
    for name in ("rule", "place", "want", "got", "hint", "line", "node", "operator", "input", "value"):
        assert fields[name] == getattr(error, name)
    assert fields["consequences"] == 1 and fields["chain"] == list(error.chain)


EVIL = "q\n  got    FORGED"


def test_no_name_of_a_file_makes_a_line_of_its_own(tmp_path: Path) -> None:
    """Names of an operator, its domain, a function, an opset and a layer, each with a newline."""
    called = helper.make_node(EVIL, ["x"], ["y"], domain="f")
    function = helper.make_function("f", EVIL, ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [])
    layer = helper.make_node("Softmax", ["x"], ["y"], name=f"/{EVIL}/Softmax", axis=5)
    value = helper.make_tensor_value_info
    for node, functions, domain in [
        (helper.make_node(EVIL, ["x"], ["y"]), [], "f"),
        (helper.make_node("Relu", ["x"], ["y"], domain=EVIL), [], EVIL),
        (called, [function, function], "f"),
        (helper.make_node("Relu", ["x"], ["y"], domain="g"), [], EVIL),
        (layer, [], "f"),
    ]:
        graph = helper.make_graph([node], "g", [value("x", 1, ["N", 3])], [value("y", 1, None)])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
        path = tmp_path / "model.onnx"
        onnx.save(helper.make_model(graph, functions=functions, opset_imports=opsets), path)
        report = str(assay.check(path))
        assert "FORGED" in report and "\n  got    FORGED" not in report and "›  ›" not in report


def test_the_chain_leads_to_where_a_size_came_up(tmp_path: Path) -> None:
    path = saved(tmp_path, "[a] h = Relu(x) [b] k = Neg(h) [c] y = Add(k, b)")
    (error,) = assay.check(path).violations
    assert isinstance(error, Violation)
    assert [step.partition(":")[0] for step in error.chain] in (["b"], ["k", "h", "x"])


def test_the_module_of_the_source_is_shown(tmp_path: Path) -> None:
    path = saved(tmp_path, "[fc] h = MatMul(x, b) y = Relu(h)")
    model = onnx.load(path)
    model.graph.node[0].name = "/encoder/encoder.0/fc/MatMul"
    onnx.save(model, path)
    (error,) = assay.check(path).violations
    assert isinstance(error, Violation) and error.module == "encoder.0.fc"
    assert "\n  module encoder.0.fc\n" in str(error)


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("pkg.torch.onnx.name_scopes", "['', 'layers', 'layers.0', 'fc', 'linear']", "layers.0.fc"),
        ("namespace", ": model.Net/fc: torch.nn.Linear/linear: aten.linear.default", "fc"),
        ("namespace", "", "from.name"),
        ("other", "x", "from.name"),
    ],
)
def test_metadata_of_exporters(key: str, value: str, path: str) -> None:
    model = parser.parse_model(f"{TEXT}{BODY} {{ [n] y = MatMul(x, w) }}")
    model.graph.node[0].name = "/from/name/MatMul"
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = key, value
    assert modules(from_proto(model)) == {6: path}


def test_functions_of_one_name_are_told_apart_by_their_overload(tmp_path: Path) -> None:
    opset = helper.make_opsetid("", 21)
    functions = [
        helper.make_function(
            "l", "F", ["a"], ["b"], [helper.make_node(op, ["a"], ["b"])], [opset], overload=over
        )
        for op, over in (("Neg", "one"), ("Abs", "two"))
    ]
    nodes = [helper.make_node("F", ["x"], [f"y{over}"], domain="l", overload=over) for over in ("one", "two")]
    info = helper.make_tensor_value_info
    ends = [info("x", 1, [2])], [info("yone", 1, [2]), info("ytwo", 1, [2])]
    graph = helper.make_graph(nodes, "g", *ends)
    model = helper.make_model(
        graph, functions=functions, opset_imports=[opset, helper.make_opsetid("l", 1)], ir_version=10
    )
    found = Model(from_proto(model), 1).run({"x": np.array([1, -2], np.float32)})
    np.testing.assert_array_equal(found["yone"], [-1, 2])
    np.testing.assert_array_equal(found["ytwo"], [1, 2])


def test_damaged_files_are_reported_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\xff" * 40)
    report = assay.check(path)
    assert not report.ok and report.json()["violations"][0]["kind"] == "FormatError"  # type: ignore[index]
    with pytest.raises(ModelNotFoundError):
        assay.check(tmp_path / "other.onnx")


def test_language_models_are_held_against_their_contracts_too(smollm2_path: Path) -> None:
    report = assay.check(smollm2_path)
    assert report.ok and report.nodes > 300


def test_a_thousand_nodes_take_less_than_a_second() -> None:
    """Of the processor: 0.2 s here."""
    nodes = []
    for index in range(250):
        nodes += [
            helper.make_node("MatMul", [f"x{index}", "w"], [f"a{index}"]),
            helper.make_node("Add", [f"a{index}", "b"], [f"b{index}"]),
            helper.make_node("Reshape", [f"b{index}", "s"], [f"c{index}"]),
            helper.make_node("Relu", [f"c{index}"], [f"x{index + 1}"]),
        ]
    info = helper.make_tensor_value_info
    weights = [
        helper.make_tensor("w", 1, [64, 64], np.zeros(4096, np.float32)),
        helper.make_tensor("b", 1, [64], np.zeros(64, np.float32)),
        helper.make_tensor("s", 7, [2], [-1, 64]),
    ]
    ends = [info("x0", 1, ["n", 64])], [info("x250", 1, ["n", 64])]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    analyse(from_proto(model))
    begin = time.process_time()
    assert not analyse(from_proto(model)).errors
    assert time.process_time() - begin < 1
