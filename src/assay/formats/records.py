"""Where records of a fixed size lie in a file that is to be mapped. Trusts all but the data themselves.

Sources: NumPy's description of .npy (numpy.lib.format); PKWARE's APPNOTE, 4.3.7, on what stands before a
member of an archive, which an .npz file is.
"""

from __future__ import annotations

import io
import math
import mmap
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError, RequestError, within
from assay.formats.files import opened, read_at
from assay.formats.safetensors_header import Room, read_header
from assay.formats.tensors import near, quoted

_RANK_LIMIT = 32
_READ_LIMIT = 1 << 20
"""Bytes of a header, or of an archive's table: of 15,000 arrays."""
_NAMED = (".npz", ".safetensors")
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError),
    # Of a header that describes nothing: NumPy parses it as Python's constants.
    *(SyntaxError, TypeError, LookupError, OverflowError, MemoryError, tokenize.TokenError),
)


class Array(NamedTuple):
    """An array of records, row-major: from byte `offset` of its file on there are `nbytes` for it."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class _Reader(io.BufferedReader):
    """Reads no more at once than a header may be: NumPy and zipfile take what a file says of its lengths."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _READ_LIMIT:
            raise ValueError(f"{size} bytes to describe what is in it")
        return super().read(size)


def map_records(
    path: Path, name: str | None, dtype: npt.DTypeLike | None, shape: tuple[int, ...]
) -> tuple[mmap.mmap, Array]:
    """The file, mapped as far as its records go, and where they lie; the arguments are `DataLoader`'s.

    Raises RequestError for arguments that don't go with the file, ModelNotFoundError where none is there,
    FormatError where it isn't sound.
    """
    raw = path.suffix not in (".npy", *_NAMED)
    for field, given, wanted in (
        ("name", name is not None, path.suffix in _NAMED),
        ("dtype", dtype is not None, raw),
        ("shape", shape != (), raw and shape != ()),
    ):
        if given != wanted:
            rule = "a field is missing" if wanted else "a field that this file leaves no use for"
            raise RequestError(rule, place=field, got=f"a {path.suffix or 'raw'} file")
    with opened(path, "a file of records") as (fd, size):
        file = _Reader(io.FileIO(fd, closefd=False))
        if raw:
            found = _raw(dtype, shape, size)
        elif name is None:
            found = _npy(file, 0, size)
        else:
            with within(f"array {quoted(name)}"):
                found = _member(file, name) if path.suffix == ".npz" else _tensor(fd, size, name)
        _check(found, size)
        return mmap.mmap(fd, found.offset + found.nbytes, access=mmap.ACCESS_READ), found


def _raw(dtype: npt.DTypeLike | None, shape: tuple[int, ...], size: int) -> Array:
    try:
        elements = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise RequestError("not an element type", place="dtype", got=str(error)) from None
    record = elements.itemsize * math.prod(shape)
    return Array(elements, (size // max(record, 1), *shape), 0, size)


def _npy(file: io.BufferedReader, start: int, nbytes: int) -> Array:
    """The array of an .npy file, which begins at byte `start` and has so many bytes."""
    file.seek(start)
    try:
        shape, columns, dtype = _NPY_HEADERS[np.lib.format.read_magic(file)](file)
    except _DAMAGED as error:
        want, got = "version 1.0 or 2.0", ascii(str(error))[:200]
        raise FormatError("not an .npy file, or a damaged one", want=want, got=got) from None
    if columns and len(shape) > 1:
        hint = "numpy.ascontiguousarray makes it row-major"
        raise FormatError("an array in column-major order", want="records one after the other", hint=hint)
    return Array(dtype, shape, file.tell(), start + nbytes - file.tell())


def _member(file: io.BufferedReader, name: str) -> Array:
    """An array of an archive that is stored as it is: what is compressed can't be mapped."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            info = members[_known(name, members)]
            archive.open(info).close()  # holds what stands before the member against the table at the end
    except _DAMAGED as error:
        raise FormatError("not an archive, or a damaged one", got=ascii(str(error))[:200]) from None
    if info.compress_type != zipfile.ZIP_STORED:
        hint = "numpy.savez writes it so, numpy.savez_compressed doesn't"
        raise FormatError("a compressed array can't be mapped", want="a member stored as it is", hint=hint)
    if info.compress_size != info.file_size:
        want, got = f"{info.file_size} bytes", f"{info.compress_size} bytes"
        raise FormatError("a member of two sizes", want=want, got=got)
    # Before a member stand 30 bytes, of which the last four are the lengths of the two fields that follow.
    lengths = read_at(file.fileno(), info.header_offset, 30)[26:].view("<u2")
    return _npy(file, info.header_offset + 30 + int(lengths.sum(dtype=np.int64)), info.file_size)


def _tensor(fd: int, size: int, name: str) -> Array:
    tensors, _ = read_header(fd, size, Room())
    info = tensors[_known(name, tensors)]
    if info.dtype.name.startswith(("float8", "float6", "float4")):
        raise FormatError("elements that NumPy has no type for", got=str(info.dtype))
    return Array(info.dtype.numpy, info.shape, info.offset, info.nbytes)


def _known(name: str, names: Collection[str]) -> str:
    if name not in names:
        there = f"there is {', '.join(quoted(each) for each in sorted(names)[:20])}"
        raise FormatError("no such array", hint=near(name, names) or there)
    return name


def _check(found: Array, size: int) -> None:
    """There is a record of at least one byte, and the records fill their place to the last byte."""
    dtype, shape = found.dtype, found.shape
    if dtype.hasobject or dtype.subdtype or dtype.itemsize < 1:
        raise FormatError(
            "elements that can't be mapped", want="numbers, or structures of them", got=str(dtype)
        )
    if not 1 <= len(shape) <= _RANK_LIMIT or min(shape) < 1:
        want = f"1 to {_RANK_LIMIT} dimensions, none of them 0"
        raise FormatError("an array without records", want=want, got=str(list(shape))[:200])
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != found.nbytes or found.offset + wanted > size:
        rule = "bytes that belong to no record" if wanted < found.nbytes else "the file is cut short"
        want, got = f"{wanted} bytes: {dtype}{list(shape)}", f"{found.nbytes} of a file of {size}"
        raise FormatError(rule, want=want, got=got)
