"""Write a model again with a LoRA adapter in its weights.

Sums are rounded to the type that each tensor has in MODEL: what is quantised is rounded again.
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
from assay.cli.model import find_model, writing
from assay.cli.progress import Bars
from assay.errors import RequestError

ARGUMENTS = (
    options.MODEL,
    Argument("adapter", "a folder with a LoRA in PEFT's layout", type=Path),
    Argument("out", "what to write: a file or folder, as MODEL is", type=Path),
    options.JSON,
)


def run(arguments: Values) -> Report:
    from assay.formats.gguf import GgufFile
    from assay.formats.gguf_writer import write_gguf
    from assay.formats.safetensors import SINGLE
    from assay.formats.safetensors_writer import write_safetensors
    from assay.llm.source import open_source
    from assay.models.adapters import merged, read_adapter

    out: Path = arguments.out
    if out.exists():
        raise RequestError("a file is there already", place="OUT", got=str(out), hint="remove it first")
    with Bars() as progress:
        path = find_model(arguments.model, progress)
    with open_source(path) as source, writing(out):
        adapter, file = read_adapter(arguments.adapter, source.model, source.modules), source.weights.file
        raw = partial(merged, adapter, file, source.weights.parts)
        if isinstance(file, GgufFile):
            rows = [(name, info.dtype, info.shape, partial(raw, name)) for name, info in file.tensors.items()]
            write_gguf(out, file.metadata, rows)
        else:
            with tempfile.TemporaryDirectory(dir=out.parent) as beside:
                others = shutil.ignore_patterns("*.safetensors*", ".*")
                made = Path(shutil.copytree(path, Path(beside) / "made", ignore=others))
                write_safetensors(made / SINGLE, file.tensors, raw)
                made.rename(out)
    changed = len(adapter.maps)
    return Report({"file": str(out), "changed": changed}, [f"{out}: {changed} maps changed"])
