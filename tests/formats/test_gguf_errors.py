"""Each way in which a GGUF file can be wrong is a FormatError that says what, where, wanted and got."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

import pytest

from assay.errors import FormatError, ModelNotFoundError
from assay.formats import gguf_types
from assay.formats.gguf import open_gguf
from formats.gguf_bytes import ARRAY, BOOL, F32, STRING, U8, U32, Gguf, array, key, tensor, text

HUGE = (1 << 64) - 1
ONE = Gguf(tensors=[tensor()], data=bytes(32))


def deep(levels: int) -> bytes:
    return array(ARRAY, 1) * (levels - 1) + array(U32, 1, bytes(4))


# name: (file, rule, place after the path, wanted, got)
CASES: dict[str, tuple[Gguf | bytes, str, str, str, str]] = {
    "empty": (b"", "the file ends inside its header", "header", "4 bytes at byte 0", "a file of 0 bytes"),
    "magic": (Gguf(magic=b"GGML"), "not a GGUF file", "header", "47 47 55 46 (GGUF)", "47 47 4d 4c (GGML)"),
    "version 1": (
        Gguf(version=1),
        "a GGUF version that isn't supported",
        "header",
        "2 or 3, little-endian",
        "1",
    ),
    "big-endian": (
        Gguf(version=3 << 24),
        "a big-endian file",
        "header",
        "2 or 3, little-endian",
        str(3 << 24),
    ),
    "key count": (Gguf(key_count=HUGE), "more keys than the file can hold", "header", "at most 0", str(HUGE)),
    "tensor count": (
        Gguf(tensor_count=HUGE),
        "more tensors than the file can hold",
        "header",
        "at most 0",
        str(HUGE),
    ),
    "a few keys too many": (
        Gguf(key_count=5),
        "more keys than the file can hold",
        "header",
        "at most 0",
        "5",
    ),
    "one byte short": (
        ONE.build()[:56],
        "the file ends inside its header",
        "tensor 'w'",
        "8 bytes at byte 49",
        "a file of 56 bytes",
    ),
    "keys beyond the limit": (
        Gguf(key_count=20_000, data=bytes(300_000)),
        "too many keys",
        "header",
        "at most 16384",
        "20000",
    ),
    "cut short": (
        ONE.build()[:50],
        "the file ends inside its header",
        "tensor 'w'",
        "8 bytes at byte 49",
        "a file of 50 bytes",
    ),
    "key length": (
        Gguf([struct.pack("<Q", 1 << 40) + bytes(9)]),
        "a name is too long",
        "key 0",
        "at most 65535 bytes",
        str(1 << 40),
    ),
    "string length": (
        Gguf([key("k", STRING, struct.pack("<Q", HUGE))]),
        "the file ends inside its header",
        "key 'k'",
        f"{HUGE} bytes at byte 45",
        "a file of 64 bytes",
    ),
    "element count": (
        Gguf([key("k", ARRAY, array(F32, 1 << 62))]),
        "more elements than the file can hold",
        "key 'k'",
        "at most 3",
        str(1 << 62),
    ),
    "string count": (
        Gguf([key("k", ARRAY, array(STRING, 1 << 61))]),
        "more strings than the file can hold",
        "key 'k'",
        "at most 1",
        str(1 << 61),
    ),
    "array count": (
        Gguf([key("k", ARRAY, array(ARRAY, 1 << 61))]),
        "more arrays than the file can hold",
        "key 'k'",
        "at most 1",
        str(1 << 61),
    ),
    "string in an array": (
        Gguf([key("k", ARRAY, array(STRING, 2, text("a") + struct.pack("<Q", 500)))]),
        "the file ends inside its header",
        "key 'k'",
        "500 bytes at byte 66",
        "a file of 96 bytes",
    ),
    "nesting": (
        Gguf([key("k", ARRAY, deep(5))]),
        "arrays are nested too deep",
        "key 'k'",
        "at most 4 levels",
        "5",
    ),
    "value type": (
        Gguf([key("k", 13)]),
        "an unknown type of value",
        "key 'k'",
        "a value type from 0 to 12",
        "13",
    ),
    "element type": (
        Gguf([key("k", ARRAY, array(99, 0))]),
        "an unknown type of array element",
        "key 'k'",
        "a value type from 0 to 12",
        "99",
    ),
    "bool": (Gguf([key("k", BOOL, b"\2")]), "a bool is neither 0 nor 1", "key 'k'", "bytes 0 or 1", "byte 2"),
    "bools": (
        Gguf([key("k", ARRAY, array(BOOL, 3, b"\0\xff\1"))]),
        "a bool is neither 0 nor 1",
        "key 'k'",
        "bytes 0 or 1",
        "byte 255",
    ),
    "key not UTF-8": (
        Gguf([key(b"a\xff\xfeb")]),
        "a string is not UTF-8",
        "key 0",
        "UTF-8",
        "bytes ff fe 62 at its byte 1",
    ),
    "value not UTF-8": (
        Gguf([key("k", STRING, text(b"\xed\xa0\x80"))]),
        "a string is not UTF-8",
        "key 'k'",
        "UTF-8",
        "bytes ed a0 80 at its byte 0",
    ),
    "element not UTF-8": (
        Gguf([key("k", ARRAY, array(STRING, 2, text("a") + text(b"b\xc0")))]),
        "a string is not UTF-8",
        "key 'k'",
        "UTF-8",
        "string 1: bytes c0 at its byte 1",
    ),
    "halves of a character": (
        Gguf([key("k", ARRAY, array(STRING, 2, text(b"\xc4") + text(b"\xa0")))]),
        "a string is not UTF-8",
        "key 'k'",
        "UTF-8",
        "string 0: bytes c4 at its byte 0",
    ),
    "same key": (Gguf([key("k"), key("k")]), "a key occurs twice", "key 'k'", "", ""),
    "same tensor": (
        Gguf(tensors=[tensor(), tensor(offset=32)], data=bytes(64)),
        "a tensor name occurs twice",
        "tensor 'w'",
        "",
        "",
    ),
    "rank 0": (
        Gguf(tensors=[tensor(dims=())]),
        "a rank that can't be",
        "tensor 'w'",
        "1 to 4 dimensions",
        "0",
    ),
    "rank 5": (
        Gguf(tensors=[tensor(dims=(1,) * 5)]),
        "a rank that can't be",
        "tensor 'w'",
        "1 to 4 dimensions",
        "5",
    ),
    "zero dimension": (
        Gguf(tensors=[tensor(dims=(8, 0))]),
        "a dimension is zero",
        "tensor 'w'",
        "dimensions of at least 1",
        "(0, 8)",
    ),
    "blocks": (
        Gguf(tensors=[tensor(dims=(48, 2), code=2)]),
        "a row is not whole blocks",
        "tensor 'w'",
        "a multiple of 32 for q4_0",
        "48 columns",
    ),
    "product wraps to a small number": (
        Gguf(tensors=[tensor(dims=(1 << 32, 1 << 32))]),
        "a tensor is larger than the file",
        "tensor 'w'",
        "at most 96 bytes",
        f"({1 << 32}, {1 << 32}): {1 << 66} bytes",
    ),
    "past the end": (
        Gguf(tensors=[tensor(offset=32)], data=bytes(32)),
        "a tensor runs past the end of the file",
        "tensor 'w'",
        "32 bytes at byte 96",
        "a file of 96 bytes",
    ),
    "offset wraps around": (
        Gguf(tensors=[tensor(offset=(1 << 64) - 32)], data=bytes(32)),
        "a tensor runs past the end of the file",
        "tensor 'w'",
        f"32 bytes at byte {(1 << 64) + 32}",
        "a file of 96 bytes",
    ),
    "overlap": (
        Gguf(tensors=[tensor("a", (16,)), tensor("b", (8,), offset=32)], data=bytes(64)),
        "two tensors overlap",
        "tensor 'b'",
        "at least byte 160, the end of 'a'",
        "byte 128",
    ),
    "offset not aligned": (
        Gguf(tensors=[tensor(offset=8)], data=bytes(64)),
        "a tensor is not aligned",
        "tensor 'w'",
        "a multiple of 32",
        "offset 8",
    ),
    "alignment 24": (
        Gguf([key("general.alignment", value=struct.pack("<I", 24))]),
        "an alignment that can't be",
        "key 'general.alignment'",
        "a power of two, 8 or more",
        "24",
    ),
    "alignment 0": (
        Gguf([key("general.alignment", value=bytes(4))]),
        "an alignment that can't be",
        "key 'general.alignment'",
        "a power of two, 8 or more",
        "0",
    ),
    "alignment of another type": (
        Gguf([key("general.alignment", BOOL, b"\1")]),
        "an alignment that can't be",
        "key 'general.alignment'",
        "a power of two, 8 or more",
        "True",
    ),
    "control characters": (
        Gguf([key("\x1b[2J", 13)]),
        "an unknown type of value",
        r"key '\x1b[2J'",
        "a value type from 0 to 12",
        "13",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_damage(name: str, tmp_path: Path) -> None:
    file, rule, place, want, got = CASES[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(file.build() if isinstance(file, Gguf) else file)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    error = caught.value
    assert (error.rule, error.place, error.want, error.got) == (rule, f"{path} › {place}", want, got)


TYPES = (
    "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, "
    "IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, IQ1_M, BF16, TQ1_0, TQ2_0, MXFP4, NVFP4"
)


@pytest.mark.parametrize("code", [c for c in range(48) if c not in gguf_types.SUPPORTED])
def test_unsupported_tensor_type(code: int, tmp_path: Path) -> None:
    path = Gguf(tensors=[tensor("blk.0.attn_q.weight", (256,), code)], data=bytes(1024)).write(tmp_path)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert caught.value.rule == "a tensor type that isn't supported"
    assert caught.value.place == f"{path} › tensor 'blk.0.attn_q.weight'"
    assert caught.value.want == TYPES
    assert caught.value.got == gguf_types.GGML_NAMES.get(code, f"type {code}")


def test_names_of_tensor_types() -> None:
    from gguf import GGMLQuantizationType

    assert {int(t): t.name for t in GGMLQuantizationType}.items() <= gguf_types.GGML_NAMES.items()


def test_message(tmp_path: Path) -> None:
    path = Gguf(tensors=[tensor("output.weight", (256,), 15)]).write(tmp_path)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert str(caught.value) == (
        f"{path} › tensor 'output.weight': a tensor type that isn't supported\n"
        f"  wanted {TYPES}\n"
        "  got    Q8_K\n"
        "  hint   quantise the model to one of the supported types"
    )


def test_header_limit(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.write(Gguf([key("k", ARRAY, array(U8, gguf_types.HEADER_LIMIT - 10))]).build())
        file.truncate(1 << 40)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert caught.value.rule == "the header is too long"
    assert caught.value.want == f"at most {gguf_types.HEADER_LIMIT} bytes"


def test_string_limit_holds_over_all_arrays(tmp_path: Path) -> None:
    each = gguf_types.STRING_LIMIT // 2 + 1
    strings = array(STRING, each, bytes(8 * each))
    path = Gguf([key("a", ARRAY, strings), key("b", ARRAY, strings)]).write(tmp_path)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert (caught.value.rule, caught.value.place) == ("too many strings", f"{path} › key 'b'")
    assert (caught.value.want, caught.value.got) == (f"at most {each - 2}", str(each))


def test_array_limit_holds_over_all_arrays(tmp_path: Path) -> None:
    each = gguf_types.ENTRY_LIMIT // 2 + 1
    arrays = array(ARRAY, each, array(U8, 0) * each)
    path = Gguf([key("a", ARRAY, arrays), key("b", ARRAY, arrays)]).write(tmp_path)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert (caught.value.rule, caught.value.place) == ("too many arrays", f"{path} › key 'b'")


def test_absent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "absent.gguf", tmp_path / "file" / "below.gguf"):
        with pytest.raises(ModelNotFoundError) as caught:
            open_gguf(path)
        assert caught.value.place == str(path) and caught.value.hint


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    started = time.monotonic()
    for path, kind in (
        (tmp_path, "a folder"),
        (tmp_path / "pipe", "a pipe"),
        (Path("/dev/zero"), "a device"),
    ):
        with pytest.raises(FormatError) as caught:
            open_gguf(path)
        assert (caught.value.rule, caught.value.place, caught.value.got) == ("not a file", str(path), kind)
    assert time.monotonic() - started < 1  # an open that waits for the pipe's other end would hang


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / ("n" * 300), tmp_path / "a\0b"):
        with pytest.raises(FormatError) as caught:
            open_gguf(path)
        assert caught.value.rule == "the file can't be read"
        assert caught.value.place == str(path) and caught.value.got

    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(FormatError, match="can't be read"):
            open_gguf(Path("socket"))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a failing `os.open`: the superuser may read anything."""
    path = ONE.write(tmp_path)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    assert caught.value.got == "Permission denied"


@pytest.mark.parametrize("failure", ["short", "error"])
def test_shrinks_or_fails_while_read(failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ONE.write(tmp_path)
    opened: list[int] = []

    def pread(fd: int, length: int, offset: int) -> bytes:
        opened.append(fd)
        if failure == "error":
            raise OSError(5, "Input/output error")
        return ONE.build()[offset : offset + 3]

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(FormatError) as caught:
        open_gguf(path)
    if failure == "error":
        assert (caught.value.rule, caught.value.got) == ("the file can't be read", "Input/output error")
    else:
        assert caught.value.rule == "the file was cut short while it was read"
    with pytest.raises(OSError):
        os.fstat(opened[0])  # it was closed again
