"""A GGUF file: metadata and tensors, mapped. `open_gguf` trusts nothing that the file says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from assay.errors import FormatError
from assay.formats.files import MappedFile, TensorFiles, opened
from assay.formats.gguf_reader import Header, read_header
from assay.formats.gguf_types import MetadataValue
from assay.formats.tensors import near, quoted

T = TypeVar("T")


def open_gguf(path: Path) -> GgufFile:
    """The file at `path`, its header checked; no tensor data is read.

    Raises ModelNotFoundError where nothing is there, FormatError for all else that isn't a sound GGUF file of
    a supported kind.
    """
    with opened(path, "a GGUF file") as (fd, size):
        header = read_header(fd, size)
        return GgufFile(MappedFile(path, fd, size), header)


class GgufFile(TensorFiles):
    """An open file, with its metadata."""

    def __init__(self, file: MappedFile, header: Header) -> None:
        super().__init__(file.path, [(file, header.tensors)])
        self.version = header.version
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType(header.metadata)

    def digest(self) -> str:
        """SHA-256 of the whole file, in hexadecimal."""
        return self._files[0].digest()

    def expect(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of `key`, of exactly this type; a missing key gives the default, or a FormatError."""
        value = self.metadata.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, kind) and type(value) is kind:
            return value
        raise self._unexpected(key, kind.__name__)

    def _unexpected(self, key: str, want: str) -> FormatError:
        place = f"{self.path} › key {quoted(key)}"
        if key not in self.metadata:
            return FormatError("a key is missing", place=place, want=want, hint=near(key, self.metadata))
        value = self.metadata[key]
        got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        return FormatError("a key has another type", place=place, want=want, got=got)
