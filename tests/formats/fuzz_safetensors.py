"""Damaged and hostile folders of safetensors, made from sound ones; each gives a FormatError or is sound.

    cd tests && python -m formats.fuzz_safetensors --cases 20000 [--seed 0]

prints the longest time and the highest memory over the baseline, and each case that broke a limit. The suite
runs a sample. What is opened must be read alike by the `safetensors` package; what is refused in one file
that the package reads must break a rule of ours that is meant to be stricter.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import safetensors

from assay.errors import FormatError
from assay.formats.files import TensorFiles
from assay.formats.safetensors import INDEX, SHARD_LIMIT, SINGLE, open_safetensors
from assay.formats.safetensors_header import HEADER_LIMIT, TENSOR_LIMIT
from assay.formats.strict_json import MARK_LIMIT
from formats.campaign import Campaign
from formats.safetensors_bytes import WIDTHS, built, data_of, shard, sound, table

STRICTER = {
    "a key occurs twice",
    "an unknown field",
    "a name that can't be",
    "a field is out of range",
    "a number is too long",
    "a number is too large",
    "too many values",
    "nested too deep",
    "half a character",
}
"""Rules that the package doesn't have: it takes the last of two keys, and lets unknown fields pass."""
OUTSIDE = "outside.safetensors"
Files = dict[str, bytes]


class Pairs(list[tuple[str, object]]):
    """An object of JSON whose keys may occur twice."""


class Raw(str):
    """Text that stands in JSON as it is."""


def dumped(value: object) -> str:
    """JSON with `Pairs` and `Raw` in it."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{dumped(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumped, value)) + "]"
    return json.dumps(value)


def seeds() -> tuple[Files, ...]:
    """Sound folders: one file with tensors of every type, and shards."""
    every = table(
        {name: (name, (3, 4)) for name in WIDTHS} | {"scalar": ("F32", ()), "none": ("F32", (0, 5))}
    )
    parts = {
        "model-00001-of-00002.safetensors": table({"a.weight": ("BF16", (4, 3)), "a.bias": ("F32", (4,))}),
        "model-00002-of-00002.safetensors": table({"b.weight": ("F16", (2, 3)), "ids": ("I64", (1, 5))}),
    }
    places = {tensor: name for name, entries in parts.items() for tensor in entries}
    index = json.dumps({"metadata": {"total_size": 92}, "weight_map": places}).encode()
    single = built(dumped({"__metadata__": {"format": "pt"}} | every), data_of(every))
    return {SINGLE: single}, {name: sound(entries) for name, entries in parts.items()} | {INDEX: index}


WEIRD: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 8, 63, 1.0, 0.5, -0.0, "", "F32", "F4", "a", "\0", "é🙂", "x" * 2000,
    *(1 << bits for bits in (31, 32, 62, 63, 64, 100)), (1 << 64) - 1, (1 << 63) - 1, -(1 << 63), [], {},
    [0], [0, 0], [1] * 9, [[]], [-1, -1], [1 << 32, 1 << 32], {"a": "b"}, {"a": 1}, ["F32"],
    *map(Raw, ("NaN", "Infinity", "-Infinity", "1e999", "1e3", "-0", "00", "1" * 70, "1" * 9000, '"\\ud800"',
               '"\\ud83d\\ude42"', '"\\udc00\\ud800"', "{", "]", "", "//", "'a'", "[" * 40 + "]" * 40,
               "[" * 100_000, '{"a":' * 5000, '{"a":1,"a":1}', "[" + "0," * 5000 + "0]", '"\n"', "tru")),
    "..", "../" + OUTSIDE, "/etc/hostname", "./" + SINGLE, "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", SINGLE, INDEX, "linked.safetensors", "folder", "fifo",
)  # fmt: skip


def _nodes(value: object) -> Iterator[tuple[list[object], int]]:
    """(container, position) of every value in a tree."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield value, at
            yield from _nodes(item[1] if isinstance(value, Pairs) else item)


