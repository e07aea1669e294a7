"""`assay merge`: a model again, with an adapter in its weights."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path

from assay.cli import interrupt, options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import find_model
from assay.cli.progress import Bars
from assay.errors import RequestError


def _declare(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=options.MODEL)
    parser.add_argument("adapter", metavar="ADAPTER", type=Path, help="a folder with a LoRA in PEFT's layout")
    parser.add_argument("out", metavar="OUT", type=Path, help="what to write: a file or folder, as MODEL is")


def _run(arguments: argparse.Namespace) -> int:
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
    with open_source(path) as source, interrupt.raises():
        adapter, file = read_adapter(arguments.adapter, source.model, source.modules), source.weights.file
        raw = partial(merged, adapter, file, source.weights.parts)
        try:
            if isinstance(file, GgufFile):
                rows = [(name, info.dtype, info.shape, raw(name)) for name, info in file.tensors.items()]
                write_gguf(out, file.metadata, rows)
            else:
                with tempfile.TemporaryDirectory(dir=out.parent) as beside:
                    others = shutil.ignore_patterns("*.safetensors*", ".*")
                    made = Path(shutil.copytree(path, Path(beside) / "made", ignore=others))
                    write_safetensors(made / SINGLE, file.tensors, raw)
                    made.rename(out)
        except OSError as error:
            raise RequestError("it can't be written", place="OUT", got=str(error)) from error
    print(f"{out}: {len(adapter.maps)} maps changed")
    return GOOD


COMMAND = Command(
    "merge",
    "Write a model again with a LoRA adapter in its weights.",
    ("assay merge ./model ./adapter ./merged", "assay merge model.gguf ./adapter merged.gguf"),
    _declare,
    _run,
    "Sums are rounded to the type that each tensor has in MODEL: what is quantised is rounded again.\n"
    "OUT appears whole, or not at all.",
)
