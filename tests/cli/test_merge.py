"""`assay merge`: the file or folder that it writes is the model with the adapter in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from assay.errors import FormatError, PrecisionOverflow
from assay.formats.gguf import open_gguf
from assay.formats.quant import dequantise
from assay.formats.tensors import TensorInfo
from assay.models.adapters import Adapter, merged
from assay.models.parts import Part
from assay.tensor.dtype import F16, F32, Q8_0, RARE, DType
from llm import converted, peft, tiny
from llm.converted import GOLDEN, stored
from llm.small import Arrays


def adapter(folder: Path, name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    made = peft.maps(stored(GOLDEN / name / "model.safetensors"))
    peft.write(folder, peft.named(made))
    return made


@pytest.mark.parametrize("name", ["llama", "phi3", "gpt2"])
def test_a_gguf_file(cli, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held against what NumPy merges and the public converters' rules make of it, element by element: a
    rounding to float32 of the sum, and one of the scaled B before.
    """
    made = adapter(tmp_path / "a", name)
    base, out, wanted = (tmp_path / f"{stem}.gguf" for stem in ("base", "out", "wanted"))
    converted.write(base, name)
    outcome = cli("merge", str(base), str(tmp_path / "a"), str(out))
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"{out}: ")
    monkeypatch.setattr(converted, "stored", lambda path: peft.merged(stored(path), made))
    converted.write(wanted, name)
    with open_gguf(out) as found, open_gguf(wanted) as expected:
        assert found.metadata.keys() == expected.metadata.keys()
        assert list(found.tensors) == list(expected.tensors)
        for each in expected.tensors:
            ours, theirs = (file.raw(each).view(np.float32) for file in (found, expected))
            assert np.abs(ours - theirs).max() <= 2.0**-22 * np.abs(theirs).max()


@pytest.mark.parametrize("name", ["llama", "phi3", "gpt2"])
def test_a_folder(cli, tmp_path: Path, name: str) -> None:
    made = adapter(tmp_path / "a", name)
    shutil.copytree(GOLDEN / name, tmp_path / "base")
    outcome = cli("merge", *(str(tmp_path / each) for each in ("base", "a", "out")))
    assert outcome.code == 0, outcome.err
    found = load_file(tmp_path / "out" / "model.safetensors")
    expected = peft.merged(stored(GOLDEN / name / "model.safetensors"), made)
    assert found.keys() == expected.keys()
    for each, theirs in expected.items():
        assert np.abs(found[each] - theirs).max() <= 2.0**-22 * np.abs(theirs).max()
    assert (tmp_path / "out" / "config.json").read_bytes() == (tmp_path / "base" / "config.json").read_bytes()


def test_what_is_quantised_is_rounded_again(cli, tmp_path: Path) -> None:
    """To the same type: Q8_0 is off by half a step at most, a 127th of the greatest in its block of 32, and
    by float16's rounding of the step. Tensors that the adapter leaves keep their bytes.
    """
    base, out = tiny.write(tmp_path / "base.gguf"), tmp_path / "out.gguf"
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((4, tiny.HIDDEN), (tiny.FEED_FORWARD, 4))
    )
    maps = {"model.layers.0.mlp.up_proj.weight": (a, b)}
    peft.write(tmp_path / "a", peft.named(maps), peft.config(r=4))
    assert cli("merge", str(base), str(tmp_path / "a"), str(out)).code == 0
    with open_gguf(base) as before, open_gguf(out) as after:
        for name, info in before.tensors.items():
            if name != "blk.0.ffn_up.weight":
                assert (before.raw(name) == after.raw(name)).all()
                continue
            assert after.tensors[name].dtype is info.dtype is Q8_0
            old, new = (dequantise(file.raw(name), Q8_0, info.shape) for file in (before, after))
            wanted = old + peft.ALPHA / 4 * (b @ a)
            step = np.abs(wanted).max(axis=1, keepdims=True) / 127
            assert (np.abs(new - wanted) <= step * (0.5 + 127 * 2.0**-11)).all()
            assert np.abs(new - old).max() > 1