def _tree(text: bytes, rng: random.Random) -> bytes:
    """A value is replaced, dropped, moved or said twice, or a key renamed."""
    try:
        tree = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return text
    nodes = list(_nodes(tree))
    if not nodes:
        return dumped(rng.choice(WEIRD)).encode(errors="replace")
    parent, at = rng.choice(nodes)
    other, there = rng.choice(nodes)
    keyed = isinstance(parent, Pairs)
    key, value = parent[at] if keyed else ("", parent[at])  # type: ignore[misc]
    moved = other[there][1] if isinstance(other, Pairs) else other[there]  # type: ignore[index]
    near = value + rng.choice([-8, -4, -1, 1, 4, 8]) if type(value) is int else rng.choice(WEIRD)
    # A copy, because a part may not come to stand inside itself.
    moved = json.loads(dumped(moved), object_pairs_hook=Pairs)
    new = rng.choice([near, rng.choice(WEIRD), moved])
    match rng.randrange(5):
        case 0:
            del parent[at]
        case 1:
            parent.insert(rng.randrange(len(parent) + 1), parent[at])
        case 2 if keyed:
            names = ["", "dtype", "__metadata__", "x", key.upper(), key + " ", "n" * 2000, "b.weight"]
            parent[at] = (rng.choice(names), value)
        case _:
            parent[at] = (key, new) if keyed else new
    return dumped(tree).encode()


def _bytes(text: bytes, rng: random.Random) -> bytes:
    """Bits flip, bytes are written over, inserted or cut."""
    data = bytearray(text)
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            for _ in range(rng.randint(1, 8)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + rng.randint(1, 16)] = rng.randbytes(rng.randint(1, 16))
        case 2:
            data[at:at] = rng.choice(
                [b"\\", b'"', b"[" * 50_000, b"{", b"}", b"\0", b"\xff", b"\xef\xbb\xbf"]
            )
        case 3:
            del data[at:]
        case _:
            data[at:at] = b" " * rng.choice([1, 8, 100_000])
    return bytes(data)


def _file(data: bytes, rng: random.Random) -> bytes:
    """One safetensors file: its header, with a length that fits or not, or the bytes behind it."""
    length = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + length], data[8 + length :]
    match rng.randrange(8):
        case 0:
            wrong = rng.choice(
                [0, 1, 1 << 63, (1 << 64) - 1, HEADER_LIMIT + 1, 100_000_000, length - 1, length + 1]
            )
            return struct.pack("<Q", wrong % (1 << 64)) + header + rest
        case 1:
            return built(header, rest[: rng.randrange(len(rest) + 1)])
        case 2:
            return built(header, rest + bytes(rng.choice([1, 4, 8])))
        case 3:
            return data[: rng.randrange(len(data) + 1)]
        case 4 | 5 if header:
            return built(_bytes(header, rng), rest)
        case _:
            return built(_tree(header, rng), rest)


def made(rng: random.Random, folder: Path) -> Path:
    """A damaged folder, beside which lies a file that it may lead to."""
    files = dict(rng.choice(seeds()))
    home = folder / "model"
    home.mkdir()
    (folder / OUTSIDE).write_bytes(files[min(files)])
    (home / "folder").mkdir()
    os.mkfifo(home / "fifo")
    (home / "linked.safetensors").symlink_to(Path("..") / OUTSIDE)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        name = rng.choice(sorted(files))
        if name == INDEX:
            files[name] = rng.choice([_tree, _tree, _bytes])(files[name], rng)
        else:
            files[name] = _file(files[name], rng)
    for name, data in files.items():
        (home / name).write_bytes(data)
    if rng.randrange(8) == 0:
        _displaced(home / rng.choice(sorted(files)), rng)
    return home


def _displaced(path: Path, rng: random.Random) -> None:
    """A file is missing, or something else is in its place."""
    path.unlink()
    targets = (Path("..") / OUTSIDE, Path("/etc/hostname"), Path(path.name), Path("nowhere"), Path("fifo"))
    kinds: tuple[Callable[[], object], ...] = (
        lambda: None,
        path.mkdir,
        lambda: path.symlink_to(rng.choice(targets)),
        lambda: os.mkfifo(path),
    )
    rng.choice(kinds)()


def attempt(path: Path) -> str:
    """Open the folder or file: the error's rule, or "opened" for what is sound in itself."""
    try:
        open_safetensors(path).close()
    except FormatError as error:
        text = str(error)
        assert error.place.startswith(str(path)) and error.rule and len(text) < 2000, text
        assert error.want or error.got, text
        return error.rule
    return "opened"


def check(path: Path, result: str) -> None:
    """Hold what came of `attempt` against the package."""
    if result == "opened":
        with open_safetensors(path) as opened:
            _agrees(opened, path)
    else:
        assert result in STRICTER or _is_refused(path), result


