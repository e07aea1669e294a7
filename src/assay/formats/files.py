"""Files that may be hostile: opened only if they are ordinary ones and inside their folder, and mapped."""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError, ModelNotFoundError
from assay.formats.tensors import TensorInfo, near, quoted


@contextmanager
def opened(path: Path, want: str) -> Iterator[tuple[int, int]]:
    """The descriptor of the ordinary file at `path` and its bytes; closed at the end.

    Raises ModelNotFoundError where nothing is there, FormatError where it can't be read; a FormatError of the
    body gets the path as its outer place. `want` says what should have been there.
    """
    try:
        # A FIFO would block an ordinary open until somebody writes.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "check the path, or give a name from the catalogue"
        raise ModelNotFoundError("no such file", place=str(path), want=want, hint=hint) from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("not a file", want="a regular file", got=_kind(status.st_mode))
        yield fd, status.st_size
    except FormatError as error:
        raise error.at(str(path)) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)


def read_at(fd: int, offset: int, length: int) -> bytes:
    """So many bytes of a file that had them. Raises FormatError where it was cut short since."""
    data = os.pread(fd, length, offset)
    if len(data) < length:
        want, got = f"{length} bytes at byte {offset}", f"{len(data)} bytes"
        raise FormatError("the file was cut short while it was read", want=want, got=got)
    return data


def member(folder: Path, name: str) -> Path:
    """The file of this name in the folder.

    Raises FormatError for a name with a path in it, for a file that isn't there, and for a link out of the
    folder: what a model's files say must not make us read anything else.
    """
    place = f"{folder} › file {quoted(name)}"
    if not name or name in (".", "..") or set(name) & set("/\\\0") or len(name.encode()) > 255:
        raise FormatError("not the name of a file", place=place, want="a plain name, without a path")
    try:
        target = (folder / name).resolve(strict=True)
        home = folder.resolve(strict=True)
    except FileNotFoundError as error:
        hint = "the download isn't complete: fetch it again"
        raise FormatError("a file is missing", place=place, want="a file in the folder", hint=hint) from error
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise FormatError("a file can't be found", place=place, got=str(error)[:200]) from error
    if not target.is_relative_to(home):
        rule, got = "a link that leads out of the folder", str(target)[:200]
        hint = "a cache that keeps files elsewhere can be copied with its links followed: cp -rL"
        raise FormatError(rule, place=place, want="a file in the folder", got=got, hint=hint)
    return folder / name


class MappedFile:
    """A file, mapped. Views outlive `release` and `close`; the mapping goes with the last one."""

    def __init__(self, path: Path, fd: int, size: int) -> None:
        """The `size` bytes behind `fd`, which the caller may close. Raises OSError where that fails, and
        FormatError where the file is shorter by now.
        """
        self.path = path
        self._size = size
        try:
            self._map: mmap.mmap | None = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise FormatError("the file can't be read", want="a readable file", got=str(error)) from error
        self._fd = os.dup(fd)
        self._close_fd = weakref.finalize(self, os.close, self._fd)

    def view(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """uint8[nbytes], read-only: the file must not shrink while it is used."""
        return np.frombuffer(self._mapped(), np.uint8, nbytes, offset)

    def release(self) -> None:
        """Give mapped pages back to the system; a later look at a view reads them again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file. The mapping itself stays for as long as views of it are held."""
        self._close_fd()
        self._map = None

    def _mapped(self) -> mmap.mmap:
        """The mapping, if the file is open and has not shrunk: touching pages past its end would be fatal."""
        if self._map is None:
            raise FormatError("the file is closed", place=str(self.path))
        size = os.fstat(self._fd).st_size
        if size < self._size:
            rule, hint = "the file was cut short after it was opened", "nothing may write to a file in use"
            want, got = f"{self._size} bytes", f"{size} bytes"
            raise FormatError(rule, place=str(self.path), want=want, got=got, hint=hint)
        return self._map


class TensorFiles:
    """Open files as one table of tensors. Views from `raw` outlive `release` and `close`; a mapping goes with
    the last one.
    """

    def __init__(self, path: Path, files: Sequence[tuple[MappedFile, Mapping[str, TensorInfo]]]) -> None:
        """Each file with the tensors in it."""
        self.path = path
        every = {name: info for _, tensors in files for name, info in tensors.items()}
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(every)
        self._files = [file for file, _ in files]
        self._places = {name: file for file, tensors in files for name in tensors}

    def tensor(self, name: str) -> TensorInfo:
        """Where a tensor lies in its file. A missing one is a FormatError."""
        if name not in self.tensors:
            place, hint = f"{self.path} › tensor {quoted(name)}", near(name, self.tensors)
            raise FormatError("a tensor is missing", place=place, hint=hint)
        return self.tensors[name]

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """A tensor's bytes, uint8[nbytes], read-only, mapped: the file must not shrink while it is used."""
        info = self.tensor(name)
        return self._places[name].view(info.offset, info.nbytes)

    def release(self) -> None:
        """Give mapped pages back to the system; a later look at a view reads them again."""
        for file in self._files:
            file.release()

    def close(self) -> None:
        """Close the files. The mappings stay for as long as views of them are held."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _unreadable(path: Path, error: OSError | ValueError) -> FormatError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FormatError(
        "the file can't be read", place=str(path), want="a readable file", got=reason or repr(error)
    )


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
