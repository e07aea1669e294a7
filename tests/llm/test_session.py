"""Sessions on disk: what is saved is taken up by the same model only, and nothing damaged is."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.errors import AssayError, FormatError, RequestError
from assay.kernels.sizes import PAGE
from assay.load import Progress
from llm import converted, tiny
from llm.test_gguf_folder import folder

Load = Callable[[], assay.LanguageModel]
PROMPT = "ab cab\nb" * 12


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "tiny.gguf")


def test_a_session_is_taken_up_where_it_was_left(model: Path, tmp_path: Path) -> None:
    first = assay.load(model, threads=1)
    wanted = first.generate(PROMPT, max_tokens=5)
    saved = first.save_session(tmp_path / "a.session", PROMPT)
    again = assay.load(model, threads=1)
    assert again.restore_session(tmp_path / "a.session") == saved == wanted.usage.prompt_tokens
    found = again.generate(PROMPT, max_tokens=5)
    assert found.timings.cached_tokens == saved - 1
    assert (found.tokens, found.logprobs) == (wanted.tokens, wanted.logprobs)
    again.engine.check_integrity()


@pytest.mark.parametrize("name", converted.MODELS)
def test_what_a_session_depends_on_is_the_same_in_every_process(tmp_path: Path, name: str) -> None:
    """Sets print in an order that another process doesn't have."""
    converted.write(tmp_path / "m.gguf", name)
    with assay.load(tmp_path / "m.gguf", threads=1, cache_tokens=64) as lm:
        assert not [how for how in lm.identity.how.values() if "{" in how or " at 0x" in how]


def test_a_prompt_that_nobody_computed_is_computed_first(model: Path, tmp_path: Path) -> None:
    lm = assay.load(model, threads=1)
    assert lm.save_session(tmp_path / "a.session", PROMPT) == len(lm.tokenizer.encode(PROMPT))
    other = assay.load(model, threads=1, prefix_cache=False)
    with pytest.raises(RequestError, match="nothing of this prompt is in the cache"):
        other.save_session(tmp_path / "b.session", PROMPT)


def test_another_model_or_another_way_to_run_it_is_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    assay.load(model, threads=1).save_session(path, PROMPT)
    tensors = tiny.shapes()
    other = tiny.write(tmp_path / "other.gguf", {"general.name": "tiny"}, dict(reversed(tensors.items())))
    for lm, key in (
        (assay.load(model, threads=1, activations="float32"), "session.activations"),
        (assay.load(other, threads=1), "session.model"),
    ):
        with pytest.raises(FormatError, match="a session of another kind") as refused:
            lm.restore_session(path)
        assert refused.value.place == f"{path} › key {key!r}"
        lm.engine.check_integrity()
    with pytest.raises(FormatError):
        assay.load(model, threads=1).restore_session(model)


def test_a_model_file_that_changed_is_refused(model: Path, tmp_path: Path) -> None:
    lm = assay.load(model, threads=1)
    tiny.write(model)
    with pytest.raises(FormatError, match="a file was changed since it was loaded"):
        lm.save_session(tmp_path / "a.session", PROMPT)
    assert not (tmp_path / "a.session").exists()


@pytest.mark.parametrize(
    "path", ["", ".", "/", "\0", None, 5, "x" * 300, "none/a.session", "file/x", "fifo", "link"]
)
def test_a_path_that_no_session_can_be_at_is_refused(
    model: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    os.mkfifo("fifo")
    Path("link").symlink_to("nowhere")
    before = sorted(Path().iterdir())
    with assay.load(model, threads=1) as lm:
        with pytest.raises(RequestError) as refused:
            lm.save_session(path, PROMPT)
        assert refused.value.place == f"path {path}" and "partial" not in str(refused.value)
        with pytest.raises(AssayError) as missing:
            lm.restore_session(path)
        assert "catalogue" not in str(missing.value)
    assert sorted(Path().iterdir()) == before and Path("link").is_symlink()


def test_a_session_that_is_not_there_is_what_is_said_to_be_missing(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no such session"):
        assay.load(model, threads=1).restore_session(tmp_path / "missing")


def test_a_session_that_nothing_would_be_kept_of_is_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    assay.load(model, threads=1).save_session(path, PROMPT)
    with pytest.raises(RequestError, match="nothing is kept in the cache") as refused:
        assay.load(model, threads=1, prefix_cache=False).restore_session(path)
    assert "prefix_cache=True" in refused.value.hint


def test_a_cache_that_is_full_is_what_is_said(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    count = assay.load(model, threads=1).save_session(path, PROMPT)
    with assay.load(model, threads=1, cache_tokens=count + PAGE) as lm:
        stream = lm.stream("b" * count, max_tokens=2)
        next(stream)
        with pytest.raises(RequestError, match="the cache is full"):
            lm.restore_session(path)
        stream.close()
        assert lm.restore_session(path) == count
        lm.engine.check_integrity()


class Acting(Progress):
    """Does something to the model's files when the first weights have been read."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.acts = [act]

    def weights(self, done: int, total: int) -> None:
        while self.acts:
            self.acts.pop()()


@pytest.mark.parametrize("act", ["replaced", "removed", "a folder", "written to"])
def test_a_file_that_changes_while_it_is_loaded_is_refused(model: Path, tmp_path: Path, act: str) -> None:
    """Else a session of the old weights would bear the new file's digest."""
    other = tiny.write(tmp_path / "other.gguf", {"general.name": "tiny"})
    acts: dict[str, Callable[[], object]] = {
        "replaced": lambda: other.replace(model),
        "removed": model.unlink,
        "a folder": lambda: (model.unlink(), model.mkdir()),
        "written to": lambda: model.write_bytes(other.read_bytes()),
    }
    with pytest.raises(FormatError, match="a file was changed while it was loaded") as refused:
        assay.load(model, threads=1, progress=Acting(acts[act]))
    assert refused.value.place == str(model)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "model.safetensors.index.json"])
def test_a_folder_that_changes_while_it_is_loaded_is_refused(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "model", "llama")
    path = place / name
    with pytest.raises(FormatError, match="a file was changed while it was loaded") as refused:
        assay.load(place, threads=1, cache_tokens=64, progress=Acting(path.touch))
    assert refused.value.place == str(path)


def test_damage_anywhere_is_refused(model: Path, tmp_path: Path) -> None:
    """Each of 200 bytes changed, and cuts: never another answer, and the books stay right."""
    path, lm = tmp_path / "a.session", assay.load(model, threads=1)
    lm.save_session(path, PROMPT)
    whole, rng = path.read_bytes(), np.random.default_rng(4)
    for at in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(AssayError):
            lm.restore_session(path)
        lm.engine.check_integrity()
    for cut in rng.integers(0, len(whole), 20):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError):
            lm.restore_session(path)
    wanted = assay.load(model, threads=1).generate(PROMPT, max_tokens=5)
    assert lm.generate(PROMPT, max_tokens=5).tokens == wanted.tokens
