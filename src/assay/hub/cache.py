"""A model file in the cache, and the record beside it that says what it was when it was last hashed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts(path: Path, digest: object) -> dict[str, object]:
    """What is recorded of a file as it is now, with this digest: size in bytes, time of change in ns."""
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest}


def recorded(path: Path) -> dict[str, object]:
    """The record beside `path`; empty where there is none that can be read."""
    try:
        found = json.loads(path.with_name(path.name + ".json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def record(path: Path, digest: str) -> None:
    """Put the record beside `path`, whole or not at all."""
    draft = path.with_name(f"{path.name}.json.{os.getpid()}")
    draft.write_text(json.dumps(_facts(path, digest)), "utf-8")
    draft.replace(path.with_name(path.name + ".json"))


def intact(path: Path, expected: str | None, *, verify: bool) -> bool:
    """Whether `path` is there and is what it should be: `expected`, else what its record says.

    The file is hashed only when it differs from its record in size or time, or when `verify` asks for it.
    """
    known = recorded(path)
    wanted = expected or known.get("sha256")
    try:
        if known == _facts(path, wanted) and not verify:
            return True
        found = sha256(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if found == wanted:
        # A cache that can only be read stays usable: its files are hashed on every start instead.
        with contextlib.suppress(OSError):
            record(path, found)
    return found == wanted


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` against other processes."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
