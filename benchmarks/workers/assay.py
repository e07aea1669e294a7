"""Assay itself, measured like its peers: `python -m benchmarks.workers.assay`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import assay
from benchmarks.workers.wire import peak, resident, serve

if TYPE_CHECKING:
    from assay.llm.language_model import LanguageModel

IMPORTED = resident()
"""What `import assay` alone takes."""
MANY = 32 * 192
"""Tokens of the cache: what the figure of 32 sequences takes, so that no page of it stays untouched."""


class Assay:
    def __init__(self) -> None:
        self.path = ""
        self.threads = 0
        self._loaded: LanguageModel | None = None

    @property
    def lm(self) -> LanguageModel:
        assert self._loaded is not None
        return self._loaded

    def about(self) -> dict[str, str]:
        from assay.kernels import target

        chosen = target.current()
        return {"assay": assay.__version__, "target": f"{chosen.level}: {chosen.cpu}"}

    def variants(self, figure: str) -> list[dict[str, object]]:
        return [{}]

    def load(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        lm = assay.load(path, threads=threads, cache_tokens=MANY, guesses=False, prefix_cache=False)
        assert isinstance(lm, assay.LanguageModel)
        self._loaded = lm

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        pass

    def prefill(self, tokens: list[int]) -> float:
        return self._run([tokens], 1)[0]

    def decode(self, tokens: list[int], count: int) -> float:
        return self._run([tokens], count + 1)[1]

    def batch(self, prompts: list[list[int]], count: int) -> float:
        return sum(self._run(prompts, count)[:2])

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        return self._run([tokens], count)[2]

    def logits(self, tokens: list[int], path: str) -> bool:
        import numpy as np

        np.save(path, self.lm.logits(tokens))
        return True

    def exact(self, tokens: list[int], path: str) -> None:
        """The logits with `activations="float32"`: exact to rounding."""
        import numpy as np

        lm = assay.load(self.path, threads=self.threads, activations="float32", cache_tokens=len(tokens) + 64)
        assert isinstance(lm, assay.LanguageModel)
        np.save(path, lm.logits(tokens))

    def outside(self, tokens: list[int], count: int) -> float:
        """Seconds of Python in one decoding step, outside the tape."""
        engine = self.lm.engine
        steps, tapes = engine.steps, engine.executor.seconds
        first, rest, _ = self._run([tokens], count)
        return (first + rest - (engine.executor.seconds - tapes)) / (engine.steps - steps)

    def memory(self) -> dict[str, int]:
        """Bytes: resident now and at most, what importing took, and what the cache and the arena may take."""
        executor = self.lm.engine.executor
        graph = executor.graph
        arena = sum(block.nbytes for block in executor.device.pool.log() if block.owner.endswith(" arena"))
        return {
            "resident": resident(),
            "peak": peak(),
            "import": IMPORTED,
            "cache": sum(graph.types[name].nbytes({}) for name in graph.states),
            "arena": arena,
        }

    def _run(self, prompts: Sequence[list[int]], count: int) -> tuple[float, float, list[int]]:
        """Seconds until all prompts had a token, seconds after that, and the first prompt's tokens."""
        from assay.llm.request import Sampling

        engine = self.lm.engine
        began = time.perf_counter()
        sequences = [engine.add(prompt, Sampling(max_tokens=count)) for prompt in prompts]
        waiting = len(sequences)
        first = began
        while engine.busy:
            if waiting:
                waiting -= sum(drawn.sequence.drawn == 1 for drawn in engine.step())
                first = time.perf_counter()
            else:
                engine.step()
        ended = time.perf_counter()
        tokens = sequences[0].tokens[len(prompts[0]) : len(prompts[0]) + count]
        return first - began, ended - first, list(tokens)


if __name__ == "__main__":
    serve(Assay())
