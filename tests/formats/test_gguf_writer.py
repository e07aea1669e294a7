"""What is written is read the same, here and by the `gguf` package; a failed write leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from assay.errors import FormatError
from assay.formats.gguf import open_gguf
from assay.formats.gguf_types import MetadataValue
from assay.formats.gguf_writer import Row, write_gguf
from assay.formats.quant import dequantise, quantise
from assay.tensor.dtype import BF16, F16, F32, I8, Q4_0, Q4_1, Q8_0
from formats.fuzz_gguf import smollm2, write
from formats.test_gguf import assert_agrees, plain

METADATA: dict[str, MetadataValue | np.generic] = {
    "general.architecture": "llama",
    "int": 7,
    "negative": -7,
    "large": 1 << 40,
    "largest": (1 << 64) - 1,
    "least": -(1 << 63),
    "float": 0.5,
    "double": 0.1,
    "beyond float32": 1e300,
    "infinite": float("inf"),
    "bool": True,
    "uint16": np.uint16(9),
    "int8": np.int8(-9),
    "text": "日本語 🙂",
    "strings": ("a", "", "ü"),
    "none": (),
    "ints": np.array([1, -2], np.int32),
    "bools": np.array([True, False]),
    "doubles": np.array([0.1, 2.0]),
    "big-endian": np.array([1, 2], ">u2"),
}


def rows() -> list[Row]:
    x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    return [(str(dtype), dtype, (5, 64), quantise(x, dtype)) for dtype in (F32, F16, BF16, Q4_0, Q4_1, Q8_0)]


def test_both_readers_agree(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, METADATA, rows())
    with open_gguf(path) as ours:
        assert ours.version == 3
        assert_agrees(ours, path)
        for key, value in METADATA.items():
            assert plain(ours.metadata[key]) == plain(value), key
        for name, dtype, shape, data in rows():
            assert (ours.tensor(name).dtype, ours.tensor(name).shape) == (dtype, shape)
            assert np.array_equal(ours.raw(name), np.asarray(data))


def test_types_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, METADATA, [])
    fields = gguf.GGUFReader(path).fields
    want = {
        "int": "UINT32",
        "negative": "INT32",
        "large": "UINT64",
        "largest": "UINT64",
        "least": "INT64",
        "float": "FLOAT32",
        "double": "FLOAT64",
        "beyond float32": "FLOAT64",
        "infinite": "FLOAT32",
        "bool": "BOOL",
        "uint16": "UINT16",
        "int8": "INT8",
    }
    assert {name: fields[name].types[0].name for name in want} == want


def test_nan(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m", {"nan": float("nan")}, [])
    with open_gguf(tmp_path / "m") as ours:
        assert np.isnan(ours.metadata["nan"])


def test_nested_arrays(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m", {"nested": ((("a",), np.array([1, 2])), ())}, [])
    with open_gguf(tmp_path / "m") as ours:
        nested = ours.metadata["nested"]
        assert isinstance(nested, tuple) and isinstance(nested[0], tuple)
        assert nested[0][0] == ("a",) and plain(nested[0][1]) == [1, 2] and nested[1] == ()


@pytest.mark.parametrize("alignment", [8, 32, 256])
def test_alignment(alignment: int, tmp_path: Path) -> None:
    path = tmp_path / "m"
    write_gguf(path, {"general.alignment": alignment, "general.architecture": "llama"}, rows())
    with open_gguf(path) as ours:
        assert all(info.offset % alignment == 0 for info in ours.tensors.values())
        assert_agrees(ours, path)
    assert path.stat().st_size % alignment == 0


def test_real_metadata_survives(tmp_path: Path) -> None:
    """The header of the real model, over other tensors: how a requantised file is derived."""
    seed = smollm2()
    write(tmp_path / "from", seed.header, len(seed.header) + seed.tail)
    with open_gguf(tmp_path / "from") as source:
        info = source.tensor("blk.0.attn_q.weight")
        values = dequantise(source.raw(info.name), info.dtype, info.shape)
        write_gguf(tmp_path / "to", source.metadata, [(info.name, Q8_0, info.shape, quantise(values, Q8_0))])
        with open_gguf(tmp_path / "to") as derived:
            assert_agrees(derived, tmp_path / "to")
            assert {key: plain(value) for key, value in derived.metadata.items()} == {
                key: plain(value) for key, value in source.metadata.items()
            }


@pytest.mark.parametrize(
    ("metadata", "tensors", "rule"),
    [
        ({}, [("w", F32, (4,), bytes(15))], "a tensor's bytes don't fill its shape"),
        ({}, [("w", F32, (4,), bytes(48))], "a tensor's bytes don't fill its shape"),
        ({}, [("w", F32, (4,), bytes(16)), ("w", F32, (4,), bytes(16))], "a tensor name occurs twice"),
        ({}, [("w", F32, (), bytes(4))], "a rank that can't be"),
        ({}, [("w", Q4_0, (2, 16), bytes(18))], "a row is not whole blocks"),
        ({}, [("w", I8, (4,), bytes(4))], "a tensor type that isn't supported"),
        ({"general.alignment": 24}, [], "an alignment that can't be"),
        ({"general.alignment": 0}, [], "an alignment that can't be"),
        ({"general.alignment": "32"}, [], "an alignment that can't be"),
        ({"k": (1, 2)}, [], "a tuple of this kind can't be stored"),
        ({"k": ("a", 2)}, [], "a tuple of this kind can't be stored"),
        ({"k": 1 << 64}, [], "a number that GGUF can't hold"),
        ({"k": -(1 << 63) - 1}, [], "a number that GGUF can't hold"),
        ({"k": np.array([1j])}, [], "a type that GGUF doesn't have"),
        ({"k": np.float16(1)}, [], "a type that GGUF doesn't have"),
        ({"k": "\ud800"}, [], "text that UTF-8 can't hold"),
    ],
)
def test_refused(metadata: dict[str, MetadataValue], tensors: list[Row], rule: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"what was here")
    with pytest.raises(FormatError) as caught:
        write_gguf(path, metadata, tensors)
    assert caught.value.rule == rule
    assert path.read_bytes() == b"what was here"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError):
        write_gguf(tmp_path / "m", {}, rows())
    assert not list(tmp_path.iterdir())
