"""The header of a safetensors file as a table: where each tensor lies. Trusts nothing.

Source: the format's specification (huggingface/safetensors, README). A file is the header's length as eight
bytes, little-endian; the header, a JSON object of dtype, shape and data_offsets by name, with an object of
strings named `__metadata__` if any; then the data, which the tensors fill without a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from assay.errors import FormatError, within
from assay.formats.fields import Config
from assay.formats.files import read_at
from assay.formats.strict_json import JsonValue, kind, parse_object
from assay.formats.tensors import TensorInfo, quoted
from assay.tensor.dtype import BF16, BOOL, C64, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType

LENGTH_BYTES = 8
HEADER_LIMIT = 8 << 20
"""Bytes of header, all shards together. The format's own limit is 100 MB; 10,000 tensors take 1.3."""
TENSOR_LIMIT = 1 << 15
"""Tensors, all shards together. 48 layers of 128 experts each have 19,000."""
NAME_LIMIT = 1024
MAX_RANK = 8
MOST = (1 << 63) - 1
"""The largest dimension or offset."""

TYPES: dict[str, DType] = {
    "F64": F64, "F32": F32, "F16": F16, "BF16": BF16, "I64": I64, "I32": I32, "I16": I16, "I8": I8, "U8": U8,
    "BOOL": BOOL, "U16": U16, "U32": U32, "U64": U64, "C64": C64,
    "F8_E5M2": DType("float8_e5m2", 1, 1, "float"), "F8_E4M3": DType("float8_e4m3fn", 1, 1, "float"),
    "F8_E5M2FNUZ": DType("float8_e5m2fnuz", 1, 1, "float"),
    "F8_E4M3FNUZ": DType("float8_e4m3fnuz", 1, 1, "float"), "F8_E8M0": DType("float8_e8m0fnu", 1, 1, "float"),
    "F6_E2M3": DType("float6_e2m3fn", 4, 3, "float"), "F6_E3M2": DType("float6_e3m2fn", 4, 3, "float"),
    "F4": DType("float4_e2m1fn", 2, 1, "float"),
}  # fmt: skip
"""All types of the format. Those that no operator reads are known here only, so that they can be listed."""

_POINTER = b"version "
"""How the text begins that Git LFS leaves in place of a file."""
_DAMAGED = "the file is cut short or damaged: fetch it again"


@dataclass(frozen=True, slots=True)
class Room:
    """What further headers may take."""

    nbytes: int = HEADER_LIMIT
    tensors: int = TENSOR_LIMIT


def read_header(fd: int, size: int, room: Room) -> tuple[dict[str, TensorInfo], Room]:
    """The tensors of the `size` bytes behind `fd`, and the room that is left after them.

    Raises FormatError, and OSError where reading fails.
    """
    with within("header"):
        length = _length(fd, size, room)
        table = parse_object(read_at(fd, LENGTH_BYTES, length).tobytes())
        _check_metadata(table.pop("__metadata__", {}))
        if len(table) > room.tensors:
            want = f"at most {room.tensors} of the {TENSOR_LIMIT} that all shards may have"
            raise FormatError("too many tensors", want=want, got=str(len(table)))
    start = LENGTH_BYTES + length
    tensors = {name: _tensor(name, entry, start, size) for name, entry in table.items()}
    _check_places(tensors.values(), start, size)
    return tensors, Room(room.nbytes - length, room.tensors - len(tensors))


