"""`assay embed`: vectors of texts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import assay

TEXTS = ["The cat sits outside", "Der Zug fährt um acht Uhr ab.", ""]


@pytest.fixture(scope="module")
def model() -> assay.EmbeddingModel:
    made = assay.load("minilm", threads=2)
    assert isinstance(made, assay.EmbeddingModel)
    return made


@pytest.fixture
def loaded(model: assay.EmbeddingModel, monkeypatch: pytest.MonkeyPatch) -> assay.EmbeddingModel:
    monkeypatch.setattr("assay.cli.model.load", lambda name, **options: model)
    return model


def test_a_line_is_a_text_in_order(cli, loaded, tmp_path: Path) -> None:
    """The digits that are printed are the float32 numbers, exactly."""
    expected = loaded.embed(TEXTS)
    lines = "\n".join(TEXTS[1:]) + "\n"
    (tmp_path / "texts").write_text(lines)
    for outcome in (
        cli("embed", "minilm", *TEXTS),
        cli("embed", "minilm", TEXTS[0], "--file", str(tmp_path / "texts")),
        cli("embed", "minilm", TEXTS[0], "--file=-", stdin=lines.encode()),
    ):
        found = [json.loads(line) for line in outcome.out.splitlines()]
        assert outcome.code == 0 and (np.array(found, np.float32) == expected).all()
    first = json.loads(cli("embed", "minilm", TEXTS[0], "--pooling", "cls").out)
    assert (np.array(first, np.float32) == loaded.embed(TEXTS[:1], pooling="cls")[0]).all()


def test_refusals(cli, loaded, tmp_path: Path) -> None:
    long = "word " * 300
    (tmp_path / "bytes").write_bytes(b"\xff")
    for arguments, code, says in (
        (["minilm", long], 2, "302"),
        (["minilm"], 2, "nothing to embed"),
        (["minilm", "--file", str(tmp_path / "none")], 2, "--file: it can't be read"),
        (["minilm", "--file", str(tmp_path / "bytes")], 2, "--file: it is not text"),
        (["minilm", "a", "--pooling", "max"], 2, "no such choice"),
    ):
        outcome = cli("embed", *arguments)
        assert outcome.code == code and says in outcome.err and outcome.out == ""
    assert cli("embed", "minilm", long, "--truncate").code == 0
    outcome = cli("run", "minilm", "Hello")
    assert outcome.code == 2 and "this model makes no text" in outcome.err and "assay embed" in outcome.err


def test_a_model_that_answers_is_sent_elsewhere(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.cli.embed.load_any", lambda arguments: None)
    outcome = cli("embed", "smollm2", "a")
    assert outcome.code == 2 and "assay run" in outcome.err
