"""Files that may be hostile: opened only if they are ordinary ones and inside their folder."""

from __future__ import annotations

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

from assay.errors import FormatError, HardwareFault, ModelNotFoundError
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


def read_at(fd: int, offset: int, length: int) -> npt.NDArray[np.uint8]:
    """So many bytes of a file that had them, read-only. Raises FormatError where it was cut short since.

    They are read and not mapped: what another program cuts off would end this one.
    """
    try:
        data, done = np.empty(length, np.uint8), 0
    except MemoryError:
        want, hint = f"{length} bytes in one piece", "free memory, or use a machine with more"
        raise HardwareFault("the memory is too small for the file", want=want, hint=hint) from None
    while done < length:
        count = os.preadv(fd, [data.data[done:]], offset + done)
        if not count:
            want, got = f"{length} bytes at byte {offset}", f"{done} bytes"
            raise FormatError("the file was cut short while it was read", want=want, got=got)
        done += count
    data.flags.writeable = False
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
    except (FileNotFoundError, NotADirectoryError) as error:
        whole = "give its folder" if folder.exists() else "there is no such folder: check the path"
        hint = "the download isn't complete: fetch it again" if folder.is_dir() else whole
        raise FormatError("a file is missing", place=place, want="a file in the folder", hint=hint) from error
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise FormatError("a file can't be found", place=place, got=str(error)[:200]) from error
    if not target.is_relative_to(home):
        rule, got = "a link that leads out of the folder", str(target)[:200]
        hint = "a cache that keeps files elsewhere can be copied with its links followed: cp -rL"
        raise FormatError(rule, place=place, want="a file in the folder", got=got, hint=hint)
    return folder / name


class TensorFiles:
    """Open files as one table of tensors. `close` may be called again."""

    def __init__(self, path: Path, files: Sequence[tuple[Path, int, Mapping[str, TensorInfo]]]) -> None:
        """Each file's path, its descriptor, which is closed with this, and the tensors in it."""
        self.path = path
        every = {name: info for _, _, tensors in files for name, info in tensors.items()}
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(every)
        self._places = {name: (place, fd) for place, fd, tensors in files for name in tensors}
        self.close = weakref.finalize(self, _close, [fd for _, fd, _ in files])

    def tensor(self, name: str) -> TensorInfo:
        """Where a tensor lies in its file. A missing one is a FormatError."""
        if name not in self.tensors:
            place, hint = f"{self.path} › tensor {quoted(name)}", near(name, self.tensors)
            raise FormatError("a tensor is missing", place=place, hint=hint)
        return self.tensors[name]

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """A tensor's bytes, uint8[nbytes], read-only. Raises FormatError for a file that is closed, or was
        cut short since it was opened.
        """
        info = self.tensor(name)
        path, fd = self._places[name]
        if not self.close.alive:
            raise FormatError("the file is closed", place=str(self.path))
        try:
            return read_at(fd, info.offset, info.nbytes)
        except FormatError as error:
            raise error.at(str(path)) from None
        except OSError as error:
            raise _unreadable(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _close(files: list[int]) -> None:
    for fd in files:
        os.close(fd)


def _unreadable(path: Path, error: OSError | ValueError) -> FormatError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FormatError(
        "the file can't be read", place=str(path), want="a readable file", got=reason or repr(error)
    )


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
