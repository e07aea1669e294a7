"""A GGUF file: metadata and tensors, mapped. `open_gguf` trusts nothing that the file says about itself."""

from __future__ import annotations

import difflib
import hashlib
import mmap
import os
import stat
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError, ModelNotFoundError
from assay.formats.gguf_reader import Header, TensorInfo, quoted, read_header
from assay.formats.gguf_types import MetadataValue

T = TypeVar("T")

_CHUNK = 1 << 20


def open_gguf(path: Path) -> GgufFile:
    """The file at `path`, its header checked; no tensor data is read.

    Raises ModelNotFoundError where nothing is there, FormatError for all else that isn't a sound GGUF file of
    a supported kind.
    """
    try:
        # A FIFO would block an ordinary open until somebody writes.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelNotFoundError(
            "no such file",
            place=str(path),
            want="a GGUF file",
            hint="check the path, or give a name from the catalogue",
        ) from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not a file", want="a regular file", got=_kind(status.st_mode), place=str(path))
        try:
            header = read_header(fd, status.st_size)
        except FormatError as error:
            raise error.at(str(path)) from None
        return GgufFile(path, fd, mmap.mmap(fd, status.st_size, access=mmap.ACCESS_READ), header)
    except (OSError, ValueError) as error:
        os.close(fd)
        raise _unreadable(path, error) from error
    except BaseException:
        os.close(fd)
        raise


def _unreadable(path: Path, error: OSError | ValueError) -> FormatError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FormatError(
        "the file can't be read", place=str(path), want="a readable file", got=reason or repr(error)
    )


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


class GgufFile:
    """An open file. Views from `raw` outlive `release` and `close`; the mapping goes with the last one."""

    def __init__(self, path: Path, fd: int, mapping: mmap.mmap, header: Header) -> None:
        self.path = path
        self.version = header.version
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType(header.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)
        self._size = len(mapping)
        self._fd = fd
        self._map: mmap.mmap | None = mapping
        self._close_fd = weakref.finalize(self, os.close, fd)

    def expect(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of `key`, of exactly this type; a missing key gives the default, or a FormatError."""
        value = self.metadata.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, kind) and type(value) is kind:
            return value
        raise self._unexpected(key, kind.__name__)

    def expect_strings(self, key: str) -> tuple[str, ...]:
        """The value of `key`, an array of strings."""
        value = self.metadata.get(key)
        if not isinstance(value, tuple) or not all(type(item) is str for item in value):
            raise self._unexpected(key, "an array of strings")
        return value  # type: ignore[return-value]  # mypy doesn't narrow a tuple's items through all()

    def expect_numbers(self, key: str, kind: str) -> npt.NDArray[np.generic]:
        """The value of `key`, an array of numbers whose NumPy kind is a letter of `kind` ("iu", "f", "b")."""
        value = self.metadata.get(key)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kind:
            raise self._unexpected(key, f"an array of numbers of kind {' or '.join(kind)}")
        return value

    def require_architecture(self, supported: Sequence[str]) -> str:
        """The file's architecture, which must be one of those supported."""
        name = self.expect("general.architecture", str)
        if name not in supported:
            raise FormatError(
                "an architecture that isn't supported",
                place=f"{self.path} › key 'general.architecture'",
                want=" or ".join(supported),
                got=quoted(name),
            )
        return name

    def tensor(self, name: str) -> TensorInfo:
        """Where a tensor lies. A missing one is a FormatError."""
        info = self.tensors.get(name)
        if info is None:
            raise FormatError(
                "a tensor is missing",
                place=f"{self.path} › tensor {quoted(name)}",
                hint=near(name, self.tensors),
            )
        return info

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """A tensor's bytes, uint8[nbytes], read-only, mapped: the file must not shrink while it is used."""
        info = self.tensor(name)
        return np.frombuffer(self._mapped(), np.uint8, info.nbytes, info.offset)

    def digest(self) -> str:
        """SHA-256 of the whole file, in hexadecimal, read beside the mapping so that no page stays mapped."""
        sha = hashlib.sha256()
        done = 0
        while done < self._size:
            self._mapped()
            try:
                chunk = os.pread(self._fd, min(_CHUNK, self._size - done), done)
            except OSError as error:
                raise _unreadable(self.path, error) from error
            sha.update(chunk)
            done += len(chunk)
        return sha.hexdigest()

    def release(self) -> None:
        """Give mapped pages back to the system; a later look at a view reads them again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file. The mapping itself stays for as long as views of it are held."""
        self._close_fd()
        self._map = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _mapped(self) -> mmap.mmap:
        """The mapping, if the file is open and has not shrunk: touching pages past its end would be fatal."""
        if self._map is None:
            raise FormatError("the file is closed", place=str(self.path))
        size = os.fstat(self._fd).st_size
        if size < self._size:
            raise FormatError(
                "the file was cut short after it was opened",
                place=str(self.path),
                want=f"{self._size} bytes",
                got=f"{size} bytes",
                hint="nothing may write to a model file in use",
            )
        return self._map

    def _unexpected(self, key: str, want: str) -> FormatError:
        place = f"{self.path} › key {quoted(key)}"
        if key not in self.metadata:
            return FormatError("a key is missing", place=place, want=want, hint=near(key, self.metadata))
        value = self.metadata[key]
        got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        return FormatError("a key has another type", place=place, want=want, got=got)


def near(name: str, known: Iterable[str]) -> str:
    """Which known name may have been meant. A hostile file has many long ones: only some are compared."""
    short = [other for other, _ in zip(known, range(2000), strict=False) if len(other) <= 100]
    close = difflib.get_close_matches(name, short, n=1)
    return f"near it: {quoted(close[0])}" if close else ""
