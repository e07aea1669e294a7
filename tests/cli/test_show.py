"""`assay show`, `contract`, `settings`, `pull`: what is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assay import settings
from assay.graph.listing import parse
from assay.ops import registry
from assay.ops.page import page


def test_the_listing_parses_back_and_has_many_nodes_in_each_layer(cli, loaded) -> None:
    outcome = cli("show", "smollm2")
    assert outcome.code == 0
    graph = parse(outcome.out)
    layers = {f"blk.{index}": 0 for index in range(30)}
    for node in graph.nodes:
        match = re.match(r"blk\.\d+", node.name)
        if match:
            layers[match[0]] += 1
    assert len(layers) == 30
    assert min(layers.values()) >= 10
    assert {node.op for node in graph.nodes} == {node.op for node in loaded.graph.nodes}


def test_json_has_the_same_nodes_on_the_same_lines(cli) -> None:
    shown = json.loads(cli("show", "smollm2", "--json").out)
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
        assert plan["scratch_bytes_per_thread"] > 0 and plan["kernels"]
    assert large["arena_bytes"] > small["arena_bytes"] > 0
    text = cli("show", "smollm2", "--plan").out
    assert re.search(rf"^tape +{small['tape']} +{large['tape']}$", text, re.MULTILINE)
    arenas = f"{small['arena_bytes']:,} +{large['arena_bytes']:,}"
    assert re.search(rf"^arena bytes +{arenas}$", text, re.MULTILINE)


def test_a_contract_is_its_page_and_without_a_name_a_list(cli) -> None:
    assert cli("contract", "linear").out == page(registry.get("linear"))
    lines = cli("contract").out.splitlines()
    assert [line.split()[0] for line in lines] == [operator.name for operator in registry.all_operators()]


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
    assert "'many' can't be read" in outcome.out


def test_pull_prints_where_the_model_lies(cli, smollm2_path: Path) -> None:
    outcome = cli("pull", "smollm2")
    assert outcome.code == 0 and outcome.out == f"{smollm2_path}\n"
