"""openvino-genai, reading the same GGUF file: `python -m benchmarks.workers.openvino`."""

from __future__ import annotations

import time

import numpy as np
import openvino as ov
import openvino_genai as genai

from benchmarks.workers.wire import peak, resident, serve

IMPORTED = resident()


class OpenVino:
    """Either of its back ends: PA, paged attention (ContinuousBatchingPipeline), or SDPA (LLMPipeline)."""

    def __init__(self) -> None:
        self.path = ""
        self.threads = 0
        self.pipeline: genai.LLMPipeline | genai.ContinuousBatchingPipeline | None = None
        self.made: object = None

    def about(self) -> dict[str, str]:
        return {"openvino-genai": genai.__version__, "openvino": ov.__version__}

    def variants(self, figure: str) -> list[dict[str, object]]:
        kinds: list[tuple[str, int]] = [("u8", 4096), ("f16", 4096)]
        if figure == "batch":
            kinds = [("u8", 1024), ("f16", 1024), ("f16", 4096)]
        paged = [{"backend": "PA", "cache": cache, "tokens": size} for cache, size in kinds]
        return paged if figure == "batch" else [*paged, {"backend": "SDPA"}]

    def load(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        if variant == self.made:
            return
        self.pipeline = None
        properties: dict[str, object] = {"INFERENCE_NUM_THREADS": self.threads}
        if variant["backend"] == "PA":
            scheduler = genai.SchedulerConfig()
            scheduler.enable_prefix_caching = False
            scheduler.max_num_batched_tokens = variant["tokens"]
            scheduler.max_num_seqs = 64
            scheduler.cache_size = 1
            properties["KV_CACHE_PRECISION"] = variant["cache"]
            self.pipeline = genai.ContinuousBatchingPipeline(self.path, scheduler, "CPU", properties)
        else:
            self.pipeline = genai.LLMPipeline(self.path, "CPU", {**properties, "ATTENTION_BACKEND": "SDPA"})
        self.made = variant

    def prefill(self, tokens: list[int]) -> float:
        return self._generate([tokens], 1)[0]

    def decode(self, tokens: list[int], count: int) -> float:
        """The first token belongs to the prompt."""
        first = self._generate([tokens], 1)[0]
        return self._generate([tokens], count + 1)[0] - first

    def batch(self, prompts: list[list[int]], count: int) -> float:
        return self._generate(prompts, count)[0]

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        return self._generate([tokens], count)[1][0]

    def logits(self, tokens: list[int], path: str) -> bool:
        return False

    def memory(self) -> dict[str, int]:
        return {"resident": resident(), "peak": peak(), "import": IMPORTED}

    def _generate(self, prompts: list[list[int]], count: int) -> tuple[float, list[list[int]]]:
        config = genai.GenerationConfig()
        config.max_new_tokens = count
        config.min_new_tokens = count
        config.ignore_eos = True
        config.do_sample = False
        inputs = [ov.Tensor(np.array([prompt], np.int64)) for prompt in prompts]
        if isinstance(self.pipeline, genai.LLMPipeline):
            began = time.perf_counter()
            result = self.pipeline.generate(inputs[0], config)
            spent = time.perf_counter() - began
            return spent, [list(result.tokens[0])]
        assert self.pipeline is not None
        began = time.perf_counter()
        results = self.pipeline.generate(inputs, [config] * len(inputs))
        spent = time.perf_counter() - began
        return spent, [list(result.m_generation_ids[0]) for result in results]


if __name__ == "__main__":
    serve(OpenVino())
