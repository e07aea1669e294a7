"""`assay quantize`: a GGUF file again, or a folder as one, with its matrices rounded to blocks."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli import interrupt, options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import find_model
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.llm.options import QUANTIZE

PLAIN = ("float32", "float16", "bfloat16")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _declare(parser: Parser) -> None:
    kind = options.one_of((*QUANTIZE, *PLAIN))
    parser.add_argument("model", metavar="IN", help=options.MODEL)
    parser.add_argument("out", metavar="OUT", type=Path, help="the GGUF file to write")
    parser.add_argument("type", metavar="TYPE", type=kind, help=", ".join((*QUANTIZE, *PLAIN)))
    parser.add_argument(
        "--otherwise",
        type=kind,
        metavar="TYPE",
        help="for matrices whose rows aren't whole blocks of TYPE (default: they are refused)",
    )
    parser.add_argument("--again", action="store_true", help="round what is quantised too: it loses twice")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    from assay.formats.gguf import open_gguf
    from assay.formats.gguf_types import FILE_TYPES
    from assay.formats.gguf_writer import write_gguf
    from assay.formats.quant import dequantise, quantise
    from assay.formats.recipe import Recipe
    from assay.llm.gguf_folder import open_as_gguf
    from assay.tensor.dtype import BY_NAME

    out, other = arguments.out, arguments.otherwise
    if out.exists() and not arguments.force:
        raise RequestError("a file is there already", place="OUT", got=str(out), hint="--force replaces it")
    recipe = Recipe(BY_NAME[arguments.type], other and BY_NAME[other], arguments.again)
    with Bars() as progress:
        path = find_model(arguments.model, progress)
        with (open_as_gguf if path.is_dir() else open_gguf)(path) as file, interrupt.raises():
            weights = sum(info.nbytes for info in file.tensors.values())
            tensors = file.tensors
            types = {each: recipe.becomes(each, it.dtype, it.shape, tensors) for each, it in tensors.items()}
            left = dict.fromkeys(tensors)

            def data(name: str) -> NDArray[np.uint8]:
                """Made when it is written: there is memory for one tensor, not for all."""
                raw, info = file.raw(name), tensors[name]
                if types[name] is not info.dtype:
                    raw = quantise(dequantise(raw, info.dtype, info.shape), types[name])
                del left[name]
                progress.quantise(len(tensors) - len(left), len(tensors))
                return raw

            keys = {"general.file_type": FILE_TYPES[arguments.type], "general.quantization_version": 2}
            rows = [(name, types[name], tensors[name].shape, partial(data, name)) for name in tensors]
            try:
                write_gguf(out, {**file.metadata, **keys}, rows)
            except OSError as error:
                rule, got = "the file can't be written", error.strerror or str(error)
                raise RequestError(rule, place=f"OUT {out}", got=got) from error
    before = weights if path.is_dir() else path.stat().st_size
    after, counts = out.stat().st_size, Counter(map(str, types.values()))
    if arguments.json:
        print(json.dumps({"file": str(out), "bytes": after, "from": before, "tensors": counts}))
    else:
        text = ", ".join(f"{count} {name}" for name, count in counts.items())
        print(f"{out}: {before / 1e6:,.1f} MB became {after / 1e6:,.1f} MB; tensors: {text}")
    return GOOD


COMMAND = Command(
    "quantize",
    "Round a GGUF file's or a folder's matrices to blocks, into a GGUF file that llama.cpp reads too.",
    (
        "assay quantize model-f16.gguf model-q4_k.gguf q4_k",
        "assay quantize smollm2 smollm2-q4_0.gguf q4_0 --again --json",
        "assay quantize ./folder model-f16.gguf float16",
        "assay quantize model.gguf small.gguf q4_k --otherwise q5_0 --force",
    ),
    _declare,
    _run,
    "Vectors and tables of positions stay as they are. The matrix of logits becomes q6_k, or q8_0 where\n"
    "TYPE is that or its rows aren't whole blocks of q6_k, unless TYPE has no blocks. A folder's context is\n"
    "no longer than a window that its architecture has no key for. OUT appears whole, or not at all.",
)
