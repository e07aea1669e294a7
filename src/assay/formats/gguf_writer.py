"""Write a GGUF file, version 3. The file appears whole and readable, or not at all."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError
from assay.formats import gguf_types as types
from assay.formats.gguf import open_gguf
from assay.formats.gguf_types import MetadataValue
from assay.tensor.dtype import DType

Data: TypeAlias = bytes | npt.NDArray[np.uint8]
Row: TypeAlias = tuple[str, DType, tuple[int, ...], Data | Callable[[], Data]]


def write_gguf(
    path: Path, metadata: Mapping[str, MetadataValue | np.generic], tensors: Iterable[Row]
) -> None:
    """Write metadata and tensors (name, dtype, row-major shape, bytes or what makes them) in the order given.

    An int is stored as uint32 where it fits, else as int32, uint64 or int64; a float as float32 where that is
    exact; a NumPy scalar keeps its type. Raises FormatError for what couldn't be read, before `path` changes.
    """
    rows = list(tensors)
    alignment = metadata.get("general.alignment", types.DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise FormatError("an alignment that can't be", place="key 'general.alignment'", got=repr(alignment))
    header = [types.MAGIC, struct.pack("<IQQ", types.VERSIONS[-1], len(rows), len(metadata))]
    for key, value in metadata.items():
        code, encoded = _encoded(key, value)
        header += [_string(key), struct.pack("<I", code), encoded]
    offset = 0
    for name, dtype, shape, data in rows:
        if dtype not in types.TENSOR_CODES:
            rule, place = "a tensor type that isn't supported", f"tensor {name!r}"
            raise FormatError(rule, place=place, want=types.SUPPORTED_NAMES, got=str(dtype))
        header += [
            _string(name),
            struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)),
            struct.pack("<IQ", types.TENSOR_CODES[dtype], offset),
        ]
        nbytes = dtype.nbytes(math.prod(shape)) if callable(data) else len(data)
        offset += -(-nbytes // alignment) * alignment
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        lengths = []
        with partial.open("wb") as file:
            for part in (b"".join(header), *(data for _, _, _, data in rows)):
                lengths.append(file.write(_view(part() if callable(part) else part)))
                file.write(bytes(-file.tell() % alignment))
            file.flush()
            os.fsync(file.fileno())
        with open_gguf(partial) as written:
            for (name, *_), length in zip(rows, lengths[1:], strict=True):
                nbytes, rule = written.tensor(name).nbytes, "a tensor's bytes don't fill its shape"
                if nbytes != length:
                    place, want, got = f"tensor {name!r}", f"{nbytes} bytes", f"{length} bytes"
                    raise FormatError(rule, place=place, want=want, got=got)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _view(data: Data) -> memoryview:
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


def _string(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise FormatError("text that UTF-8 can't hold", place=ascii(text), got=error.reason) from error
    return struct.pack("<Q", len(raw)) + raw


def _encoded(key: str, value: MetadataValue | np.generic) -> tuple[int, bytes]:
    """The value's type code, and its bytes."""
    if isinstance(value, str):
        return types.STRING, _string(value)
    if isinstance(value, tuple):
        items = [_encoded(key, item) for item in value]
        codes = {code for code, _ in items} or {types.STRING}
        if codes not in ({types.STRING}, {types.ARRAY}):
            rule, got = "a tuple of this kind can't be stored", f"value types {sorted(codes)}"
            want = "strings only, or arrays only; numbers as a NumPy array"
            raise FormatError(rule, place=f"key {key!r}", want=want, got=got)
        return types.ARRAY, struct.pack("<IQ", codes.pop(), len(items)) + b"".join(data for _, data in items)
    numbers = value if isinstance(value, np.ndarray | np.generic) else _scalar(key, value)
    code = types.SCALAR_CODES.get(numbers.dtype.newbyteorder("<"))
    if code is None:
        raise FormatError("a type that GGUF doesn't have", place=f"key {key!r}", got=str(numbers.dtype))
    raw = numbers.astype(types.SCALARS[code]).tobytes()
    if isinstance(numbers, np.ndarray):
        return types.ARRAY, struct.pack("<IQ", code, numbers.size) + raw
    return code, raw


def _scalar(key: str, value: bool | int | float) -> np.generic:
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            single = np.float32(value)
        return np.float64(value) if float(single) != value and value == value else single
    for kind in (np.uint32, np.int32, np.uint64, np.int64):
        if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
            return kind(value)
    raise FormatError("a number that GGUF can't hold", place=f"key {key!r}", want="64 bits", got=str(value))
