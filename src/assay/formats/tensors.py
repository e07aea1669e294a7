"""A file's table of tensors: where each lies, how its names are printed, and what a model wants of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
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


@dataclass(frozen=True)
class Wanted:
    """A tensor that a model reads: its shape, row-major, and the element types that its operators admit."""

    shape: tuple[int, ...]
    dtypes: tuple[DType, ...]


def hold(found: Mapping[str, TensorInfo], wanted: Mapping[str, Wanted], place: str) -> None:
    """Nothing is missing, nothing is left over, and all shapes and types are as wanted.

    Raises FormatError, which names the first tensor that isn't; `place` says where the tensors are from.
    """
    missing = [name for name in wanted if name not in found]
    surplus = [name for name in found if name not in wanted]
    if missing:
        name = missing[0]
        want, got, hint = _shape(wanted[name].shape), _counted("nothing", missing), near(name, surplus)
        where = f"{place} › tensor {quoted(name)}"
        raise FormatError("a tensor is missing", place=where, want=want, got=got, hint=hint)
    if surplus:
        name = surplus[0]
        rule, where = "a tensor that the model doesn't use", f"{place} › tensor {quoted(name)}"
        want = f"the {len(wanted):,} tensors of the model"
        got = _counted(f"{found[name].dtype}{_shape(found[name].shape)}", surplus)
        hint = "what it was made to change would be left out of the answers"
        raise FormatError(rule, place=where, want=want, got=got, hint=hint)
    for name, each in wanted.items():
        has = found[name]
        if has.shape != each.shape:
            rule, want, got = "a tensor has another shape", _shape(each.shape), _shape(has.shape)
        elif has.dtype not in each.dtypes:
            rule, want, got = "a tensor has another type", " or ".join(map(str, each.dtypes)), str(has.dtype)
        else:
            continue
        raise FormatError(rule, place=f"{place} › tensor {quoted(name)}", want=want, got=got)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _counted(text: str, names: list[str]) -> str:
    return f"{text}; {len(names):,} such tensors" if len(names) > 1 else text
