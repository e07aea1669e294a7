"""The benchmarks: their figures are there and add up; how fast it is isn't a matter of the suite."""

from __future__ import annotations

import argparse
import json
import re
import subprocess

import pytest

from assay.cli import machine
from assay.cli.dispatch import command
from assay.cli.machine import Limits, Work, work_of
from assay.kernels import target

LIMITS = Limits(memory=10e9, cache=100e9, float32=100e9, int8=1000e9)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LARGE", 8 << 20)
    monkeypatch.setattr(machine, "ROUNDS", 1000)


def test_llm_gives_every_figure_with_its_conditions(cli, loaded) -> None:
    outcome = cli(
        "bench", "llm", "smollm2", "--prompt", "9", "--generate", "3", "--batch", "1,3", "--repeats", "1",
        "--json",
    )  # fmt: skip
    assert outcome.code == 0
    found = json.loads(outcome.out)
    conditions = found["conditions"]
    assert conditions["threads"] == 2 and conditions["seed"] == 0 and conditions["numba"]
    assert found["prefill"]["tokens_per_s"] > 0
    decode = found["decode"]
    # What a step of SmolLM2 reads of the file's tensors.
    assert decode["weights_read_mb"] == pytest.approx(96.6, abs=0.1)
    achieved = decode["weights_read_mb"] * 1e6 * decode["tokens_per_s"]
    share = achieved / (decode["memory_limit_gb_per_s"] * 1e9)
    assert decode["share_of_memory_limit"] == pytest.approx(share, rel=0.1, abs=0.001)
    assert decode["python_ms_per_step"] > 0
    assert [batch["sequences"] for batch in found["batches"]] == [1, 3]
    for batch in found["batches"]:
        # 9 prompt tokens and 3 new ones: a quarter is new.
        assert batch["new_tokens_per_s"] == pytest.approx(batch["total_tokens_per_s"] / 4, rel=0.05, abs=0.2)
    assert not loaded.engine.busy


def test_kernels_cover_the_whole_step(cli, loaded) -> None:
    outcome = cli("bench", "kernels", "smollm2", "--tokens", "1,5", "--repeats", "1", "--json")
    assert outcome.code == 0
    (found,) = json.loads(outcome.out)
    assert all(value > 0 for value in found["limits"].values())
    for step, tokens in zip(found["steps"], (1, 5), strict=True):
        assert step["tokens"] == tokens
        plan = loaded.engine.executor.plan({"T": tokens, "S": 1, "R": 1, "A": 0, "E": 0})
        assert sum(row["launches"] for row in step["kernels"]) == len(plan.launches)
        assert {row["kernel"] for row in step["kernels"]} == {launch.kernel for launch in plan.launches}
        for row in step["kernels"]:
            assert row["share_of_limit"] is None or row["share_of_limit"] >= 0
    loaded.engine.check_integrity()


def test_kernels_are_a_table_for_people(cli, loaded) -> None:
    text = cli("bench", "kernels", "smollm2", "--tokens", "1", "--repeats", "1").out
    assert "a step of 1 token after 512" in text
    (attention,) = (line for line in text.splitlines() if "attention.float16" in line)
    assert re.search(r" 1×576, 513 keys +30 .* \d+% +(float32|memory|cache)$", attention)