def _agrees(opened: TensorFiles, path: Path) -> None:
    """The package finds the same tensors in the files, and nothing else."""
    theirs: dict[str, dict[str, object]] = {}
    shards = [path] if path.is_file() else [path / SINGLE]
    if (path / INDEX).exists():
        shards = sorted(
            {path / name for name in json.loads((path / INDEX).read_bytes())["weight_map"].values()}
        )
    for each in shards:
        assert each.resolve().is_relative_to(path.resolve())
        found = dict(safetensors.deserialize(each.read_bytes()))
        assert not found.keys() & theirs.keys()
        theirs |= found
    assert opened.tensors.keys() == theirs.keys()
    for name, other in theirs.items():
        info = opened.tensors[name]
        assert list(info.shape) == other["shape"]
        assert info.nbytes == len(other["data"])  # type: ignore[arg-type]
        if other["dtype"] in ("F32", "F16", "BF16"):
            assert opened.raw(name).tobytes() == bytes(other["data"])  # type: ignore[arg-type, call-overload]


def _is_refused(path: Path) -> bool:
    """Whether the package refuses the file too; it has no notion of a folder, where all our rules are new."""
    single = path / SINGLE if path.is_dir() else path
    if (
        single.is_symlink()
        or not single.is_file()
        or (path / INDEX).exists()
        or single.stat().st_size > 1 << 20
    ):
        return True
    try:
        safetensors.deserialize(single.read_bytes())
    except safetensors.SafetensorError:
        return True
    return False


def _full(unit: bytes, marks: int) -> bytes:
    """A header whose metadata is a list of these, which have so many marks, commas included."""
    count = min((MARK_LIMIT - 4) // marks, (HEADER_LIMIT - 40) // len(unit))
    return b'{"__metadata__":[' + (unit * count)[:-1] + b"]}"


def _within(text: bytes) -> bytes:
    """A header whose metadata is one string: this text again and again."""
    return b'{"__metadata__":{"a":"' + text * ((HEADER_LIMIT - 40) // len(text)) + b'"}}'


def _tensors() -> bytes:
    row = b'"%s%06d":{"dtype":"F32","shape":[1,1,1],"data_offsets":[%d,%d]}'
    rows = [row % (b"n" * 150, i, 4 * i, 4 * i + 4) for i in range(TENSOR_LIMIT)]
    return b"{" + b",".join(rows) + b"}"


def _metadata() -> bytes:
    pairs = b",".join(b'"%06d":"%03d"' % (i, i % 1000) for i in range(MARK_LIMIT // 2 - 4))
    return b'{"__metadata__":{' + pairs + b"}}"


HEAVY: dict[str, Callable[[], bytes]] = {
    "tensors": _tensors,
    "metadata": _metadata,
    "objects": lambda: _full(b'{"":0},', 3),
    "empty objects": lambda: _full(b"{},", 2),
    "lists": lambda: _full(b"[0],", 2),
    "nested lists": lambda: _full(b"[" * 29 + b"]" * 29 + b",", 30),
    "integers": lambda: _full(b"123456789,", 1),
    "fractions": lambda: _full(b"1.5e300,", 1),
    "strings": lambda: _full(b'"abcdefghi",', 1),
    "wide strings": lambda: _full('"🙂aaa",'.encode(), 1),
    "a long string": lambda: _within(b"a")[:-3] + '🙂"}}'.encode(),
    "escapes": lambda: _within(b"\\ud83d\\ude42"),
    "backslashes": lambda: _within(b"\\\\"),
    "quotes": lambda: b"{" + b'"' * (HEADER_LIMIT - 1),
    "brackets": lambda: b"{" * HEADER_LIMIT,
    "spaces": lambda: b"{" + b" " * (HEADER_LIMIT - 2) + b"}",
    "lines": lambda: b"{" + b"\n" * (HEADER_LIMIT - 1),
    "a long number": lambda: b'{"a":' + b"1" * (HEADER_LIMIT - 10) + b"}",
}
"""Headers as large as the limits allow, of the kinds that cost the most for their bytes."""


def heavy_file(name: str, folder: Path) -> Path:
    """A file with one of these headers, or the folder "shards", which has as many as may be."""
    if name == "shards":
        shards = {}
        for number in range(SHARD_LIMIT):
            names = [f"{'n' * 100}.{number}.{i}" for i in range(TENSOR_LIMIT // SHARD_LIMIT)]
            shards[f"model-{number:05}-of-00256.safetensors"] = table(dict.fromkeys(names, ("F32", (1,))))
        return shard(folder, shards)
    path = folder / "heavy.safetensors"
    path.write_bytes(built(HEAVY[name]()))
    os.truncate(path, path.stat().st_size + (4 * TENSOR_LIMIT if name == "tensors" else 0))
    return path


def heavy(folder: Path) -> Iterator[tuple[str, Path]]:
    """All of them, one after the other."""
    for name in [*HEAVY, "shards"]:
        yield name, heavy_file(name, folder)


CAMPAIGN = Campaign("formats.fuzz_safetensors", made, attempt, heavy, check)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__))
