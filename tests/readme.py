"""Writes the README's list of models and types out of the code: `python tests/readme.py`."""

from __future__ import annotations

import re
from pathlib import Path

from assay.formats.gguf_types import SUPPORTED
from assay.hub.catalogue import CATALOGUE
from assay.llm.pretokenizers import PRE_TOKENIZERS
from assay.models.architecture import GGUF_NAMES, NAMES
from assay.tensor.dtype import RARE

README = Path(__file__).parents[1] / "README.md"
LIST = re.compile(r"(<!-- by tests/readme.py -->\n).*?(<!-- end -->\n)", re.DOTALL)


def models_and_types() -> str:
    """What can be loaded, as a table."""
    rare = [dtype.name.upper() for dtype in SUPPORTED.values() if dtype in RARE]
    kernels = [dtype.name.upper() for dtype in SUPPORTED.values() if dtype not in RARE]
    names = {"FLOAT32": "F32", "FLOAT16": "F16", "BFLOAT16": "BF16"}
    entries = {True: [], False: []}
    for entry in CATALOGUE.values():
        entries[entry.member.endswith(".onnx")].append(f"`{entry.name}` ({entry.summary})")
    rows = {
        "Language models by name": ", ".join(entries[False]),
        "ONNX graphs by name": ", ".join(entries[True]),
        "Architectures, GGUF": ", ".join(GGUF_NAMES),
        "Architectures, Hugging Face folders": ", ".join(NAMES),
        "Weights with kernels": ", ".join(names.get(name, name) for name in kernels),
        'Weights that run as float32 (`pip install "assay[gguf]"`)': ", ".join(rare),
        "Tokenizers": f"byte-level BPE with {len(PRE_TOKENIZERS)} named pre-tokenizers, "
        "SentencePiece BPE and unigram, WordPiece",
    }
    return "".join(["| | |\n|---|---|\n", *(f"| {name} | {what} |\n" for name, what in rows.items())])


def updated(text: str) -> str:
    """The README with the list that the code gives."""
    return LIST.sub(lambda found: f"{found[1]}{models_and_types()}{found[2]}", text)


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
