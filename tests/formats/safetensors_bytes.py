"""Safetensors files byte by byte, sound or not, written without the code under test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

WIDTHS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8,
    "U16": 16, "U32": 32, "U64": 64, "C64": 64, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F6_E2M3": 6,
    "F6_E3M2": 6, "F4": 4, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
}  # fmt: skip
"""Bits of an element, from the format's own table."""


def built(header: bytes | str, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of this header, which has its true length if none is given."""
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype: str = "F32", shape: tuple[int, ...] = (2,), first: int = 0) -> dict[str, object]:
    """A tensor whose bytes begin at `first` and are as many as its shape has."""
    count = WIDTHS[dtype]
    for dim in shape:
        count *= dim
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [first, first + count // 8]}


def table(rows: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, object]:
    """Tensors of these types and shapes, one behind the other."""
    entries: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in rows.items():
        made = entry(dtype, shape, end)
        entries[name] = made
        end = made["data_offsets"][1]  # type: ignore[index]
    return entries


def data_of(entries: Mapping[str, object]) -> bytes:
    """As many bytes as the tensors fill, each of another value than its neighbours."""
    tensors = [each for name, each in entries.items() if name != "__metadata__"]
    ends = [each["data_offsets"][1] for each in tensors]  # type: ignore[index]
    return bytes(index * 37 % 251 for index in range(max(ends, default=0)))


def sound(entries: Mapping[str, object]) -> bytes:
    """The whole file of these entries."""
    return built(json.dumps(entries), data_of(entries))


def shard(folder: Path, files: Mapping[str, Mapping[str, object]]) -> Path:
    """A folder of these files, and an index of all their tensors."""
    places = {}
    for name, entries in files.items():
        (folder / name).write_bytes(sound(entries))
        places |= {tensor: name for tensor in entries if tensor != "__metadata__"}
    write_index(folder, {"metadata": {"total_size": 0}, "weight_map": places})
    return folder


def write_index(folder: Path, table: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(table))
