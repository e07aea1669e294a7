"""GGUF files byte by byte, sound or not, written without the code under test."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

U8, BOOL, U32, F32, STRING, ARRAY, U64 = 0, 7, 4, 6, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def key(name: str | bytes, code: int = U32, value: bytes = b"\1\0\0\0") -> bytes:
    return text(name) + struct.pack("<I", code) + value


def array(code: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", code, count) + data


def tensor(name: str | bytes = "w", dims: tuple[int, ...] = (8,), code: int = 0, offset: int = 0) -> bytes:
    """A row of the tensor table; `dims` in the file's order, the fastest first."""
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, code, offset)


@dataclass
class Gguf:
    """A file of these keys and tensors; counts that aren't given are the true ones."""

    keys: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    version: int = 3
    magic: bytes = b"GGUF"
    key_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 32

    def build(self) -> bytes:
        key_count = len(self.keys) if self.key_count is None else self.key_count
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        header = self.magic + struct.pack("<IQQ", self.version, tensor_count, key_count)
        header += b"".join(self.keys) + b"".join(self.tensors)
        return header + bytes(-len(header) % self.alignment) + self.data

    def write(self, folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(self.build())
        return path
