"""A model file in the cache, and the record beside it that says what it was when it was last hashed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@dataclass(frozen=True)
class Record:
    """What a file was when its digest was computed: size in bytes, time of change in ns, SHA-256."""

    size: int
    mtime_ns: int
    sha256: str

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """The record beside `path`; None when there is none that can be read."""
        try:
            fields = json.loads(beside(path).read_text("utf-8"))
            return cls(int(fields["size"]), int(fields["mtime_ns"]), str(fields["sha256"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write(self, path: Path) -> None:
        """Put the record beside `path`, whole or not at all."""
        draft = path.with_name(f"{path.name}.json.{os.getpid()}")
        draft.write_text(json.dumps(vars(self)), "utf-8")
        draft.replace(beside(path))


def beside(path: Path) -> Path:
    """Where the record of `path` lies."""
    return path.with_name(path.name + ".json")


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def intact(path: Path, expected: str | None, *, verify: bool) -> bool:
    """Whether `path` is there and is what it should be: `expected`, else what its record says.

    The file is hashed only when it differs from its record in size or time, or when `verify` asks for it.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    record = Record.read(path)
    expected = expected or (record.sha256 if record else None)
    known = record is not None and (record.size, record.mtime_ns) == (status.st_size, status.st_mtime_ns)
    if known and not verify:
        return record is not None and record.sha256 == expected
    found = sha256(path)
    if found != expected:
        return False
    if not known:
        # A cache that can only be read stays usable: its files are hashed on every start instead.
        with contextlib.suppress(OSError):
            Record(status.st_size, status.st_mtime_ns, found).write(path)
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` against other processes, where the system has such locks."""
    with path.open("ab") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
