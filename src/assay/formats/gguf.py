"""A GGUF file: metadata and tensors. `open_gguf` trusts nothing that the file says about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from assay.formats.fields import Keys
from assay.formats.files import TensorFiles, opened
from assay.formats.gguf_reader import Header, read_header
from assay.formats.gguf_types import MetadataValue


def open_gguf(path: Path) -> GgufFile:
    """The file at `path`, its header checked; no tensor data is read.

    Raises ModelNotFoundError where nothing is there, FormatError for all else that isn't a sound GGUF file of
    a supported kind.
    """
    with opened(path, "a GGUF file") as (fd, size):
        header = read_header(fd, size)
        return GgufFile(path, os.dup(fd), header)


class GgufFile(TensorFiles):
    """An open file, with its metadata."""

    def __init__(self, path: Path, fd: int, header: Header) -> None:
        super().__init__(path, [(path, fd, header.tensors)])
        self.version = header.version
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType(header.metadata)
        self.keys = Keys(self.metadata, str(path))
