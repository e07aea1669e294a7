"""Round a GGUF file's or a folder's matrices to blocks, into a GGUF file that llama.cpp reads too.

Vectors and tables of positions stay as they are. The matrix of logits becomes q6_k, or q8_0 where
TYPE is that or its rows aren't whole blocks of q6_k, unless TYPE has no blocks. A folder's context is
no longer than a window that its architecture has no key for. OUT appears whole, or not at all.

    assay quantize model-f16.gguf model-q4_k.gguf q4_k
    assay quantize smollm2 smollm2-q4_0.gguf q4_0 --again --json
    assay quantize ./folder model-f16.gguf float16
    assay quantize model.gguf small.gguf q4_k --otherwise q5_0 --force
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli import options
from assay.cli.command import Argument, Report, Values
from assay.cli.model import find_weights, writing
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.llm.options import QUANTIZE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TYPES = (*QUANTIZE, "float32", "float16", "bfloat16")
KIND = options.one_of(TYPES)
ARGUMENTS = (
    Argument("model", options.FORMS, "IN"),
    Argument("out", "the GGUF file to write", type=Path),
    Argument("type", ", ".join(TYPES), type=KIND),
    Argument(
        "--otherwise", "where rows aren't whole blocks of TYPE; default: they are refused", "TYPE", KIND
    ),
    Argument("--again", "round what is quantised too: it loses twice"),
    Argument("--force", "replace OUT"),
    options.JSON,
)


def run(arguments: Values) -> Report:
    from assay.formats.gguf import open_gguf
    from assay.formats.gguf_types import FILE_TYPES
    from assay.formats.gguf_writer import write_gguf
    from assay.formats.quant import dequantise, quantise
    from assay.formats.recipe import Recipe
    from assay.llm.gguf_folder import open_as_gguf
    from assay.tensor.dtype import BY_NAME

    out, other = arguments.out, arguments.otherwise
    recipe = Recipe(BY_NAME[arguments.type], other and BY_NAME[other], arguments.again)
    with writing(out, "--force replaces it", arguments.force), Bars() as progress:
        path = find_weights(arguments.model, progress)
        read = [each for each in path.iterdir() if each.suffix != ".gguf"] if path.is_dir() else [path]
        if out.exists() and any(each.exists() and each.samefile(out) for each in read):
            raise RequestError("OUT is what is read", place=f"OUT {out}", hint="give another name")
        with (open_as_gguf if path.is_dir() else open_gguf)(path) as file:
            tensors = file.tensors
            weights = sum(info.nbytes for info in tensors.values())
            before = weights if path.is_dir() else path.stat().st_size
            types = {each: recipe.becomes(each, it.dtype, it.shape, tensors) for each, it in tensors.items()}

            def data(number: int, name: str) -> NDArray[np.uint8]:
                """Made when it is written: there is memory for one tensor, not for all."""
                raw, info = file.raw(name), tensors[name]
                if types[name] is not info.dtype:
                    raw = quantise(dequantise(raw, info.dtype, info.shape), types[name])
                progress.count("quantising", "tensors", number, len(tensors), then="checking the file")
                return raw

            keys = {"general.file_type": FILE_TYPES[arguments.type], "general.quantization_version": 2}
            numbered = enumerate(tensors.items(), start=1)
            rows = [(name, types[name], info.shape, partial(data, at, name)) for at, (name, info) in numbered]
            write_gguf(out, {**file.metadata, **keys}, rows)
    after, counts = out.stat().st_size, Counter(map(str, types.values()))
    found = {"file": str(out), "bytes": after, "from": before, "tensors": counts}
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Report(found, [f"{out}: {before / 1e6:,.1f} MB became {after / 1e6:,.1f} MB; tensors: {text}"])
