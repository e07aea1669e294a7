"""`assay show`, `contract`, `settings`, `pull`: what is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assay import settings
from assay.graph.listing import parse
from assay.hub.catalogue import CATALOGUE
from assay.hub.pull import resolve
from assay.ops import registry
from assay.ops.page import page
from assay.ops.standard import page as standard
from assay.ops.standard import registry as graphs
from houserules.sources import REPOSITORY


def test_the_listing_parses_back_and_has_many_nodes_in_each_layer(cli, loaded) -> None:
    outcome = cli("show", "smollm2")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].endswith(f'  # "{loaded.details["path"]}"')
    graph = parse(outcome.out)
    layers = {f"blk.{index}": 0 for index in range(30)}
    for node in graph.nodes:
        match = re.match(r"blk\.\d+", node.name)
        if match:
            layers[match[0]] += 1
    assert len(layers) == 30
    assert min(layers.values()) >= 10
    assert {node.op for node in graph.nodes} == {node.op for node in loaded.graph.nodes}


def test_json_has_the_same_nodes_on_the_same_lines(cli, smollm2_path: Path) -> None:
    shown = json.loads(cli("show", "smollm2", "--json").out)
    assert shown["file"] == str(smollm2_path)
    lines = cli("show", "smollm2").out.splitlines()
    assert len(shown["nodes"]) > 300
    for node in shown["nodes"][:40]:
        line = lines[node["line"] - 1]
        assert line.split()[0] == str(node["line"])
        assert f"{node['op']}(" in line and all(name in line for name in node["inputs"])


def test_float32_activations_show_another_graph(cli) -> None:
    assert "linear_quantized" not in cli("show", "smollm2", "--activations", "float32").out
    assert "linear_quantized" in cli("show", "smollm2").out


def test_plans_are_printed_with_their_figures(cli) -> None:
    small, large = json.loads(cli("show", "smollm2", "--plan", "--json").out)
    assert (small["step"]["T"], large["step"]["T"]) == (1, 512)
    for plan in (small, large):
        assert 0 < plan["barriers"] < plan["tape"] <= plan["nodes"]
        assert plan["scratch_bytes_per_thread"] > 0
        assert sum(plan["kernels"].values()) == plan["tape"]
    assert large["arena_bytes"] > small["arena_bytes"] > 0
    text = cli("show", "smollm2", "--plan").out
    assert re.search(rf"^tape +{small['tape']} +{large['tape']}$", text, re.MULTILINE)
    arenas = f"{small['arena_bytes']:,} +{large['arena_bytes']:,}"
    assert re.search(rf"^arena bytes +{arenas}$", text, re.MULTILINE)
    assert text.splitlines()[0].split() == ["a", "step", "of", "1", "token", "512", "tokens"]
    for kernel in {**small["kernels"], **large["kernels"]}:
        counts = f"{small['kernels'].get(kernel, 0)} +{large['kernels'].get(kernel, 0)}"
        assert re.search(rf"^  {re.escape(kernel)} +{counts}$", text, re.MULTILINE)


def test_a_contract_is_its_page_and_without_a_name_a_list(cli) -> None:
    assert cli("contract", "linear").out == page(registry.get("linear"))
    lines = cli("contract").out.splitlines()
    every = (*registry.all_operators(), *graphs.all_definitions())
    assert [line.split()[0] for line in lines] == [operator.name for operator in every]
    assert cli("contract", "Softmax").out == standard.page(graphs.find("Softmax"))
    outcome = cli("contract", "softmx")
    assert outcome.code == 2 and "did you mean Softmax" in outcome.err
    assert cli("contract", "ai.onnx.Softmax").out == cli("contract", "Softmax").out


def test_pages_of_graphs_operators_have_their_versions_and_ways(cli) -> None:
    text = cli("contract", "Softmax").out
    for part in ("# Softmax\n", "`axis`", "−r … r − 1", "## Older versions", "| 11 |", "## Gradient"):
        assert part in text
    found = json.loads(cli("contract", "Add", "--json").out)
    assert found["since"] == 14 and found["versions"][0]["version"] == 1
    assert [port["name"] for port in found["inputs"]] == ["A", "B"]
    assert found["exactness"]["kind"] == "bitwise" and "chain" in found["runs"]
    for definition in graphs.all_definitions():
        assert json.loads(json.dumps(standard.record(definition)))["name"] == definition.name
    ways = {entry["name"]: entry["way"] for entry in json.loads(cli("contract", "--json").out)}
    some = {"Softmax": "kernel", "Elu": "function", "NonZero": "reference", "ImageDecoder": "delegated"}
    assert {name: ways[name] for name in some} == some


def test_contracts_as_json_have_all_that_the_pages_have(cli) -> None:
    listed = json.loads(cli("contract", "--json").out)[: len(registry.all_operators())]
    for operator, entry in zip(registry.all_operators(), listed, strict=True):
        assert entry == {"name": operator.name, "way": "kernel", "summary": operator.summary}
        record = json.loads(cli("contract", operator.name, "--json").out)
        assert [port["name"] for port in record["inputs"]] == [port.name for port in operator.inputs]
        assert [port["dtypes"] for port in record["outputs"]] == [
            list(map(str, port.dtypes)) for port in operator.outputs
        ]
        text = page(operator).replace("\\|", "|")
        said = [record["formula"], *record["numerics"], *(kernel["name"] for kernel in record["kernels"])]
        said += [relation["text"] for relation in record["relations"]]
        said += [attribute[part] for attribute in record["attributes"] for part in ("admitted", "doc")]
        said += list(record["not_differentiable"].values())
        assert [part for part in said if part not in text] == []


def test_settings_are_a_table(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_THREADS", "3")
    outcome = cli("settings")
    assert outcome.code == 0
    rows = {line.split()[0]: line for line in outcome.out.splitlines()[1:]}
    assert list(rows) == [setting.name for setting in settings.ALL]
    for setting in settings.ALL:
        assert setting.help in rows[setting.name]
    assert rows["ASSAY_THREADS"].split()[1] == "3"


def test_a_setting_that_cannot_be_read_is_told(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_THREADS", "many")
    outcome = cli("settings")
    assert outcome.code == 1
    assert "a setting can't be read: 'many'" in outcome.out


def test_a_setting_without_a_default_is_told(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote in the text changes nothing of how it is told."""
    monkeypatch.delenv("ASSAY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "~nosuchuser")
    monkeypatch.setenv("ASSAY_THREADS", "it's")
    outcome = cli("settings", "--json")
    rows = {row["variable"]: row for row in json.loads(outcome.out)}
    assert outcome.code == 1 and rows["ASSAY_CACHE"]["wrong"].startswith("a setting has no default here: ")
    assert rows["ASSAY_THREADS"]["wrong"] == """a setting can't be read: "it's\""""


def test_settings_as_json_are_typed(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_THREADS", "3")
    monkeypatch.setenv("ASSAY_CPU", "none")
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    outcome = cli("settings", "--json")
    rows = {row["variable"]: row for row in json.loads(outcome.out)}
    assert outcome.code == 1 and list(rows) == [setting.name for setting in settings.ALL]
    assert rows["ASSAY_THREADS"]["value"] == 3 and rows["ASSAY_DEBUG"]["value"] == 1
    assert (
        rows["ASSAY_CPU"]["value"] is None and rows["ASSAY_CPU"]["wrong"] == "a setting can't be read: 'none'"
    )
    assert rows["ASSAY_CACHE"]["value"] == str(settings.CACHE.get())


def test_a_variable_that_nothing_reads_is_told(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_THRED", "3")
    outcome = cli("settings")
    assert outcome.code == 1
    assert "nothing reads this variable; did you mean ASSAY_THREADS" in outcome.out


def test_what_pull_prints_is_a_model_for_every_command(cli) -> None:
    for name in CATALOGUE:
        printed = Path(cli("pull", name).out.strip())
        assert resolve(printed) == resolve(name) == printed


def test_pull_prints_where_the_model_lies(cli, smollm2_path: Path) -> None:
    outcome = cli("pull", "smollm2")
    assert outcome.code == 0 and outcome.out == f"{smollm2_path}\n"
    assert json.loads(cli("pull", "smollm2", "--json").out) == {
        "name": "smollm2",
        "path": str(smollm2_path),
        "bytes": smollm2_path.stat().st_size,
        "sha256": CATALOGUE["smollm2"].sha256,
    }


def test_what_is_to_be_fetched_has_one_size_everywhere(cli) -> None:
    size = f"{(CATALOGUE['smollm2'].wheel_size or 0) / 1e6:.0f} MB"
    assert f"({size}," in (REPOSITORY / "README.md").read_text()
    assert f", {size} to fetch, " in " ".join(cli("pull", "--help").out.split())
