"""Sound GGUF files: what is read, how long it takes, and what stays in memory."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import FormatError
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.gguf_cursor import WINDOW, _plain_strings
from assay.formats.quant import dequantise
from assay.tensor.dtype import F32, Q4_0
from formats.fuzz_gguf import smollm2, synthetic, write
from formats.gguf_bytes import ARRAY, STRING, U32, Gguf, array, key, tensor, text

NAMES = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "Q4_0": "q4_0",
    "Q4_1": "q4_1",
    "Q8_0": "q8_0",
}


def plain(value: object) -> object:
    """Our value as the `gguf` package gives it: lists and Python numbers."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def assert_agrees(ours: GgufFile, path: Path, rows: int | None = None) -> None:
    """All metadata, the tensor table, and dequantised values bit for bit: all, or `rows` spaced evenly."""
    theirs = gguf.GGUFReader(path)
    fields = {name: entry for name, entry in theirs.fields.items() if not name.startswith("GGUF.")}
    assert list(ours.metadata) == list(fields)
    for name, entry in fields.items():
        assert plain(ours.metadata[name]) == entry.contents(), name
    assert list(ours.tensors) == [other.name for other in theirs.tensors]
    for other in theirs.tensors:
        info = ours.tensors[other.name]
        assert info.dtype.name == NAMES[other.tensor_type.name]
        assert info.shape == tuple(int(dim) for dim in reversed(other.shape))
        assert (info.offset, info.nbytes) == (other.data_offset, other.n_bytes)
        raw = ours.raw(info.name).reshape(-1, info.dtype.nbytes(info.shape[-1]))
        data = other.data.view(np.uint8).reshape(raw.shape)
        kept = (
            np.arange(len(raw)) if rows is None else np.unique(np.linspace(0, len(raw) - 1, rows).astype(int))
        )
        values = dequantise(raw[kept], info.dtype, (len(kept), info.shape[-1]))
        expected = gguf.quants.dequantize(data[kept], other.tensor_type).reshape(values.shape)
        assert values.dtype == expected.dtype == np.float32
        assert np.array_equal(values.view(np.uint32), expected.view(np.uint32)), info.name


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    """All types of value and tensor, written by the `gguf` package, with an alignment of its own."""
    path = tmp_path / "varied.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    for name in ("uint8", "uint16", "uint32", "uint64"):
        getattr(writer, f"add_{name}")(f"k.{name}", 200)
    for name in ("int8", "int16", "int32", "int64"):
        getattr(writer, f"add_{name}")(f"k.{name}", -100)
    writer.add_float32("k.float32", 0.1)
    writer.add_float64("k.float64", 0.1)
    writer.add_bool("k.bool", True)
    writer.add_string("k.string", "Ünïcode 🙂\0")
    writer.add_array("k.strings", ["", "a", "日本語", "x" * 300, "a\0b"])
    writer.add_array("k.ints", [1, -2, 3])
    writer.add_array("k.floats", [0.5, 1.5])
    writer.add_array("k.bools", [True, False])
    rng = np.random.default_rng(0)
    for name in NAMES:
        shape = (3, 64) if name.startswith("Q") else (2, 3, 5)
        kind = gguf.GGMLQuantizationType[name]
        data = gguf.quants.quantize(rng.normal(size=shape).astype(np.float32), kind)
        writer.add_tensor(f"t.{name}", data, raw_dtype=None if name in ("F32", "F16") else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_agrees_with_gguf_package(varied: Path) -> None:
    with open_gguf(varied) as ours:
        assert ours.version == 3 and ours.path == varied
        assert_agrees(ours, varied)
        assert all(info.offset % 64 == 0 for info in ours.tensors.values())
        assert type(ours.metadata["k.bool"]) is bool and type(ours.metadata["k.uint8"]) is int
        floats = ours.metadata["k.floats"]
        assert isinstance(floats, np.ndarray) and floats.dtype == np.float32 and not floats.flags.writeable


def test_version_2(varied: Path) -> None:
    data = bytearray(varied.read_bytes())
    data[4:8] = struct.pack("<I", 2)
    varied.write_bytes(data)
    with open_gguf(varied) as ours:
        assert ours.version == 2
        assert_agrees(ours, varied)


def test_smollm2_agrees_with_gguf_package(smollm2_path: Path) -> None:
    with open_gguf(smollm2_path) as ours:
        assert len(ours.metadata["tokenizer.ggml.tokens"]) == 49152  # type: ignore[arg-type]
        assert ours.tensors["token_embd.weight"].shape == (49152, 576)
        assert_agrees(ours, smollm2_path, rows=3)


def test_smollm2_header(tmp_path: Path) -> None:
    """The real header, its vocabulary cut, over a sparse file."""
    seed = smollm2()
    write(tmp_path / "m", seed.header, len(seed.header) + seed.tail)
    with open_gguf(tmp_path / "m") as ours:
        assert ours.keys.text("general.architecture") == "llama"
        assert ours.keys.integer("llama.block_count", 1, 99) == 30
        assert ours.metadata["tokenizer.ggml.tokens"][:2] == ("<|endoftext|>", "<|im_start|>")
        assert len(ours.tensors) == 272
        assert_agrees(ours, tmp_path / "m", rows=2)


def test_nested_arrays(tmp_path: Path) -> None:
    seed = synthetic()
    write(tmp_path / "m", seed.header, len(seed.header) + seed.tail)
    with open_gguf(tmp_path / "m") as ours:
        nested = ours.metadata["key.15"]
        assert isinstance(nested, tuple)
        numbers, strings = nested
        assert plain(numbers) == [0.5, 1, 2] and strings == ("x",)
        assert ours.metadata["key.12"] == ("a", "", "日本語🙂")
    path = Gguf([key("k", ARRAY, array(ARRAY, 1) * 3 + array(U32, 1, bytes(4)))]).write(tmp_path)
    with open_gguf(path) as ours:
        assert ours.metadata["k"][0][0][0].tolist() == [0]  # type: ignore[index, union-attr]


def test_without_keys_or_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    with open_gguf(path) as ours:
        assert not ours.metadata and not ours.tensors
    path = Gguf(
        [key("k", ARRAY, array(U32, 0)), key("s", ARRAY, array(STRING, 0)), key("", STRING, text(""))]
    ).write(tmp_path)
    with open_gguf(path) as ours:
        assert plain(ours.metadata["k"]) == [] and ours.metadata["s"] == () and ours.metadata[""] == ""


@settings(max_examples=50)
@given(
    strings=st.lists(
        st.one_of(
            st.text(max_size=12), st.sampled_from(["", "\0", "\0" * 9, "a" * 255, "a" * 256, "é" * 40000])
        ),
        max_size=60,
    ),
    before=st.integers(0, 40),
)
def test_strings(tmp_path_factory: pytest.TempPathFactory, strings: list[str], before: int) -> None:
    """Strings of all kinds, wherever the window's edge falls among them."""
    path = tmp_path_factory.getbasetemp() / "strings.gguf"
    padding = key("p", STRING, text("p" * max(0, WINDOW - 24 - 13 - 8 - 33 - before)))
    listed = key("s", ARRAY, array(STRING, len(strings), b"".join(map(text, strings))))
    for keys in ([listed], [padding, listed]):
        path.write_bytes(Gguf(keys).build())
        with open_gguf(path) as ours:
            assert ours.metadata["s"] == tuple(strings)


def test_plain_strings_are_taken_at_once() -> None:
    """The fast path takes a real vocabulary's kind of strings, and never a string with a NUL in it."""
    data = b"".join(text(f"Ġtoken{i}") for i in range(1000))
    strings, end = _plain_strings(b"xyz" + data, 3, 1000)
    assert strings == [f"Ġtoken{i}" for i in range(1000)] and end == 3 + len(data)
    assert len(_plain_strings(data, 0, 10)[0]) == 10
    assert len(_plain_strings(data[:-1], 0, 1000)[0]) == 999
    for odd in ("", "a\0b", "a" + "\0" * 7, "a" * 256, "\5" + "\0" * 7 + "abcde"):
        head = text("one") + text(odd) + text("two")
        strings, end = _plain_strings(head, 0, 4)
        assert strings in ([], ["one"]) and end in (0, 11)
    for unsound in (b"\1" * 8 + text("a"), text("abc").replace(b"c", b"cd") + text("e")):
        strings, end = _plain_strings(unsound, 0, 2)
        assert strings in ([], ["abc"]) and end in (0, 11)


def test_dimensions_are_reversed(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32)
    path = Gguf(tensors=[tensor("w", (3, 2))], data=data.tobytes() + bytes(8)).write(tmp_path)
    with open_gguf(path) as ours:
        assert ours.tensor("w").shape == (2, 3)
        values = dequantise(ours.raw("w"), F32, (2, 3))
        assert np.array_equal(values, data.reshape(2, 3))


def test_alignment_places_the_data(tmp_path: Path) -> None:
    for alignment in (8, 32, 4096):
        keys = [key("general.alignment", value=struct.pack("<I", alignment))]
        data = bytes(range(18)) + bytes(14)
        path = Gguf(keys, [tensor("w", (32,), 2)], data, alignment=alignment).write(tmp_path)
        with open_gguf(path) as ours:
            assert ours.tensor("w").offset % alignment == 0 and ours.tensor("w").dtype == Q4_0
            assert ours.raw("w").tobytes() == bytes(range(18))


def test_raw_outlives_the_file(tmp_path: Path) -> None:
    path = Gguf(tensors=[tensor()], data=bytes(range(32))).write(tmp_path)
    with open_gguf(path) as ours:
        view = ours.raw("w")
        assert view.dtype == np.uint8 and view.shape == (32,) and not view.flags.writeable
    ours.close()
    assert view.tobytes() == bytes(range(32))
    with pytest.raises(FormatError, match="the file is closed"):
        ours.raw("w")


def test_truncated_after_opening(varied: Path) -> None:
    with open_gguf(varied) as ours:
        whole = varied.stat().st_size
        os.truncate(varied, whole // 2)
        with pytest.raises(FormatError) as caught:
            ours.raw("t.Q8_0")
        info = ours.tensor("t.Q8_0")
        assert caught.value.rule == "the file was cut short while it was read"
        assert caught.value.place == str(varied)
        assert caught.value.want == f"{info.nbytes} bytes at byte {info.offset}"
        assert caught.value.got == f"{max(0, whole // 2 - info.offset)} bytes"


def test_what_is_cut_off_while_it_is_looked_at(varied: Path) -> None:
    """Bytes that were read stay: a mapping's would end the process by a signal."""
    with open_gguf(varied) as ours:
        raw, expected = ours.raw("t.Q8_0"), ours.raw("t.Q8_0").tobytes()
        os.truncate(varied, 0)
        assert raw.tobytes() == expected


def test_a_tensor_is_read_in_pieces(varied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may give less than was asked for, and may fail."""
    with open_gguf(varied) as ours:
        expected, real = ours.raw("t.Q8_0").tobytes(), os.preadv
        monkeypatch.setattr(os, "preadv", lambda fd, out, offset: real(fd, [out[0][:7]], offset))
        assert ours.raw("t.Q8_0").tobytes() == expected

        def fail(*_: object) -> int:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(FormatError) as caught:
            ours.raw("t.Q8_0")
        assert (caught.value.place, caught.value.got) == (str(varied), "Input/output error")


def test_open_is_quick(smollm2_path: Path) -> None:
    """The whole header within 40 ms on a quiet core (28 measured); the suite isn't alone, so 160 here."""

    def once() -> float:
        start = time.process_time()
        open_gguf(smollm2_path).close()
        return time.process_time() - start

    assert min(once() for _ in range(10)) < 0.160


def test_files_are_not_leaked(varied: Path) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    for _ in range(20):
        open_gguf(varied)
        varied.with_name("bad").write_bytes(b"GGUF")
        with pytest.raises(FormatError):
            open_gguf(varied.with_name("bad"))
    assert handles() <= before + 1


def test_keys(varied: Path) -> None:
    with open_gguf(varied) as ours:
        assert ours.keys.integer("k.uint32", 0, 200) == 200
        assert ours.keys.number("k.float64", 0, 1) == 0.1
        assert ours.keys.flag("k.bool") is True
        assert ours.keys.integer("absent", 0, 9, 7) == 7
        assert ours.keys.integer("k.uint32", 0, 255, 7) == 200
        assert ours.metadata["k.strings"][2] == "日本語"
        assert ours.metadata["k.ints"].tolist() == [1, -2, 3]
        failures: list[tuple[Callable[[], object], str, str, str]] = [
            (lambda: ours.keys.integer("k.bool", 0, 1), "k.bool", "an integer from 0 to 1", "True"),
            (lambda: ours.keys.integer("k.bool", 0, 1, 0), "k.bool", "an integer from 0 to 1", "True"),
            (lambda: ours.keys.number("k.uint8", 0, 900), "k.uint8", "a number from 0 to 900", "200"),
            (lambda: ours.keys.text("k.ints"), "k.ints", "a string", "an array of int32"),
            (lambda: ours.keys.neutral("k.bool", 1), "k.bool", "1", "True"),
        ]
        for use, name, want, got in failures:
            with pytest.raises(FormatError) as caught:
                use()
            assert caught.value.place == f"{varied} › key '{name}'"
            assert (caught.value.want, caught.value.got) == (want, got)


def test_missing_key_and_tensor(varied: Path) -> None:
    with open_gguf(varied) as ours:
        with pytest.raises(FormatError) as caught:
            ours.keys.integer("k.uint_32", 0, 9)
        assert caught.value.rule == "a key is missing" and caught.value.place == f"{varied} › key 'k.uint_32'"
        assert (caught.value.want, caught.value.hint) == ("an integer from 0 to 9", "near it: 'k.uint32'")
        with pytest.raises(FormatError) as caught:
            ours.keys.text("nothing like it")
        assert caught.value.hint == ""
        for use in (ours.tensor, ours.raw):
            with pytest.raises(FormatError) as caught:
                use("t.Q4-0")
            assert caught.value.rule == "a tensor is missing" and caught.value.hint == "near it: 't.Q4_0'"
