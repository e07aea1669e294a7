"""A file's table of tensors: where each lies, and how its names are printed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.tensor.dtype import DType


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies: `shape` is row-major, `offset` counts bytes from the start of its file."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class TensorFile(Protocol):
    """What holds tensors: a GGUF file, or a folder of safetensors."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...

    def raw(self, name: str) -> NDArray[np.uint8]: ...


class GgufContents(TensorFile, Protocol):
    """What a GGUF file has in it, or is to have."""

    @property
    def path(self) -> Path: ...

    @property
    def metadata(self) -> Mapping[str, object]: ...


def quoted(text: str) -> str:
    """A name from the file as it may be printed: escaped, and short."""
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")


def near(name: str, known: Iterable[str]) -> str:
    """Which known name may have been meant. A hostile file has many long ones: only some are compared."""
    short = [other for other, _ in zip(known, range(2000), strict=False) if len(other) <= 100]
    close = difflib.get_close_matches(name, short, n=1)
    return f"near it: {quoted(close[0])}" if close else ""
