"""Write a model again with a LoRA adapter in its weights.

Sums are rounded to the type that each tensor has in MODEL: what is quantised is rounded again. Of a
folder the other files go with it, but no folders in it and no weights of other kinds; a link out of it
is refused.
OUT appears whole, or not at all.

    assay merge ./model ./adapter ./merged
    assay merge model.gguf ./adapter merged.gguf
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from assay.cli import options
from assay.cli.command import Argument, Report, Values
from assay.cli.model import find_weights, writing
from assay.cli.progress import Bars
from assay.errors import RequestError

ARGUMENTS = (
    options.MODEL,
    Argument("adapter", "a folder with a LoRA in PEFT's layout", type=Path),
    Argument("out", "what to write: a file or folder, as MODEL is", type=Path),
    options.JSON,
)
WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack"}


def run(arguments: Values) -> Report:
    out: Path = arguments.out
    with writing(out, "remove it first"), Bars() as progress:
        path = find_weights(arguments.model, progress)
        if out.resolve().is_relative_to(path.resolve()):
            raise RequestError("OUT is in the model's folder", place=f"OUT {out}", hint="write it elsewhere")
        changed = _merge(path, arguments.adapter, out)
    return Report({"file": str(out), "changed": changed}, [f"{out}: {changed} maps changed"])


def _merge(path: Path, folder: Path, out: Path) -> int:
    """Write the model with the adapter of this folder; the number of maps that it changes."""
    from assay.formats.files import member
    from assay.formats.gguf import GgufFile
    from assay.formats.gguf_writer import write_gguf
    from assay.formats.safetensors import SINGLE
    from assay.formats.safetensors_writer import write_safetensors
    from assay.llm.source import open_source
    from assay.models.adapters import merged, read_adapter

    with open_source(path) as source:
        if source.model.embeds:
            raise RequestError("an embedder takes no adapter", place=str(path), want="a model of text")
        adapter, file = read_adapter(folder, source.model, source.modules), source.weights.file
        raw = partial(merged, adapter, file, source.weights.parts)
        if isinstance(file, GgufFile):
            rows = [(name, info.dtype, info.shape, partial(raw, name)) for name, info in file.tensors.items()]
            write_gguf(out, file.metadata, rows)
        else:
            with tempfile.TemporaryDirectory(dir=out.parent) as beside:
                made = Path(beside) / "made"
                made.mkdir()
                for each in path.iterdir():
                    if each.is_file() and not each.name.startswith(".") and not WEIGHTS & {*each.suffixes}:
                        shutil.copy(member(path, each.name), made)
                write_safetensors(made / SINGLE, file.tensors, raw)
                made.rename(out)
    return len(adapter.maps)
