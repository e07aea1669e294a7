"""`assay embed`: vectors of texts, and what is refused."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.cli import embed

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
        (["minilm", long], 2, "TEXT 1: the text is too long"),
        (["minilm", long], 2, "got    302\n  hint   --truncate "),
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
    assert outcome.code == 2 and "smollm2: this model is no embedder" in outcome.err
    assert "assay run" in outcome.err


@pytest.mark.parametrize(
    ("content", "lines"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n\nb\n", 3), (b"\n\n", 2)]
)
def test_a_file_has_as_many_texts_as_lines(cli, loaded, content: bytes, lines: int) -> None:
    outcome = cli("embed", "minilm", "--file", "-", stdin=content)
    assert len(outcome.out.splitlines()) == lines
    assert outcome.code == (0 if lines else 2) and ("nothing to embed" in outcome.err) == (not lines)


def test_many_texts_are_printed_chunk_by_chunk(cli, loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made before an error is out, and an error names the text as it was typed."""
    monkeypatch.setattr(embed, "CHUNK", 4)
    words = [f"word {number}" for number in range(11)]
    content = "\n".join(words[2:]).encode()
    found = cli("embed", "minilm", *words[:2], "--file", "-", stdin=content).out
    expected = loaded.embed(words)
    assert (np.array([json.loads(line) for line in found.splitlines()], np.float32) == expected).all()
    for at in (0, 1, 2, 6, 10):
        bad = [*words[:at], "word " * 300, *words[at + 1 :]]
        outcome = cli("embed", "minilm", *bad[:2], "--file", "-", stdin="\n".join(bad[2:]).encode())
        place = f"TEXT {at + 1}" if at < 2 else f"--file › line {at - 1}"
        assert outcome.code == 2 and outcome.err.startswith(f"assay: {place}: the text is too long\n")
        assert outcome.out.splitlines() == found.splitlines()[: at // 4 * 4]


def test_a_bar_shows_how_far_it_is_and_vectors_go_to_standard_output(loaded) -> None:
    """In a process of its own, whose standard error is a terminal and whose output isn't."""
    program = (
        "import assay.cli.embed as e, assay.cli.progress as p, sys; e.CHUNK = 1;"
        "p.Bars.__init__.__defaults__ = (0.0,);"
        "from assay.cli.dispatch import execute;"
        "sys.exit(execute(sys.argv[1:]))"
    )
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", program, "embed", "minilm", "a", "b", "c"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert len(done.stdout.splitlines()) == 3 and "[" not in shown.replace("\x1b[", "")
    assert "embedding" in shown and "2 of 3 texts" in shown
