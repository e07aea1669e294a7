"""`assay eval`: figures of a text, and of two models on it."""

from __future__ import annotations

import json

import pytest

from llm import tiny

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
    assert "same likeliest token:" in text and f"'position': {first['position']}" in text


@pytest.mark.parametrize("content", [b"", b"too short", b"\xff" * 4000])
def test_no_text_to_score(cli, files, content) -> None:
    files[1].write_bytes(content)
    outcome = cli("eval", *map(str, files), "--threads", "1")
    assert outcome.code == 2 and "FILE" in outcome.err


def test_other_tokens_cannot_be_compared(cli, files, tmp_path) -> None:
    tokens = ("<other>", *tiny.TOKENS[1:])
    other = tiny.write(tmp_path / "other.gguf", {"tokenizer.ggml.tokens": tokens})
    outcome = cli("eval", *map(str, files), "--against", str(other), "--threads", "1")
    assert outcome.code == 2 and "--against" in outcome.err
    assert cli("eval", str(files[0]), str(tmp_path / "none"), "--threads", "1").code == 2
