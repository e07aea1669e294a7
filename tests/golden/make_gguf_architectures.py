"""Makes tests/golden/gguf/llama_cpp.npz: llama.cpp's logits for the GGUF files of tests/llm/converted.py.

    pip install llama-cpp-python==0.3.36 gguf==0.19.0
    PYTHONPATH=tests python tests/golden/make_gguf_architectures.py

As exact as llama.cpp gets: float32 weights and cache, no flash attention, one thread.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from llama_cpp import Llama

from llm.converted import LENGTH, MODELS, POSITIONS, write


def logits(name: str, path: Path) -> np.ndarray:
    tokens = write(path, name)[:LENGTH]
    model = Llama(
        str(path), n_ctx=256, n_batch=256, n_ubatch=256, n_threads=1, n_threads_batch=1, n_gpu_layers=0,
        type_k=0, type_v=0, flash_attn=False, logits_all=True, verbose=False,
    )  # fmt: skip
    model.eval(tokens)
    return np.array(model.scores[list(POSITIONS)], np.float32)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {name: logits(name, Path(folder) / f"{name}.gguf") for name in MODELS}
    np.savez(Path(__file__).parent / "gguf" / "llama_cpp.npz", **found)


if __name__ == "__main__":
    main()