def _length(fd: int, size: int, room: Room) -> int:
    """The bytes of the header, which begins as one."""
    head = read_at(fd, 0, min(LENGTH_BYTES, size)).tobytes()
    if head == _POINTER:
        want, hint = "the header's length", "this is a pointer of Git LFS: fetch the file itself"
        raise FormatError("not a safetensors file", want=want, got=repr(head), hint=hint)
    length = int.from_bytes(head, "little")
    if len(head) < LENGTH_BYTES or length > size - LENGTH_BYTES:
        want = f"{LENGTH_BYTES + length if len(head) == LENGTH_BYTES else LENGTH_BYTES} bytes"
        got = f"a file of {size} bytes"
        raise FormatError("the file ends inside its header", want=want, got=got, hint=_DAMAGED)
    if length > room.nbytes:
        want = f"at most {room.nbytes} of the {HEADER_LIMIT} bytes that all shards may have"
        raise FormatError("the header is too long", want=want, got=f"{length} bytes")
    first = read_at(fd, LENGTH_BYTES, min(length, 1)).tobytes()
    if first != b"{":
        raise FormatError("not a safetensors file", want="b'{'", got=repr(first))
    return length


def _check_metadata(metadata: JsonValue) -> None:
    with within("key '__metadata__'"):
        if type(metadata) is not dict:
            raise FormatError("metadata of another type", want="an object", got=kind(metadata))
        for key, value in metadata.items():
            if type(value) is not str:
                where = f"key {quoted(key)}"
                raise FormatError("metadata of another type", place=where, want="a string", got=kind(value))


def _tensor(name: str, entry: JsonValue, start: int, size: int) -> TensorInfo:
    """One entry of the table. The data begin at byte `start` of a file of `size` bytes."""
    with within(f"tensor {quoted(name)}"):
        if not 1 <= len(name) <= NAME_LIMIT:
            want, got = f"1 to {NAME_LIMIT} characters", f"{len(name)} characters"
            raise FormatError("a name that can't be", want=want, got=got)
        if type(entry) is not dict:
            raise FormatError("a tensor's entry of another type", want="an object", got=kind(entry))
        fields = Config(entry, "")
        dtype = TYPES[fields.choice("dtype", TYPES)]
        shape = tuple(fields.integers("shape", range(MAX_RANK + 1), MOST))
        first, last = fields.integers("data_offsets", range(2, 3), MOST)
        surplus = next((field for field in entry if field not in fields.asked), None)
        if surplus is not None:
            want = "dtype, shape and data_offsets alone"
            raise FormatError("an unknown field", want=want, got=quoted(surplus))
        count, room = math.prod(shape), size - start
        if count % dtype.block:
            want, got = f"a multiple of {dtype.block} elements of {dtype}", f"{list(shape)}"
            raise FormatError("a tensor is not whole bytes", want=want, got=got)
        if first > last:
            rule, want = "offsets that are out of order", "the end at the first byte or behind it"
            raise fields.error("data_offsets", want, [first, last], rule)
        if last > room:
            rule, want = "a tensor runs past the end of the file", f"at most {room}, the bytes of data"
            raise fields.error("data_offsets", want, [first, last], rule, _DAMAGED)
        if last - first != dtype.nbytes(count):
            want = f"{dtype.nbytes(count)} bytes for {dtype}{list(shape)}"
            got = f"data_offsets [{first}, {last}]: {last - first} bytes"
            raise FormatError("a tensor's bytes don't fill its shape", want=want, got=got)
    return TensorInfo(name, dtype, shape, start + first, last - first)


def _check_places(tensors: Iterable[TensorInfo], start: int, size: int) -> None:
    """The tensors fill the data: none overlap, and no byte is left, where something could hide."""
    end, before = start, ""
    for info in sorted(tensors, key=lambda info: (info.offset, info.nbytes)):
        if info.offset != end:
            raise FormatError(
                "two tensors overlap" if info.offset < end else "bytes that belong to no tensor",
                place=f"tensor {quoted(info.name)}",
                want=f"byte {end - start}, the end of {quoted(before)}" if before else "byte 0",
                got=f"byte {info.offset - start}",
            )
        end, before = info.offset + info.nbytes, info.name
    if end != size:
        want, got = f"{end - start} bytes, the end of the last tensor", f"{size - start} bytes"
        raise FormatError("bytes that belong to no tensor", place="data", want=want, got=got, hint=_DAMAGED)
