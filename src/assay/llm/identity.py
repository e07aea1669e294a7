"""Which model it is and how it runs: what rows of the cache depend on beside the tokens before them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path

from assay.errors import FormatError
from assay.formats.files import opened

NUMERICS = 1
"""The version of the rules that fix every bit."""


class Identity:
    """`how` are names and values that bits depend on; the model's files are those at `path`, as they were
    when this was made.
    """

    def __init__(self, path: Path, how: Mapping[str, object]) -> None:
        self.how = {"numerics": str(NUMERICS), **{name: str(value) for name, value in how.items()}}
        files = [path / "config.json", *sorted(path.glob("*.safetensors"))] if path.is_dir() else [path]
        self._stamps = {file: _stamp(file) for file in files}

    @property
    def root(self) -> bytes:
        """SHA-256 of `how`: what keys of this process's pages begin with, where there is one model."""
        return sha256(repr(sorted(self.how.items())).encode()).digest()

    def digest(self) -> str:
        """SHA-256 of the model's files, in hexadecimal. Raises FormatError if they were changed."""
        digest = sha256()
        for path, stamp in self._stamps.items():
            with opened(path, "the model's file") as (fd, _):
                if _stamp(path) != stamp:
                    hint = "load the model again"
                    raise FormatError("a file was changed since it was loaded", place=str(path), hint=hint)
                with os.fdopen(os.dup(fd), "rb") as file:
                    digest.update(file_digest(file, "sha256").digest())
        return digest.hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
