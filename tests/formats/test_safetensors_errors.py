"""Each way in which safetensors can be wrong is a FormatError that says what, where, wanted and got."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from assay.errors import FormatError
from assay.formats.safetensors import INDEX, SINGLE, open_safetensors
from assay.formats.safetensors_header import HEADER_LIMIT, TENSOR_LIMIT, TYPES
from formats.safetensors_bytes import built, entry, shard, sound, table, write_index

MOST = (1 << 63) - 1
OUT = "a field is out of range"
DIMENSIONS = f"0 to 8 integers from 0 to {(1 << 63) - 1}"
TWO = f"2 integers from 0 to {(1 << 63) - 1}"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def one(**fields: object) -> bytes:
    """A file of one tensor of two float32, some of its fields replaced."""
    return built(json.dumps({"w": entry() | fields}), bytes(8))


def text(entries: str, nbytes: int = 8) -> bytes:
    return built("{" + entries + "}", bytes(nbytes))


def two(first: dict[str, object], second: dict[str, object], nbytes: int) -> bytes:
    return built(json.dumps({"a": first, "b": second}), bytes(nbytes))


# name: (file, rule, place after the path, wanted, got)
CASES: dict[str, tuple[bytes, str, str, str, str]] = {
    "empty": (b"", "the file ends inside its header", "header", "8 bytes", "a file of 0 bytes"),
    "seven bytes": (bytes(7), "the file ends inside its header", "header", "8 bytes", "a file of 7 bytes"),
    "length of 0": (built("", bytes(8)), "not a safetensors file", "header", "b'{'", "b''"),
    "length": (
        built("{}", length=3), "the file ends inside its header", "header", "11 bytes", "a file of 10 bytes",
    ),
    "huge length": (
        built("{}", length=(1 << 64) - 1), "the file ends inside its header", "header",
        f"{(1 << 64) + 7} bytes", "a file of 10 bytes",
    ),
    "long header": (
        built(b"{" + b" " * HEADER_LIMIT), "the header is too long", "header",
        f"at most {HEADER_LIMIT} of the {HEADER_LIMIT} bytes that all shards may have",
        f"{HEADER_LIMIT + 1} bytes",
    ),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "not a safetensors file",
        "header", "the header's length", "b'version '",
    ),
    "space before": (built(" {}"), "not a safetensors file", "header", "b'{'", "b' '"),
    "an array": (built("[]"), "not a safetensors file", "header", "b'{'", "b'['"),
    "not JSON": (
        built("{a}"), "not JSON", "header › line 1, column 2", "JSON as in RFC 8259",
        "Expecting property name enclosed in double quotes",
    ),
    "not text": (built(b'{"\xff"'), "not text", "header", "UTF-8", "bytes ff 22 at byte 2"),
    "a name twice": (
        text('"w": 1, "w": 2'), "a key occurs twice", "header › key 'w'", "each key once", "",
    ),
    "a field twice": (
        text('"w": {"dtype": "F32", "dtype": "F16"}'), "a key occurs twice", "header › key 'dtype'",
        "each key once", "",
    ),
    "a list as metadata": (
        text('"__metadata__": []', 0), "metadata of another type", "header › key '__metadata__'", "an object",
        "an array",
    ),
    "a tensor as metadata": (
        text('"__metadata__": ' + json.dumps(entry())), "metadata of another type",
        "header › key '__metadata__' › key 'shape'", "a string", "an array",
    ),
    "a number in metadata": (
        text('"__metadata__": {"a": "", "b": 1}', 0), "metadata of another type",
        "header › key '__metadata__' › key 'b'", "a string", "an integer",
    ),
    "an empty name": (
        built(json.dumps({"": entry()}), bytes(8)), "a name that can't be", "tensor ''",
        "1 to 1024 characters", "0 characters",
    ),
    "a long name": (
        built(json.dumps({"n" * 1025: entry()}), bytes(8)), "a name that can't be",
        f"tensor '{'n' * 77}...'", "1 to 1024 characters", "1025 characters",
    ),
    "half a character": (
        text(r'"\ud800": {}'), "half a character", "header", "both escapes of a surrogate pair",
        r"'\\ud800' at byte 2",
    ),
    "no entry": (text('"w": 1'), "a tensor's entry of another type", "tensor 'w'", "an object", "an integer"),
    "no shape": (
        text('"w": {"dtype": "F32", "shapes": [2], "data_offsets": [0, 8]}'), "a field is missing",
        "tensor 'w' › shape", DIMENSIONS, "nothing",
    ),
    "one field more": (
        one(strides=[1]), "an unknown field", "tensor 'w'", "dtype, shape and data_offsets alone",
        "'strides'",
    ),
    "an unknown type": (
        one(dtype="f32"), OUT, "tensor 'w' › dtype", " or ".join(TYPES), "'f32'",
    ),
    "a type that is none": (
        one(dtype=["F32"]), OUT, "tensor 'w' › dtype", " or ".join(TYPES), "['F32']",
    ),
    "a shape that is none": (
        one(shape=2), OUT, "tensor 'w' › shape", DIMENSIONS, "2",
    ),
    "nine dimensions": (
        one(shape=[1] * 8 + [2]), OUT, "tensor 'w' › shape", DIMENSIONS,
        "[1, 1, 1, 1, 1, 1, 1, 1, 2]",
    ),
    "a negative dimension": (one(shape=[-2]), OUT, "tensor 'w' › shape", DIMENSIONS, "[-2]"),
    "two negative dimensions": (
        one(shape=[-1, -2]), OUT, "tensor 'w' › shape", DIMENSIONS, "[-1, -2]",
    ),
    "a huge dimension": (
        one(shape=[1 << 63]), OUT, "tensor 'w' › shape", DIMENSIONS, f"[{1 << 63}]",
    ),
    "a fraction": (one(shape=[2.0]), OUT, "tensor 'w' › shape", DIMENSIONS, "[2.0]"),
    "a power": (
        text('"w": {"dtype": "F32", "shape": [2e0], "data_offsets": [0, 8]}'), OUT,
        "tensor 'w' › shape", DIMENSIONS, "[2.0]",
    ),
    "a boolean": (one(shape=[True, 2]), OUT, "tensor 'w' › shape", DIMENSIONS, "[True, 2]"),
    "a string": (one(shape=["2"]), OUT, "tensor 'w' › shape", DIMENSIONS, "['2']"),
    "nothing": (one(shape=[None]), OUT, "tensor 'w' › shape", DIMENSIONS, "[None]"),
    "a product that would wrap": (
        one(shape=[1 << 62, 1 << 62, 16]), "a tensor's bytes don't fill its shape", "tensor 'w'",
        f"{1 << 130} bytes for float32[{1 << 62}, {1 << 62}, 16]", "data_offsets [0, 8]: 8 bytes",
    ),
    "a product that would wrap to its bytes": (
        one(shape=[(1 << 62) + 2]), "a tensor's bytes don't fill its shape", "tensor 'w'",
        f"{(1 << 64) + 8} bytes for float32[{(1 << 62) + 2}]", "data_offsets [0, 8]: 8 bytes",
    ),
    "too few bytes": (
        one(shape=[3]), "a tensor's bytes don't fill its shape", "tensor 'w'", "12 bytes for float32[3]",
        "data_offsets [0, 8]: 8 bytes",
    ),
    "too many bytes": (
        one(shape=[]), "a tensor's bytes don't fill its shape", "tensor 'w'", "4 bytes for float32[]",
        "data_offsets [0, 8]: 8 bytes",
    ),
    "half a byte": (
        one(dtype="F4", shape=[3]), "a tensor is not whole bytes", "tensor 'w'",
        "a multiple of 2 elements of float4_e2m1fn", "[3]",
    ),
    "offsets that are none": (
        one(data_offsets=8), OUT, "tensor 'w' › data_offsets", TWO, "8",
    ),
    "three offsets": (
        one(data_offsets=[0, 8, 16]), OUT, "tensor 'w' › data_offsets", TWO, "[0, 8, 16]",
    ),
    "a negative offset": (
        one(data_offsets=[-8, 0]), OUT, "tensor 'w' › data_offsets", TWO, "[-8, 0]",
    ),
    "a fraction as offset": (
        one(data_offsets=[0, 8.0]), OUT, "tensor 'w' › data_offsets", TWO, "[0, 8.0]",
    ),
    "a huge offset": (
        one(data_offsets=[0, 1 << 64]), OUT, "tensor 'w' › data_offsets", TWO,
        f"[0, {1 << 64}]",
    ),
    "offsets the wrong way round": (
        one(data_offsets=[8, 0]), "offsets that are out of order", "tensor 'w' › data_offsets",
        "the end at the first byte or behind it", "[8, 0]",
    ),
    "past the end": (
        text(f'"w": {json.dumps(entry())}', 7), "a tensor runs past the end of the file",
        "tensor 'w' › data_offsets", "at most 7, the bytes of data", "[0, 8]",
    ),
    "overlap": (
        two(entry(), entry(first=4), 12), "two tensors overlap", "tensor 'b'", "byte 8, the end of 'a'",
        "byte 4",
    ),
    "the same bytes": (
        two(entry(), entry(), 8), "two tensors overlap", "tensor 'b'", "byte 8, the end of 'a'", "byte 0",
    ),
    "a hole": (
        two(entry(first=12), entry(), 20), "bytes that belong to no tensor", "tensor 'a'",
        "byte 8, the end of 'b'", "byte 12",
    ),
    "a hole at the start": (
        two(entry(first=4), entry(first=12), 20), "bytes that belong to no tensor", "tensor 'a'", "byte 0",
        "byte 4",
    ),
    "a nothing in the middle": (
        two(entry(), entry(shape=(0,), first=4), 8), "two tensors overlap", "tensor 'b'",
        "byte 8, the end of 'a'", "byte 4",
    ),
    "more behind": (
        text(f'"w": {json.dumps(entry())}', 9), "bytes that belong to no tensor", "data",
        "8 bytes, the end of the last tensor", "9 bytes",
    ),
    "no tensors, but data": (
        built("{}", b"x"), "bytes that belong to no tensor", "data", "0 bytes, the end of the last tensor",
        "1 bytes",
    ),
    "many tensors": (
        built("{" + ",".join(f'"{i}":0' for i in range(TENSOR_LIMIT + 1)) + "}"), "too many tensors",
        "header", f"at most {TENSOR_LIMIT} of the {TENSOR_LIMIT} that all shards may have",
        str(TENSOR_LIMIT + 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, tmp_path: Path) -> None:
    data, rule, place, want, got = CASES[name]
    path = tmp_path / SINGLE
    path.write_bytes(data)
    for opened in (path, tmp_path):
        with pytest.raises(FormatError) as caught:
            open_safetensors(opened)
        error = caught.value
        assert (error.rule, error.place, error.want, error.got) == (rule, f"{path} › {place}", want, got)


def test_hints(tmp_path: Path) -> None:
    hints = {
        "pointer": "this is a pointer of Git LFS: fetch the file itself",
        "past the end": "the file is cut short or damaged: fetch it again",
        "no shape": "near it: 'shapes'",
    }
    for name, hint in hints.items():
        (tmp_path / SINGLE).write_bytes(CASES[name][0])
        with pytest.raises(FormatError) as caught:
            open_safetensors(tmp_path)
        assert caught.value.hint == hint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards with a tensor each, beside a file that isn't theirs."""
    (tmp_path / "secret.safetensors").write_bytes(sound(table({"b": ("F32", (2,))})))
    (tmp_path / "model").mkdir()
    parts = {name: table({tensor: ("F32", (2,))}) for name, tensor in zip(SHARDS, "ab", strict=True)}
    return shard(tmp_path / "model", parts)


