"""`assay quantize`: what the file holds, by the `gguf` package, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gguf
import numpy as np
import pytest

import assay
from assay.formats import quant
from assay.tensor.dtype import BF16, F16, F32
from llm import tiny
from llm.small import GOLDEN
from llm.test_gguf_folder import folder

PLAIN: tiny.Tensors = {
    name: (F32 if len(shape) == 1 else BF16 if "attn" in name else F16, shape)
    for name, (_, shape) in tiny.shapes().items()
}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "plain.gguf", tensors=PLAIN)


def test_the_file_is_ggufs_own(cli, plain: Path, tmp_path: Path) -> None:
    """Keys and vectors stay; matrices are what the package rounds them to, that of logits as q8_0."""
    out = tmp_path / "out.gguf"
    outcome = cli("quantize", str(plain), str(out), "q5_1", "--json")
    assert outcome.code == 0 and outcome.err == ""
    assert json.loads(outcome.out) == {
        "file": str(out),
        "bytes": out.stat().st_size,
        "from": plain.stat().st_size,
        "tensors": {"q8_0": 1, "float32": 5, "q5_1": 14},
    }
    before, after = gguf.GGUFReader(plain), gguf.GGUFReader(out)
    for key in before.fields:
        if not key.startswith("GGUF."):
            assert after.fields[key].contents() == before.fields[key].contents(), key
    added = {key: after.fields[key].contents() for key in set(after.fields) - set(before.fields)}
    assert added == {"general.file_type": 9, "general.quantization_version": 2}
    assert [tensor.name for tensor in after.tensors] == [tensor.name for tensor in before.tensors]
    for old, new in zip(before.tensors, after.tensors, strict=True):
        kind = gguf.GGMLQuantizationType.F32
        if len(old.shape) > 1:
            kind = gguf.GGMLQuantizationType["Q8_0" if old.name == "token_embd.weight" else "Q5_1"]
        values = gguf.quants.dequantize(old.data, old.tensor_type)
        assert new.tensor_type == kind and list(new.shape) == list(old.shape)
        assert np.array_equal(gguf.quants.quantize(values, kind), new.data), old.name


def test_a_file_is_what_loading_would_have_made(cli, plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    assert cli("quantize", str(plain), str(out), "iq4_nl").code == 0
    with assay.load(out, threads=1) as file, assay.load(plain, threads=1, quantize="iq4_nl") as loaded:
        assert np.array_equal(file.logits([1, 5, 9]), loaded.logits([1, 5, 9]))


def test_the_text_says_what_became_of_it(cli, plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    assert cli("quantize", str(plain), str(out), "q8_0").out == (
        f"{out}: 0.0 MB became 0.0 MB; tensors: 15 q8_0, 5 float32\n"
    )
    assert cli("quantize", str(out), str(tmp_path / "b.gguf"), "q4_0", "--again").code == 0


def test_types_are_named_in_any_case(cli, plain: Path, tmp_path: Path) -> None:
    for at, name in enumerate(("q4_0", "Q4_0")):
        assert (
            cli("quantize", str(plain), str(tmp_path / f"{at}.gguf"), name, "--otherwise", "Q8_0").code == 0
        )
    assert (tmp_path / "0.gguf").read_bytes() == (tmp_path / "1.gguf").read_bytes()


def test_what_is_refused_leaves_nothing(cli, plain: Path, tmp_path: Path) -> None:
    quantised, out = tiny.write(tmp_path / "quantised.gguf"), tmp_path / "out.gguf"
    there = tmp_path / "there.gguf"
    there.write_bytes(b"kept")
    for arguments, code, text in (
        ((plain, there, "q8_0"), 2, "a file is there already"),
        ((quantised, out, "q4_0"), 2, "weights that are quantised already"),
        ((quantised, out, "q4_0"), 2, "assay quantize --again"),
        ((plain, out, "q4_k"), 2, "a row is not whole blocks"),
        ((plain, out, "q4_k"), 2, "assay quantize --otherwise TYPE"),
        ((plain, out, "q4_2"), 2, "no such choice"),
        ((GOLDEN / "llama", out, "q8_0"), 1, "a file is missing"),
        ((plain, tmp_path / "none" / "out.gguf", "q8_0"), 2, "it can't be written"),
        ((tmp_path / "missing.gguf", out, "q8_0"), 2, "no such model file"),
    ):
        outcome = cli("quantize", *map(str, arguments))
        assert (outcome.code, outcome.out) == (code, "") and text in outcome.err
    assert there.read_bytes() == b"kept" and not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.gguf", "quantised.gguf", "there.gguf"]
    assert cli("quantize", str(plain), str(there), "q8_0", "--force").code == 0
    assert there.read_bytes()[:4] == b"GGUF"


def test_an_interrupted_command_leaves_nothing(
    cli, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def interrupted(x, dtype):
        made.append(dtype)
        if len(made) == 5:
            raise KeyboardInterrupt
        return whole(x, dtype)

    whole = quant.quantise
    monkeypatch.setattr(quant, "quantise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cli("quantize", str(plain), str(tmp_path / "out.gguf"), "q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["plain.gguf"]


def test_a_folder_is_what_loading_would_have_made(cli, tmp_path: Path) -> None:
    place, out = folder(tmp_path / "folder", "phi3"), tmp_path / "m.gguf"
    assert cli("quantize", str(place), str(out), "q8_0").code == 0
    with (
        assay.load(place, threads=1, quantize="q8_0", cache_tokens=256) as first,
        assay.load(out, threads=1, cache_tokens=256) as other,
    ):
        assert np.array_equal(first.logits([1, 5, 9]), other.logits([1, 5, 9]))
    assert cli("quantize", str(place), str(out), "float16", "--force", "--json").code == 0
    kinds = {each.tensor_type.name for each in gguf.GGUFReader(out).tensors if len(each.shape) > 1}
    assert kinds == {"F16"} and gguf.GGUFReader(out).fields["general.file_type"].contents() == 1


@pytest.mark.parametrize("name", ["", ".", "/", "x" * 300, "folder", "fifo", "link", "file/out", "none/out"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_where_nothing_can_be_written_is_refused_before_the_work(
    cli, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, force: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quant, "quantise", None)
    Path("file").touch()
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("link").symlink_to("nowhere")
    before = sorted(Path().iterdir())
    outcome = cli("quantize", str(plain), name, "q8_0", *force)
    assert outcome.code == 2 and "OUT" in outcome.err and "Traceback" not in outcome.err
    assert sorted(Path().iterdir()) == before and Path("link").is_symlink() and Path("fifo").is_fifo()


def test_what_is_read_is_never_written(cli, plain: Path, tmp_path: Path) -> None:
    """Whatever it is called, and whatever --force says: the source would be lost."""
    kept = plain.read_bytes()
    (tmp_path / "link").symlink_to(plain)
    os.link(plain, tmp_path / "other")
    place = folder(tmp_path / "folder", "llama")
    read = [(plain, out) for out in (plain, tmp_path / "link", tmp_path / "other")]
    for model, out in (*read, (place, place / "model.safetensors"), (place, place / "tokenizer.json")):
        before = out.read_bytes()
        outcome = cli("quantize", str(model), str(out), "q8_0", "--force")
        assert outcome.code == 2 and "OUT is what is read" in outcome.err and out.read_bytes() == before
    assert plain.read_bytes() == kept
