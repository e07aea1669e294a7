"""llama.cpp through llama-cpp-python's low-level interface: `python -m benchmarks.workers.llamacpp`."""

from __future__ import annotations

import ctypes
import time
from importlib import metadata

import llama_cpp as C
import numpy as np

from benchmarks.workers.wire import peak, resident, serve

IMPORTED = resident()
CONTEXT = 8192
BATCH = 4096
SEQUENCES = 32


class LlamaCpp:
    def __init__(self) -> None:
        self.model = None
        self.context = None
        self.batch_ = C.llama_batch_init(BATCH, 0, 1)
        self.threads = 0
        self.vocabulary = 0
        C.llama_backend_init()
        self._silent = C.llama_log_callback(lambda level, text, data: None)
        C.llama_log_set(self._silent, ctypes.c_void_p(0))

    def about(self) -> dict[str, str]:
        return {
            "llama-cpp-python": metadata.version("llama-cpp-python"),
            "system": C.llama_print_system_info().decode(),
        }

    def variants(self, figure: str) -> list[dict[str, object]]:
        flash = ("enabled", "disabled")
        if figure == "decode":
            return [{"flash": on, "ubatch": 512} for on in flash]
        if figure == "prefill":
            return [{"flash": on, "ubatch": size} for on in flash for size in (64, 128, 256, 512)]
        kinds = [("enabled", 512, True), ("disabled", 512, False)]
        kinds += [("enabled", size, False) for size in (128, 512, 2048)]
        return [{"flash": on, "ubatch": size, "unified": unified} for on, size, unified in kinds]

    def load(self, path: str, threads: int) -> None:
        self.threads = threads
        self.model = C.llama_model_load_from_file(path.encode(), C.llama_model_default_params())
        if not self.model:
            raise ValueError("llama.cpp can't load this file")
        self.vocabulary = C.llama_vocab_n_tokens(C.llama_model_get_vocab(self.model))

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        if self.context:
            C.llama_free(self.context)
        params = C.llama_context_default_params()
        many = figure == "batch"
        params.n_ctx = CONTEXT if many else 1024
        params.n_batch = BATCH if many else 1024
        params.n_ubatch = int(str(variant["ubatch"]))
        params.n_seq_max = SEQUENCES if many else 1
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn_type = (
            C.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if variant["flash"] == "enabled"
            else C.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.kv_unified = bool(variant.get("unified", False))
        params.no_perf = True
        self.context = C.llama_init_from_model(self.model, params)
        if not self.context:
            raise ValueError(f"llama.cpp refuses {variant}")

    def prefill(self, tokens: list[int]) -> float:
        self._clear()
        began = time.perf_counter()
        self._decode([(token, at, 0, at == len(tokens) - 1) for at, token in enumerate(tokens)])
        self._likeliest(len(tokens) - 1)
        return time.perf_counter() - began

    def decode(self, tokens: list[int], count: int) -> float:
        self.prefill(tokens)
        token = self._likeliest(len(tokens) - 1)
        began = time.perf_counter()
        for at in range(len(tokens), len(tokens) + count):
            self._decode([(token, at, 0, True)])
            token = self._likeliest(0)
        return time.perf_counter() - began

    def batch(self, prompts: list[list[int]], count: int) -> float:
        self._clear()
        began = time.perf_counter()
        rows = [
            (token, at, number, at == len(prompt) - 1)
            for number, prompt in enumerate(prompts)
            for at, token in enumerate(prompt)
        ]
        length = len(prompts[0])
        newest = []
        for start in range(0, len(rows), BATCH // length * length):
            part = rows[start : start + BATCH // length * length]
            self._decode(part)
            newest += [self._likeliest(index) for index, row in enumerate(part) if row[3]]
        for at in range(length, length + count - 1):
            self._decode([(token, at, number, True) for number, token in enumerate(newest)])
            newest = [self._likeliest(number) for number in range(len(prompts))]
        return time.perf_counter() - began

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        self.prefill(tokens)
        found = [self._likeliest(len(tokens) - 1)]
        while len(found) < count:
            self._decode([(found[-1], len(tokens) + len(found) - 1, 0, True)])
            found.append(self._likeliest(0))
        return found

    def logits(self, tokens: list[int], path: str) -> bool:
        self._clear()
        self._decode([(token, at, 0, True) for at, token in enumerate(tokens)])
        np.save(path, np.stack([self._row(at) for at in range(len(tokens))]))
        return True

    def memory(self) -> dict[str, int]:
        return {"resident": resident(), "peak": peak(), "import": IMPORTED}

    def _clear(self) -> None:
        C.llama_memory_clear(C.llama_get_memory(self.context), True)

    def _decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Run (token, position, sequence, whether its logits are wanted)."""
        batch = self.batch_
        batch.n_tokens = len(rows)
        for index, (token, position, number, wanted) in enumerate(rows):
            batch.token[index] = token
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = number
            batch.logits[index] = wanted
        status = C.llama_decode(self.context, batch)
        if status:
            raise ValueError(f"llama_decode gave {status}")

    def _row(self, index: int) -> np.ndarray:
        address = C.llama_get_logits_ith(self.context, index)
        return np.ctypeslib.as_array(address, (self.vocabulary,)).copy()

    def _likeliest(self, index: int) -> int:
        address = C.llama_get_logits_ith(self.context, index)
        return int(np.ctypeslib.as_array(address, (self.vocabulary,)).argmax())


if __name__ == "__main__":
    serve(LlamaCpp())
