"""The header of a GGUF file as tables: metadata, and where each tensor lies. Trusts nothing."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from itertools import pairwise

from assay.formats import gguf_types as types
from assay.formats.gguf_cursor import Cursor
from assay.formats.gguf_types import MetadataValue
from assay.formats.tensors import TensorInfo, quoted


@dataclass(frozen=True, slots=True)
class Header:
    """Everything before the tensor data."""

    version: int
    metadata: dict[str, MetadataValue]
    tensors: dict[str, TensorInfo]


def _shown(data: bytes) -> str:
    """Bytes in hexadecimal, and as text where they are letters."""
    text = data.decode("ascii", "replace")
    return f"{data.hex(' ')} ({text})" if text.isascii() and text.isprintable() else data.hex(" ")


def read_header(fd: int, size: int) -> Header:
    """The header of the `size` bytes behind `fd`. Raises FormatError, and OSError where reading fails."""
    cursor = Cursor(fd, size)
    cursor.place = "header"
    magic = cursor.take(4)
    if magic != types.MAGIC:
        raise cursor.error("not a GGUF file", want=_shown(types.MAGIC), got=_shown(magic))
    version = cursor.u32()
    if version not in types.VERSIONS:
        swapped = version & 0xFFFF == 0 and version >> 24 in types.VERSIONS
        rule = "a big-endian file" if swapped else "a GGUF version that isn't supported"
        want = " or ".join(map(str, types.VERSIONS)) + ", little-endian"
        raise cursor.error(
            rule, want=want, got=str(version), hint="convert the model again with current tools"
        )
    tensor_count = cursor.count("tensors", each=32, limit=types.ENTRY_LIMIT)
    key_count = cursor.count("keys", each=13, limit=types.ENTRY_LIMIT)
    metadata: dict[str, MetadataValue] = {}
    for index in range(key_count):
        cursor.place = f"key {index}"
        key = cursor.name()
        cursor.place = f"key {quoted(key)}"
        if key in metadata:
            raise cursor.error("a key occurs twice")
        metadata[key] = cursor.value(cursor.u32())
    alignment = _alignment(cursor, metadata)
    rows: list[TensorInfo] = []
    for index in range(tensor_count):
        cursor.place = f"tensor {index}"
        rows.append(_tensor(cursor, alignment))
    cursor.place = "header"
    return Header(version, metadata, _placed(cursor, rows, alignment))


def _alignment(cursor: Cursor, metadata: dict[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", types.DEFAULT_ALIGNMENT)
    cursor.place = "key 'general.alignment'"
    if type(value) is not int or value < types.LEAST_ALIGNMENT or value & (value - 1):
        got = str(value) if isinstance(value, bool | int | float) else type(value).__name__
        raise cursor.error(
            "an alignment that can't be", want=f"a power of two, {types.LEAST_ALIGNMENT} or more", got=got
        )
    return value


def _tensor(cursor: Cursor, alignment: int) -> TensorInfo:
    """One row of the tensor table; its offset still counts from the start of the data."""
    name = cursor.name()
    cursor.place = f"tensor {quoted(name)}"
    rank = cursor.u32()
    if not 1 <= rank <= types.MAX_RANK:
        raise cursor.error("a rank that can't be", want=f"1 to {types.MAX_RANK} dimensions", got=str(rank))
    shape = struct.unpack(f"<{rank}Q", cursor.take(8 * rank))[::-1]
    code = cursor.u32()
    dtype = types.SUPPORTED.get(code)
    if dtype is None:
        rule, got = "a tensor type that isn't supported", types.GGML_NAMES.get(code, f"type {code}")
        hint = "quantise the model to one of the supported types"
        raise cursor.error(rule, want=types.SUPPORTED_NAMES, got=got, hint=hint)
    if 0 in shape:
        raise cursor.error("a dimension is zero", want="dimensions of at least 1", got=str(shape))
    if shape[-1] % dtype.block:
        want = f"a multiple of {dtype.block} for {dtype}"
        raise cursor.error("a row is not whole blocks", want=want, got=f"{shape[-1]} columns")
    nbytes = dtype.nbytes(math.prod(shape))
    if nbytes > cursor.size:
        want, got = f"at most {cursor.size} bytes", f"{shape}: {nbytes} bytes"
        raise cursor.error("a tensor is larger than the file", want=want, got=got)
    offset = cursor.u64()
    if offset % alignment:
        raise cursor.error(
            "a tensor is not aligned", want=f"a multiple of {alignment}", got=f"offset {offset}"
        )
    return TensorInfo(name, dtype, shape, offset, nbytes)


def _placed(cursor: Cursor, rows: list[TensorInfo], alignment: int) -> dict[str, TensorInfo]:
    """The table by name, its offsets now from the start of the file, its ranges inside the file and apart."""
    data = -(-cursor.offset // alignment) * alignment
    tensors: dict[str, TensorInfo] = {}
    for row in rows:
        cursor.place = f"tensor {quoted(row.name)}"
        if row.name in tensors:
            raise cursor.error("a tensor name occurs twice")
        info = TensorInfo(row.name, row.dtype, row.shape, data + row.offset, row.nbytes)
        if info.offset + info.nbytes > cursor.size:
            want, got = f"{info.nbytes} bytes at byte {info.offset}", f"a file of {cursor.size} bytes"
            hint = "the file is cut short or damaged: fetch it again"
            raise cursor.error("a tensor runs past the end of the file", want=want, got=got, hint=hint)
        tensors[row.name] = info
    ordered = sorted(tensors.values(), key=lambda info: info.offset)
    for before, after in pairwise(ordered):
        end = before.offset + before.nbytes
        if end > after.offset:
            cursor.place = f"tensor {quoted(after.name)}"
            want = f"at least byte {end}, the end of {quoted(before.name)}"
            raise cursor.error("two tensors overlap", want=want, got=f"byte {after.offset}")
    return tensors
