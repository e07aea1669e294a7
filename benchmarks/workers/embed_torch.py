"""sentence-transformers on PyTorch: `python -m benchmarks.workers.embed_torch`."""

from __future__ import annotations

import time
from importlib import metadata

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.workers.wire import serve


class SentenceTransformers:
    batch = 32

    def about(self) -> dict[str, str]:
        names = ("sentence-transformers", "transformers", "torch")
        return {name: metadata.version(name) for name in names}

    def variants(self, figure: str) -> list[dict[str, object]]:
        return [{"batch": size} for size in (8, 16, 32, 64)]

    def load(self, path: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.model = SentenceTransformer(path, device="cpu")

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        self.batch = int(str(variant["batch"]))

    def embed(self, texts: list[str]) -> float:
        began = time.perf_counter()
        self.found = self.model.encode(texts, batch_size=self.batch, show_progress_bar=False)
        return time.perf_counter() - began

    def save(self, path: str) -> None:
        np.save(path, self.found)


if __name__ == "__main__":
    serve(SentenceTransformers())