FORM = "an index of another form"
MAP = "key 'weight_map'"
# name: (index, rule, place after the index's path, wanted, got)
INDICES: dict[str, tuple[object, str, str, str, str]] = {
    "an array": ([], "not a JSON object", "", "an object", "an array"),
    "empty": ({}, FORM, MAP, "an object that gives each tensor's file", "nothing"),
    "no tensors": (
        {"weight_map": {}}, FORM, MAP, "an object that gives each tensor's file",
        "an object",
    ),
    "no map": (
        {"weight_map": [SHARDS[0]]}, FORM, MAP, "an object that gives each tensor's file",
        "an array",
    ),
    "an unknown key": (
        {"weight_map": {"a": SHARDS[0]}, "weights": 1}, "an unknown key", "key 'weights'",
        "metadata and weight_map", "",
    ),
    "no name": (
        {"weight_map": {"a": SHARDS[0], "b": [SHARDS[1]]}}, FORM,
        f"{MAP} › tensor 'b'", "a file's name", "an array",
    ),
    "many files": (
        {"weight_map": {str(i): f"{i}.safetensors" for i in range(257)}}, "too many files", MAP,
        "at most 256 files", "257",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_refused_indices(name: str, folder: Path) -> None:
    index, rule, place, want, got = INDICES[name]
    write_index(folder, index)
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    error = caught.value
    whole = f"{folder / INDEX} › {place}" if place else str(folder / INDEX)
    assert (error.rule, error.place, error.want, error.got) == (rule, whole, want, got)


@pytest.mark.parametrize(
    ("file", "rule"),
    [
        ("../secret.safetensors", "not the name of a file"),
        ("/etc/hostname", "not the name of a file"),
        ("", "not the name of a file"),
        (".", "not the name of a file"),
        ("x\0.safetensors", "not the name of a file"),
        ("n" * 256, "not the name of a file"),
        ("inner/x.safetensors", "not the name of a file"),
        ("linked", "a link that leads out of the folder"),
        ("absent.safetensors", "a file is missing"),
        ("circle", "a file can't be found"),
    ],
)
def test_files_that_the_index_may_not_name(folder: Path, file: str, rule: str) -> None:
    (folder / "linked").symlink_to("../secret.safetensors")
    (folder / "circle").symlink_to("circle")
    write_index(folder, {"weight_map": {"a": SHARDS[0], "b": file}})
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    assert caught.value.rule == rule and caught.value.place.startswith(f"{folder} › file ")


def test_what_is_no_ordinary_file(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "inner").mkdir()
    for file, got in (("fifo", "a pipe"), ("inner", "a folder")):
        write_index(folder, {"weight_map": {"a": SHARDS[0], "b": file}})
        with pytest.raises(FormatError) as caught:
            open_safetensors(folder)
        assert (caught.value.rule, caught.value.got) == ("not a file", got)
        assert caught.value.place == str(folder / file)


def test_links_of_the_single_file_and_of_the_index(folder: Path) -> None:
    (folder / INDEX).rename(folder.parent / INDEX)
    (folder / INDEX).symlink_to(Path("..") / INDEX)
    for name in (INDEX, SINGLE):
        with pytest.raises(FormatError) as caught:
            open_safetensors(folder)
        assert caught.value.rule == "a link that leads out of the folder"
        assert caught.value.place == f"{folder} › file '{name}'" and "cp -rL" in caught.value.hint
        (folder / name).unlink()
        (folder / SINGLE).symlink_to("../secret.safetensors")


def test_shards_that_are_not_as_the_index_says(folder: Path) -> None:
    other = "shards and index aren't of one model: fetch them again"
    missing, surplus = (
        "a tensor is missing that the index places here",
        "a tensor that the index doesn't place here",
    )
    both = {"a": SHARDS[0], "b": SHARDS[1]}
    cases: list[tuple[dict[str, str], str, str, str, str, str]] = [
        (both | {"c": SHARDS[1]}, missing, SHARDS[1], "'c'", "the 2 tensors of the index", other),
        ({"a": SHARDS[1], "b": SHARDS[0]}, missing, SHARDS[1], "'a'", "the 1 tensors of the index", other),
        ({"a": SHARDS[0]} | {"a.weight": SHARDS[0]}, missing, SHARDS[0], "'a.weight'",
         "the 2 tensors of the index", other),
    ]  # fmt: skip
    for places, rule, file, tensor, want, hint in cases:
        write_index(folder, {"weight_map": places})
        with pytest.raises(FormatError) as caught:
            open_safetensors(folder)
        error = caught.value
        assert (error.rule, error.place) == (rule, f"{folder / file} › tensor {tensor}")
        assert (error.want, error.got, error.hint) == (want, "1 tensors", hint)
    write_index(folder, {"weight_map": both})
    (folder / SHARDS[1]).write_bytes(sound(table({"b": ("F32", (2,)), "hidden": ("F32", (1,))})))
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    error = caught.value
    assert (error.rule, error.place) == (surplus, f"{folder / SHARDS[1]} › tensor 'hidden'")
    assert (error.want, error.got) == ("the 1 tensors of the index", "2 tensors")
    (folder / SHARDS[1]).write_bytes(sound(table({"b.weights": ("F32", (2,))})))
    write_index(folder, {"weight_map": {"a": SHARDS[0], "b.weight": SHARDS[1]}})
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    assert (caught.value.rule, caught.value.hint) == (missing, "near it: 'b.weights'")


def test_a_damaged_shard(folder: Path) -> None:
    (folder / SHARDS[1]).write_bytes((folder / SHARDS[1]).read_bytes()[:-1])
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    assert caught.value.place == f"{folder / SHARDS[1]} › tensor 'b' › data_offsets"


def test_limits_hold_for_all_shards_together(folder: Path) -> None:
    """Else a folder of many files could take any time and memory."""
    half = table({f"{'n' * 20}{i}": ("U8", (1,)) for i in range(TENSOR_LIMIT // 2 + 1)})
    shard(folder, {SHARDS[0]: half, SHARDS[1]: {f"m{name}": value for name, value in half.items()}})
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    assert caught.value.rule == "too many tensors"
    assert caught.value.place == f"{folder / SHARDS[1]} › header"
    pad = {"__metadata__": {"a": "x" * (HEADER_LIMIT // 2)}}
    shard(folder, {name: pad | table({name: ("U8", (1,))}) for name in SHARDS})
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    assert caught.value.rule == "the header is too long"
    assert caught.value.place == f"{folder / SHARDS[1]} › header"


def test_one_file_and_shards(folder: Path) -> None:
    (folder / SINGLE).write_bytes(sound(table({"a": ("F32", (2,))})))
    with pytest.raises(FormatError) as caught:
        open_safetensors(folder)
    error = caught.value
    assert (error.rule, error.place, error.got) == (
        "weights in one file and in shards as well",
        str(folder),
        "both",
    )


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        open_safetensors(tmp_path)
    error = caught.value
    assert (error.rule, error.place, error.got) == ("a folder without weights", str(tmp_path), "neither")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FormatError) as caught:
        open_safetensors(tmp_path)
    assert caught.value.got == "pytorch_model.bin" and "convert them to safetensors" in caught.value.hint