@pytest.mark.parametrize("dtype", [F16, F32, Q8_0, RARE[0]])
def test_what_a_type_cannot_hold_is_refused(dtype: DType) -> None:
    """Sums beyond the type, and types that nothing can be rounded to."""
    shape = (4, dtype.block * 4)
    raw = np.zeros(dtype.nbytes(4 * shape[1]), np.uint8)
    file = Arrays({"w": raw}, {"w": dtype})
    file.tensors = {"w": TensorInfo("w", dtype, shape, 0, raw.nbytes)}
    huge = np.full((1, shape[1]), 1e30, np.float32), np.full((4, 1), 1e30, np.float32)
    with pytest.raises((FormatError, PrecisionOverflow)):
        merged(Adapter({"w": huge}), file, {"w": Part("w")}, "w")


def test_nothing_is_overwritten(cli, tmp_path: Path) -> None:
    adapter(tmp_path / "a", "llama")
    converted.write(tmp_path / "base.gguf", "llama")
    before = (tmp_path / "base.gguf").read_bytes()
    outcome = cli("merge", str(tmp_path / "base.gguf"), str(tmp_path / "a"), str(tmp_path / "base.gguf"))
    assert outcome.code == 2 and "OUT" in outcome.err
    assert (tmp_path / "base.gguf").read_bytes() == before
    outcome = cli("merge", str(tmp_path / "base.gguf"), str(tmp_path / "a"), str(tmp_path / "no" / "out"))
    assert outcome.code == 2 and sorted(each.name for each in tmp_path.iterdir()) == ["a", "base.gguf"]


def test_a_folders_own_files_alone_go_with_it(cli, tmp_path: Path) -> None:
    """A merged folder has nothing from elsewhere, and no weights that lack the adapter."""
    base, out = tmp_path / "base", tmp_path / "out"
    adapter(tmp_path / "a", "llama")
    shutil.copytree(GOLDEN / "llama", base)
    for name in (
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "old.pt",
        "m.gguf",
        ".hidden",
        "notes.txt",
    ):
        (base / name).write_text("{}")
    os.mkfifo(base / "fifo")
    (base / "original").mkdir()
    (base / "same.txt").symlink_to("notes.txt")
    kept = {each.name for each in (GOLDEN / "llama").iterdir() if each.is_file()} | {"notes.txt", "same.txt"}
    assert cli("merge", str(base), str(tmp_path / "a"), str(out)).code == 0
    assert {each.name for each in out.iterdir()} == kept and not (out / "same.txt").is_symlink()
    (tmp_path / "secret").write_text("secret")
    (base / "leak.txt").symlink_to(tmp_path / "secret")
    outcome = cli("merge", str(base), str(tmp_path / "a"), str(tmp_path / "other"))
    assert outcome.code == 1 and "a link that leads out of the folder" in outcome.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "base", "out", "secret"]


@pytest.mark.parametrize("name", ["out", "original/out", "../base/out"])
def test_a_folder_is_not_written_into_itself(cli, tmp_path: Path, name: str) -> None:
    adapter(tmp_path / "a", "llama")
    shutil.copytree(GOLDEN / "llama", tmp_path / "base")
    (tmp_path / "base" / "original").mkdir()
    outcome = cli("merge", *(str(tmp_path / each) for each in ("base", "a", f"base/{name}")))
    assert outcome.code == 2 and "OUT is in the model's folder" in outcome.err
    assert not (tmp_path / "base" / name).exists()


def test_an_embedder_takes_no_adapter(cli, tmp_path: Path) -> None:
    adapter(tmp_path / "a", "llama")
    outcome = cli("merge", str(GOLDEN / "bert"), str(tmp_path / "a"), str(tmp_path / "out"))
    assert outcome.code == 2 and "an embedder takes no adapter" in outcome.err
