"""Damaged and hostile GGUF headers, made from sound ones; each must give a FormatError or a sound file.

    cd tests && python -m formats.fuzz_gguf --cases 20000 [--seed 0]

prints the longest time and the highest memory over the baseline, and each case that broke a limit. The suite
runs a sample. Structure is found by a walker of its own, not by the parser under test.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from assay.errors import FormatError
from assay.formats.gguf import open_gguf
from formats.campaign import Campaign

GOLDEN = Path(__file__).parents[1] / "golden" / "gguf" / "smollm2_header.bin"
TENSOR_BYTES = 96_576_768  # printed by golden/gguf/cut_header.py
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
HUGE = (
    1 << 63,
    (1 << 64) - 1,
    1 << 62,
    1 << 61,
    (1 << 63) - 1,
    1 << 48,
    1 << 40,
    1 << 32,
    (1 << 32) - 1,
    1 << 31,
)


@dataclass
class Fields:
    """Where the fields of a sound header lie, by kind."""

    lengths: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    values: list[tuple[int, int]] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    tensor_types: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    entries: list[tuple[int, int]] = field(default_factory=list)


def walk(data: bytes) -> Fields:
    """The fields of a sound header."""
    found = Fields(counts=[8, 16])
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    at = 24

    def u32() -> int:
        nonlocal at
        at += 4
        return int(struct.unpack_from("<I", data, at - 4)[0])

    def u64() -> int:
        nonlocal at
        at += 8
        return int(struct.unpack_from("<Q", data, at - 8)[0])

    def string() -> None:
        nonlocal at
        found.lengths.append(at)
        length = u64()
        at += length

    def value(code: int) -> None:
        nonlocal at
        if code == 8:
            string()
        elif code == 9:
            found.types.append(at)
            inner = u32()
            found.counts.append(at)
            for _ in range(u64()):
                value(inner)
        else:
            at += WIDTHS[code]

    for _ in range(keys):
        start = at
        string()
        found.types.append(at)
        code = u32()
        first = at
        value(code)
        found.values.append((first, at))
        found.entries.append((start, at))
    for _ in range(tensors):
        start = at
        string()
        found.ranks.append(at)
        rank = u32()
        found.dims += [at + 8 * i for i in range(rank)]
        at += 8 * rank
        found.tensor_types.append(at)
        at += 4
        found.offsets.append(at)
        at += 8
        found.entries.append((start, at))
    return found


@dataclass
class Seed:
    """A sound header, and how many bytes of tensor data belong behind it."""

    header: bytes
    tail: int
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        self.fields = walk(self.header)


def smollm2() -> Seed:
    """The real header, its vocabulary cut to 64 entries."""
    header = GOLDEN.read_bytes()
    return Seed(header, -len(header) % 32 + TENSOR_BYTES)


def synthetic() -> Seed:
    """Every type of value, nested arrays, every type of tensor; written here byte by byte."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    values = [
        *((code, bytes(width)) for code, width in WIDTHS.items()),
        (8, text("hé")),
        (9, struct.pack("<IQ", 8, 3) + text("a") + text("") + text("日本語🙂")),
        (9, struct.pack("<IQ", 7, 5) + b"\0\1\0\1\1"),
        (9, struct.pack("<IQ4i", 5, 4, -1, 2, -3, 4)),
        (
            9,
            struct.pack("<IQ", 9, 2)
            + struct.pack("<IQ3f", 6, 3, 0.5, 1, 2)
            + struct.pack("<IQ", 8, 1)
            + text("x"),
        ),
    ]
    rows = [
        ("f32", 0, (3, 2), 24),
        ("f16", 1, (5,), 10),
        ("q4_0", 2, (64, 3), 108),
        ("q4_1", 3, (32, 1, 2), 40),
        ("q8_0", 8, (32, 1, 1, 2), 68),
        ("bf16", 30, (7, 3), 42),
    ]
    header = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(values))
    for index, (code, data) in enumerate(values):
        header += text(f"key.{index}") + struct.pack("<I", code) + data
    offset = 0
    for name, code, dims, nbytes in rows:
        header += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, code, offset)
        offset += -(-nbytes // 32) * 32
    return Seed(header, -len(header) % 32 + offset)


def _put(data: bytearray, at: int, value: int, width: int) -> None:
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")


def _number(rng: random.Random) -> int:
    return rng.choice([*HUGE, rng.randrange(1 << 64), rng.randrange(1 << 16), rng.randrange(64), 0, 1])


def _flip(data: bytearray, fields: Fields, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, fields: Fields, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    for at in range(start, min(start + rng.randint(1, 16), len(data))):
        data[at] = rng.randrange(256)


def _length(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.lengths), _number(rng), 8)


def _nudge(data: bytearray, fields: Fields, rng: random.Random) -> None:
    at = rng.choice(fields.lengths + fields.counts + fields.offsets + fields.dims)
    _put(data, at, int.from_bytes(data[at : at + 8], "little") + rng.choice([-32, -8, -1, 1, 8, 32]), 8)


def _count(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.counts), _number(rng), 8)


def _type(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.types), rng.choice([*range(14), 1 << 31, 255]), 4)