def test_work_is_counted_by_the_formula(loaded) -> None:
    binding = {"T": 5, "S": 1, "R": 1, "A": 0, "E": 0}
    plan = loaded.engine.executor.plan(binding)
    works: dict[str, Work] = {}
    for launch in plan.launches:
        node = plan.graph.nodes[launch.nodes[0]]
        works[node.name] = work_of(plan, launch, binding, 5)
    up = works["blk.0.ffn_up"]
    assert up.operations == 2 * 5 * 576 * 1536 and up.integer
    # A block of 32 weights is 20 bytes in Q4_1.
    assert up.weights == 1536 * 576 // 32 * 20
    # x in int8 with a scale and a sum for each block, and y in float32.
    assert up.values == 5 * 576 + 2 * 4 * 5 * 18 + 4 * 5 * 1536
    attention = works["blk.0.attn"]
    assert attention.operations == 4 * 576 * (1 + 2 + 3 + 4 + 5)
    # Keys and values of 3 heads of 64 for 5 tokens in float16; q and y; spans, pasts and a table of 16 pages.
    assert attention.values == 2 * 2 * 5 * 192 + 2 * 4 * 5 * 576 + 4 * (2 + 1 + 16)
    # Token numbers, and what is written.
    assert works["token_embd"].values == 4 * 5 + 4 * 5 * 576


def test_the_least_time_is_that_of_the_scarcest() -> None:
    assert Work("", True, 1000, 0, 0).least_seconds(LIMITS) == (pytest.approx(1e-9), "int8")
    assert Work("", False, 1000, 50, 0).least_seconds(LIMITS) == (pytest.approx(1e-8), "float32")
    assert Work("", False, 0, 1000, 1000).least_seconds(LIMITS) == (pytest.approx(1e-7), "memory")
    assert Work("", False, 0, 0, 1000).least_seconds(LIMITS) == (pytest.approx(1e-8), "cache")


def test_more_tokens_than_the_model_has_room_for_name_the_options(cli, loaded) -> None:
    outcome = cli("bench", "llm", "smollm2", "--prompt", "99999")
    assert outcome.code == 2
    assert outcome.err == (
        "assay: --prompt, --generate: too many tokens for this model\n"
        "  wanted at most 1,024 together\n  got    99,999 of the prompt and 128 new ones\n"
    )


def test_a_target_that_the_processor_lacks_names_the_option(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "host", lambda: target.Target("host", "old", ""))
    monkeypatch.setattr("assay.cli.bench_kernels._in_child", None)
    outcome = cli("bench", "kernels", "smollm2", "--targets", "host,avx2")
    assert outcome.code == 1
    assert outcome.err.startswith("assay: --targets: this processor can't run the kernels asked for\n")
    assert "ASSAY_CPU" not in outcome.err and "old without" in outcome.err


def test_how_far_it_is_is_told(cli, loaded) -> None:
    line = ["--repeats", "1", "--json"]
    assert cli("bench", "kernels", "smollm2", "--tokens", "1", *line).err == "assay: measuring, 1 steps\n"
    # Of a prompt, of an answer, of a batch; once for the plans and once for the figures.
    outcome = cli("bench", "llm", "smollm2", "--prompt", "9", "--generate", "3", *line)
    assert outcome.err == "assay: measuring, 6 runs\n" and json.loads(outcome.out)


def test_a_target_is_measured_by_the_same_command_line(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own gets each option that was given, and the target by its environment."""
    asked: list[argparse.Namespace] = []
    found = {"model": "m", "conditions": {"target": "x"}, "limits": {"memory": 1.0}, "steps": []}

    def child(line: list[str], env: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
        asked.append(command("bench kernels").read(line[5:]))
        return subprocess.CompletedProcess(
            line, len(asked) // 2, json.dumps([found | {"target": env["ASSAY_CPU"]}])
        )

    monkeypatch.setattr("assay.cli.bench_kernels.subprocess.run", child)
    line = ["./m.gguf", "--tokens", "1,3", "--threads", "2", "--quantize", "q8_0", "--repeats", "7"]
    line += ["--activations", "float32"]
    outcome = cli("bench", "kernels", *line, "--targets", "baseline", "--json")
    assert vars(asked[0]) == {**vars(command("bench kernels").read(line)), "json": True}
    assert json.loads(outcome.out) == [found | {"target": "baseline"}]
    failed = cli("bench", "kernels", *line, "--targets", "baseline")
    assert (failed.code, failed.out, failed.err) == (1, "", ""), "the child has said why"
