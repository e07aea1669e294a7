"""`assay eval`: figures of a text, and of two models on it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from llm import peft, tiny

TEXT = "abcab ab\nzyx" * 40


@pytest.fixture
def files(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    return tiny.write(tmp_path / "tiny.gguf"), text


def test_one_model(cli, files) -> None:
    outcome = cli("eval", *map(str, files), "--context", "64", "--threads", "1", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["scored_tokens"] % 31 == 0 and found["scored_tokens"] > 62
    assert found["perplexity"][0] > 1 and "worst" not in found


def test_one_model_run_in_two_ways(cli, files) -> None:
    arguments = ["eval", *map(str, files), "--context", "64", "--threads", "1"]
    outcome = cli(*arguments, "--against-activations", "float32", "--worst", "2", "--json")
    found = json.loads(outcome.out)
    assert [name.rpartition(" ")[2] for name in found["models"]] == ["(int8)", "(float32)"]
    assert 0 < found["divergence_mean"] < found["divergence_max"] < 0.1
    assert 0.5 < found["same_likeliest_token"] <= 1
    first, second = found["worst"]
    assert first["divergence"] == found["divergence_max"] >= second["divergence"]
    assert first["before"] + first["token"] in TEXT
    text = cli(*arguments, "--against-activations", "float32", "--worst", "1").out
    assert "same likeliest token:" in text
    places = text[text.index("position ") :].splitlines()
    assert places[0] == f"position {first['position']}, divergence {first['divergence']:.6g} nats:"
    assert places[1] == f"  {first['before']!r} and then {first['token']!r}"
    said = zip(found["models"], first["surprise"], first["likeliest"], strict=True)
    assert places[2:] == [
        f"  {name}: surprise {nats:.6g} nats, likeliest {token!r}" for name, nats, token in said
    ]
    for name, perplexity in zip(found["models"], found["perplexity"], strict=True):
        assert re.search(rf"^  {re.escape(name)} +{perplexity:.6g}$", text, re.MULTILINE)
    assert not re.search(r"\d\.\d{8}", text), "floats have 6 digits"


@pytest.mark.parametrize("content", [b"", b"too short", b"\xff" * 4000])
def test_no_text_to_score(cli, files, content) -> None:
    files[1].write_bytes(content)
    outcome = cli("eval", *map(str, files), "--threads", "1")
    assert outcome.code == 2 and "FILE" in outcome.err


def test_a_text_that_is_too_short_may_have_shorter_windows(cli, files) -> None:
    files[1].write_text("abcab ab")
    line = ["eval", *map(str, files), "--threads", "1"]
    hint = re.search(r"--context \d+", cli(*line).err)
    assert hint and cli(*line, *hint[0].split()).code == 0


def test_places_of_no_comparison_are_refused(cli, files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.cli.eval.load_model", None)
    outcome = cli("eval", *map(str, files), "--worst", "5")
    assert outcome.code == 2 and outcome.err.startswith("assay: --worst: there is nothing to compare with\n")


def test_other_tokens_cannot_be_compared(cli, files, tmp_path) -> None:
    tokens = ("<other>", *tiny.TOKENS[1:])
    other = tiny.write(tmp_path / "other.gguf", {"tokenizer.ggml.tokens": tokens})
    outcome = cli("eval", *map(str, files), "--against", str(other), "--threads", "1")
    assert outcome.code == 2 and "--against" in outcome.err
    assert cli("eval", str(files[0]), str(tmp_path / "none"), "--threads", "1").code == 2


def test_an_adapter_beside_the_model_itself(cli, files, tmp_path) -> None:
    """The other model is run with the adapter too, unless it is named anew."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(0, 0.3, shape).astype(np.float32) for shape in ((4, tiny.HIDDEN), (tiny.FEED_FORWARD, 4))
    )
    peft.write(tmp_path / "a", peft.named({"model.layers.0.mlp.up_proj.weight": (a, b)}), peft.config(r=4))
    line = ["eval", *map(str, files), "--context", "64", "--threads", "1", "--json"]
    line += ["--activations", "float32", "--adapter", str(tmp_path / "a")]
    same = json.loads(cli(*line, "--against-activations", "float32").out)
    assert same["divergence_max"] == 0
    base = json.loads(cli(*line, "--against", str(files[0])).out)
    assert base["divergence_mean"] > 1e-4 and str(tmp_path / "a") in base["models"][0]
    alone = json.loads(cli(*line[:-2]).out)
    tuned, plain = base["perplexity"]
    assert same["perplexity"] == [tuned, tuned] != [plain, plain]
    assert alone["perplexity"] == [plain]
