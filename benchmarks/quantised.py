"""What each block type costs in accuracy, and whether llama.cpp computes the same from the same file.

    python -m benchmarks.quantised --llamacpp PYTHON [TYPE …]

PYTHON is an interpreter that has llama-cpp-python. Each type's file is made of SmolLM2 by `assay quantize`;
rows that aren't whole blocks of 256 become q8_0. Perplexity is that of a text, but for its first token.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import assay
from assay.audit.evaluation import kullback_leibler, log_softmax
from assay.llm.options import QUANTIZE
from benchmarks.engines import Process
from benchmarks.text import TEXT


def perplexity(logits: NDArray[np.float32], tokens: list[int]) -> float:
    chosen = log_softmax(logits[:-1])[np.arange(len(tokens) - 1), tokens[1:]]
    return float(np.exp(-chosen.mean()))


def by_llamacpp(python: str, file: Path, tokens: list[int], to: Path) -> NDArray[np.float32]:
    with Process("llamacpp", python) as engine:
        engine.call("load", path=str(file), threads=2)
        engine.call("configure", figure="prefill", variant={"flash": "disabled", "ubatch": 512})
        engine.call("logits", tokens=tokens, path=str(to))
    found: NDArray[np.float32] = np.load(to)
    return found


def row(name: str, python: str, folder: Path) -> str:
    """One type's figures."""
    file = folder / "model.gguf"
    command = [sys.executable, "-m", "assay", "quantize", "smollm2", str(file), name, "--again", "--force"]
    subprocess.run([*command, "--otherwise", "q8_0"], check=True, stdout=subprocess.DEVNULL)
    found = {}
    for mode in ("float32", "int8"):
        with assay.load(file, activations=mode) as lm:
            assert isinstance(lm, assay.LanguageModel)
            tokens = lm.tokenizer.encode(TEXT)
            found[mode] = lm.logits(tokens)
    theirs = by_llamacpp(python, file, tokens, folder / "logits.npy")
    values = [perplexity(logits, tokens) for logits in (*found.values(), theirs)]
    divergences = [
        kullback_leibler(log_softmax(logits), log_softmax(theirs)).mean() for logits in found.values()
    ]
    size = file.stat().st_size / 1e6
    return (
        f"{name:7} {size:6.1f} MB  perplexity float32 {values[0]:.4f} int8 {values[1]:.4f} "
        f"llama.cpp {values[2]:.4f} ({values[0] / values[2] - 1:+.3%}, {values[1] / values[2] - 1:+.3%})  "
        f"KL to llama.cpp {divergences[0]:.2e} {divergences[1]:.2e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", default=QUANTIZE)
    parser.add_argument("--llamacpp", default=sys.executable)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.types:
            print(row(name, arguments.llamacpp, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
