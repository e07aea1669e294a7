"""The files that are compared: SmolLM2 in four formats, all derived from the catalogue's Q4_1 file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from assay import hub, settings
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.gguf_types import MetadataValue
from assay.formats.gguf_writer import Row, write_gguf
from assay.formats.quant import dequantise, quantise
from assay.tensor.dtype import F16, Q4_0, Q4_1, Q8_0, DType

RECIPE = 1
"""Changes when a file that was written before must be written again."""
EMBEDDING = "token_embd.weight"


@dataclass(frozen=True)
class Format:
    """What matrices become, what the embedding (the output matrix too) becomes, and ggml's number for it."""

    matrices: DType
    embedding: DType
    file_type: int


FORMATS = {
    "q4_1": Format(Q4_1, Q8_0, 3),
    "q4_0": Format(Q4_0, Q8_0, 2),
    "q8_0": Format(Q8_0, Q8_0, 7),
    "f16": Format(F16, F16, 1),
}


@dataclass(frozen=True)
class Derived:
    """A file in the cache: what it was made of and how, its digest, and its tensors' bytes."""

    source: str
    recipe: int
    sha256: str
    tensor_bytes: int


def prepare(name: str, source: Path | None = None, folder: Path | None = None) -> Path:
    """The model file of this format, written first where the cache lacks it. `q4_1` is the catalogue's own.

    `source` is the Q4_1 file, `folder` where derived ones are kept with their manifest.
    """
    source = source or hub.pull("smollm2")
    if name == "q4_1":
        return source
    folder = folder or settings.CACHE.get() / "models" / "bench"
    path = folder / f"SmolLM2-135M-Instruct.{name.upper()}.gguf"
    manifest = folder / "manifest.json"
    known = json.loads(manifest.read_text("utf-8")) if manifest.exists() else {}
    digest = _digest(source)
    found = known.get(path.name, {})
    if path.exists() and (found.get("source"), found.get("recipe")) == (digest, RECIPE):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    write(source, path, FORMATS[name])
    known[path.name] = asdict(Derived(digest, RECIPE, _digest(path), tensor_bytes(path)))
    draft = manifest.with_suffix(".draft")
    draft.write_text(json.dumps(known, indent=1), "utf-8")
    draft.replace(manifest)
    return path


def write(source: Path, path: Path, form: Format) -> None:
    """Write `source` again with its matrices in another format. Vectors stay as they are."""
    with open_gguf(source) as file:
        metadata: dict[str, MetadataValue | np.generic] = dict(file.metadata)
        metadata["general.file_type"] = np.uint32(form.file_type)
        write_gguf(path, metadata, _rows(file, form))


def _rows(file: GgufFile, form: Format) -> Iterator[Row]:
    for name, info in file.tensors.items():
        dtype = info.dtype
        if len(info.shape) > 1:
            dtype = form.embedding if name == EMBEDDING else form.matrices
        raw = file.raw(name)
        if dtype != info.dtype:
            raw = quantise(dequantise(raw, info.dtype, info.shape), dtype)
        yield name, dtype, info.shape, raw


def tensor_bytes(path: Path) -> int:
    """Bytes of all tensors: what decoding one token reads at least."""
    with open_gguf(path) as file:
        return sum(info.nbytes for info in file.tensors.values())


def matrix_elements(path: Path) -> int:
    """Elements of all matrices, the output's included: multiply-adds of one token outside attention."""
    with open_gguf(path) as file:
        shapes = [info.shape for info in file.tensors.values() if len(info.shape) > 1]
    return sum(rows * columns for rows, columns in shapes)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