def _tensor_type(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.tensor_types), rng.choice([*range(45), 1 << 31]), 4)


def _dim(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.dims), _number(rng), 8)


def _rank(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.ranks), rng.choice([0, 1, 2, 3, 4, 5, 1 << 31, (1 << 32) - 1]), 4)


def _offset(data: bytearray, fields: Fields, rng: random.Random) -> None:
    _put(data, rng.choice(fields.offsets), _number(rng), 8)


def _nest(data: bytearray, fields: Fields, rng: random.Random) -> None:
    """A value becomes arrays in arrays, deep or wide, with counts that may be huge."""
    first, last = rng.choice(fields.values)
    count = rng.choice([0, 1, 1, 2, 1000, *HUGE])
    nested = struct.pack("<IQ", 9, count) * rng.choice([1, 2, 3, 4, 5, 50, 5000])
    data[first - 4 : last] = struct.pack("<I", 9) + nested


def _splice(data: bytearray, fields: Fields, rng: random.Random) -> None:
    """An entry is dropped, or occurs twice, or takes another's place."""
    (a, b), (c, d) = rng.choice(fields.entries), rng.choice(fields.entries)
    data[a:b] = rng.choice([b"", data[a:b] * 2, data[c:d]])


def _cut(data: bytearray, fields: Fields, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


MUTATIONS: tuple[Callable[[bytearray, Fields, random.Random], None], ...] = (
    _flip,
    _overwrite,
    _length,
    _nudge,
    _count,
    _type,
    _tensor_type,
    _dim,
    _rank,
    _offset,
    _nest,
    _splice,
    _cut,
)


def mutated(seed: Seed, rng: random.Random) -> tuple[bytes, int]:
    """A damaged header and the length of its file. Later mutations may hit fields that have moved."""
    data = bytearray(seed.header)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if data:
            rng.choice(MUTATIONS)(data, seed.fields, rng)
    whole = len(seed.header) + seed.tail
    size = rng.choice([whole, whole, whole, len(data), rng.randrange(whole), whole + (1 << 40)])
    return bytes(data[:size]), size


def write(path: Path, header: bytes, size: int) -> None:
    """A file of `size` bytes, sparse behind its header."""
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)


def attempt(path: Path) -> str:
    """Open the file: the error's rule, or "opened" for a file that is sound in itself."""
    try:
        with open_gguf(path) as opened:
            size = path.stat().st_size
            assert all(
                info.nbytes > 0 and info.offset + info.nbytes <= size for info in opened.tensors.values()
            )
            assert all(value is not None for value in opened.metadata.values())
    except FormatError as error:
        assert error.place.startswith(str(path)) and error.rule and len(str(error)) < 2000, str(error)
        return error.rule
    return "opened"


def heavy() -> Iterator[tuple[str, bytes, int]]:
    """Sound headers as large as the limits allow, of the kinds that cost the most for their bytes."""

    def header(code: int, value: bytes, tensors: bytes = b"", count: int = 0) -> bytes:
        return b"GGUF" + struct.pack("<IQQQ1sI", 3, count, 1, 1, b"k", code) + value + tensors

    def strings(each: bytes, count: int) -> bytes:
        return struct.pack("<IQ", 8, count) + (struct.pack("<Q", len(each)) + each) * count

    wide = "🙂".encode() + b"a" * 12
    yield "a million wide strings", header(9, strings(wide, 1_000_000)), 0
    yield "a million empty strings", header(9, strings(b"", 1_000_000)), 0
    yield "long and short strings in turn", header(9, strings(b"a" * 247 + bytes(9) + b"b", 90_000)), 0
    yield "one long string", header(8, struct.pack("<Q", 24_000_000) + b"a" * 23_999_996 + "🙂".encode()), 0
    yield "numbers", header(9, struct.pack("<IQ", 0, 24_000_000) + bytes(24_000_000)), 0
    yield "nested arrays", header(9, struct.pack("<IQ", 9, 16_384) + struct.pack("<IQB", 0, 1, 0) * 16_384), 0
    keys = b"".join(struct.pack("<Q6sIB", 6, b"%06d" % i, 0, 0) for i in range(16_384))
    yield "keys", b"GGUF" + struct.pack("<IQQ", 3, 0, 16_384) + keys, 0
    rows = b"".join(struct.pack("<Q6sI4QIQ", 6, b"%06d" % i, 4, 1, 1, 1, 8, 0, 32 * i) for i in range(16_384))
    yield "tensors", header(0, b"\0", rows, 16_384), 1 << 30
    long = b"".join(
        struct.pack("<Q", 1200) + b"%01200d" % i + struct.pack("<IB", 0, 0) for i in range(16_384)
    )
    yield "long keys", b"GGUF" + struct.pack("<IQQ", 3, 0, 16_384) + long, 0


def _make(rng: random.Random, folder: Path) -> Path:
    write(folder / "case", *mutated(rng.choice(SEEDS), rng))
    return folder / "case"


def _heavy(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, header, tail in heavy():
        write(folder / "heavy", header, len(header) + tail)
        yield name, folder / "heavy"


SEEDS = (smollm2(), synthetic())
CAMPAIGN = Campaign("formats.fuzz_gguf", _make, attempt, _heavy)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__))
