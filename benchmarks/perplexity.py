"""Perplexity of the same text in the same windows, by Assay and by llama.cpp:
`python -m benchmarks.perplexity TEXT FILE… --peers PYTHON`. Returns 1 where they differ by more than 1 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.audit.evaluation import evaluate, windows
from assay.formats.gguf import open_gguf
from assay.llm.tokenizer import Tokenizer
from benchmarks.correctness import configure
from benchmarks.engines import Process

BOUND = 0.01


class Logits:
    """An engine's logits, through a file."""

    def __init__(self, engine: Process, folder: str) -> None:
        self._engine, self._path = engine, f"{folder}/{engine.name}.npy"

    def __call__(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        self._engine.call("logits", tokens=tokens, path=self._path)
        found: NDArray[np.float32] = np.load(self._path)
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a file of UTF-8 text")
    parser.add_argument("files", nargs="+", help="GGUF files")
    parser.add_argument("--peers", required=True, help="an interpreter that has llama_cpp")
    parser.add_argument("--context", type=int, default=512, help="tokens of a window")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args(arguments)
    good = True
    for file in asked.files:
        with open_gguf(Path(file)) as opened:
            tokenizer = Tokenizer.from_gguf(opened.metadata)
        tokens = tokenizer.encode(asked.text.read_bytes().decode(), bos=tokenizer.adds_bos)
        cut = windows(tokens, asked.context, tokenizer.bos_id if tokenizer.adds_bos else None)
        with (
            tempfile.TemporaryDirectory() as folder,
            Process("assay") as ours,
            Process("llamacpp", asked.peers) as theirs,
        ):
            for engine in (ours, theirs):
                engine.call("load", path=str(Path(file).resolve()), threads=asked.threads)
                configure(engine)
            found = evaluate([Logits(ours, folder), Logits(theirs, folder)], cut, lambda done, total: None)
        mine, other = found.perplexity
        print(
            f"{Path(file).name}: {len(cut)} windows of {asked.context}, {len(found.position)} tokens; assay "
            f"{mine:.4f}, llama.cpp {other:.4f} ({mine / other - 1:+.3%}); divergence mean "
            f"{found.divergence.mean():.6f}, same likeliest token {found.agreement:.2%}"
        )
        good = good and abs(mine / other - 1) <= BOUND
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
