"""Assay's embeddings: `python -m benchmarks.workers.embed_assay`."""

from __future__ import annotations

import time

import numpy as np

import assay
from benchmarks.workers.wire import serve


class Assay:
    def about(self) -> dict[str, str]:
        from assay.kernels import target

        chosen = target.current()
        return {"assay": assay.__version__, "target": f"{chosen.level}: {chosen.cpu}"}

    def variants(self, figure: str) -> list[dict[str, object]]:
        return [{}]

    def load(self, path: str, threads: int) -> None:
        model = assay.load(path, threads=threads)
        assert isinstance(model, assay.EmbeddingModel)
        self.model = model

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        pass

    def embed(self, texts: list[str]) -> float:
        began = time.perf_counter()
        self.found = self.model.embed(texts)
        return time.perf_counter() - began

    def save(self, path: str) -> None:
        np.save(path, self.found)


if __name__ == "__main__":
    serve(Assay())
