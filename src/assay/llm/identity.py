"""Which model it is and how it runs: what rows of the cache depend on beside the tokens before them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path

from assay.errors import FormatError
from assay.formats.files import opened
from assay.formats.safetensors import INDEX, is_folder

NUMERICS = 1
"""The version of the rules that fix every bit."""
Stamps = dict[Path, tuple[int, ...]]
"""A model's files, and what changes when they are replaced or written to."""


class Identity:
    """`how` are names and values that bits depend on; the model's files are those at `path`, as `stamps` say
    that they were while they were read.
    """

    def __init__(self, path: Path, how: Mapping[str, object], stamps: Stamps) -> None:
        self.how = {"numerics": str(NUMERICS), **{name: str(value) for name, value in how.items()}}
        self._path, self._stamps = path, stamps

    @property
    def root(self) -> bytes:
        """SHA-256 of `how`: what keys of this process's pages begin with, where there is one model."""
        return sha256(repr(sorted(self.how.items())).encode()).digest()

    def digest(self) -> str:
        """SHA-256 of the model's files, in hexadecimal. Raises FormatError if they were changed."""
        digest, rule = sha256(), "a file was changed since it was loaded"
        _compare(self._path, self._stamps, rule)
        for path in self._stamps:
            with opened(path, "the model's file") as (fd, _), os.fdopen(os.dup(fd), "rb") as file:
                digest.update(file_digest(file, "sha256").digest())
        _compare(self._path, self._stamps, rule)
        return digest.hexdigest()


@contextmanager
def unchanged(path: Path) -> Iterator[Stamps]:
    """`with unchanged(path) as stamps:` the body opens and reads the model's files. Raises FormatError if
    they are others at its end.
    """
    stamps = _stamps(path)
    yield stamps
    _compare(path, stamps, "a file was changed while it was loaded")


def _compare(path: Path, stamps: Stamps, rule: str) -> None:
    now = _stamps(path)
    for file in {**stamps, **now}:
        if stamps.get(file) != now.get(file):
            raise FormatError(rule, place=str(file), hint="load the model again")


def _stamps(path: Path) -> Stamps:
    """Of the files that are there: to open another will say that it isn't."""
    files, found = [path], Stamps()
    if is_folder(path):
        files = [path / "config.json", path / INDEX, *sorted(path.glob("*.safetensors"))]
    for file in files:
        with suppress(OSError):
            status = file.stat()
            found[file] = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return found
