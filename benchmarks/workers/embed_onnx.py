"""The model exported to ONNX, on ONNX Runtime: `python -m benchmarks.workers.embed_onnx`.

As sentence-transformers would run it: texts sorted by length, padded to the longest of a batch, and the mean
of the tokens' vectors taken by NumPy.
"""

from __future__ import annotations

import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers
import torch
from transformers import AutoModel

from benchmarks.workers.wire import serve


class Hidden(torch.nn.Module):  # type: ignore[misc]  # torch may be absent
    """The model with its last hidden state as the one output."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        found = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types)
        return found.last_hidden_state


class Onnx:
    batch = 32

    def about(self) -> dict[str, str]:
        return {name: metadata.version(name) for name in ("onnxruntime", "torch")}

    def variants(self, figure: str) -> list[dict[str, object]]:
        return [{"batch": size} for size in (1, 8, 16, 32, 64)]

    def load(self, path: str, threads: int) -> None:
        self.tokenizer = tokenizers.Tokenizer.from_file(str(Path(path) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)
        model = AutoModel.from_pretrained(path, attn_implementation="eager").eval()
        inputs = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in range(3))
        names = ("ids", "mask", "types")
        axes = {name: {0: "texts", 1: "tokens"} for name in (*names, "hidden")}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.onnx")
            torch.onnx.export(
                Hidden(model), inputs, file, input_names=names, output_names=("hidden",), dynamic_axes=axes,
                opset_version=17, dynamo=False,
            )  # fmt: skip
            self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        self.batch = int(str(variant["batch"]))

    def embed(self, texts: list[str]) -> float:
        began = time.perf_counter()
        found = [each.ids for each in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(found)), key=lambda index: -len(found[index]))
        self.found = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            ids = np.zeros((len(chosen), len(found[chosen[0]])), np.int64)
            mask = np.zeros_like(ids)
            for row, index in enumerate(chosen):
                ids[row, : len(found[index])], mask[row, : len(found[index])] = found[index], 1
            feeds = {"ids": ids, "mask": mask, "types": np.zeros_like(ids)}
            (hidden,) = self.session.run(None, feeds)
            mean = (hidden * mask[:, :, None].astype(np.float32)).sum(1) / mask.sum(1, keepdims=True)
            self.found[chosen] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return time.perf_counter() - began

    def save(self, path: str) -> None:
        np.save(path, self.found)


if __name__ == "__main__":
    serve(Onnx())
