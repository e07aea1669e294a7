"""The tiny llama of tests/golden/llama as an engine: random weights, fast enough for properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.compiler.lower import quantize_activations
from assay.formats.quant import quantise
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.llm.engine import Engine, buckets
from assay.models import llama
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import Pack, load
from assay.tensor.dtype import F16, F32, DType

GOLDEN = Path(__file__).parents[1] / "golden" / "llama"
Floats = NDArray[np.float32]
_LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_REST = {"lm_head": "output", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}


def safetensors(path: Path) -> dict[str, Floats]:
    """A file of float32 tensors: a length, a JSON table of places, the bytes."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    table = json.loads(content[8 : 8 + length])
    found = {}
    for name, entry in table.items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32"
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(content[8 + length + begin : 8 + length + end], np.float32)
            found[name] = flat.reshape(entry["shape"])
    return found


def renamed(name: str) -> str:
    """A tensor's name in GGUF: `blk.0.attn_q.weight`."""
    stem = name.removesuffix(".weight")
    if stem in _REST:
        return f"{_REST[stem]}.weight"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_LAYER[part]}.weight"


@dataclass(frozen=True)
class Weights:
    """Arrays as files would hold them."""

    arrays: Mapping[str, NDArray[np.generic]]

    def raw(self, name: str) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.arrays[name]).reshape(-1).view(np.uint8)


class Small:
    """The model's graph and weights on a device; engines of any size over them."""

    def __init__(
        self, device: Cpu, dtype: DType = F32, cache: DType = F16, planted: Mapping[str, Floats] | None = None
    ) -> None:
        """Linear maps hold `dtype`; quantised ones take 8-bit activations. `planted` replaces maps once they
        are loaded, so it may hold what no file may.
        """
        config = json.loads((GOLDEN / "config.json").read_text())
        self.device, self.cache = device, cache
        self.model = llama.Llama(
            name="small", layers=config["num_hidden_layers"], hidden=config["hidden_size"],
            feed_forward=config["intermediate_size"], heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
            vocabulary=config["vocab_size"], context=config["max_position_embeddings"],
            epsilon=config["rms_norm_eps"],
            rope_base=config["rope_parameters"]["rope_theta"], rope_pairs=config["head_dim"] // 2,
            pairing="halves", tied=config["tie_word_embeddings"],
        )  # fmt: skip
        tensors = {renamed(name): array for name, array in safetensors(GOLDEN / "model.safetensors").items()}
        self.dtypes = {name: dtype if array.ndim == 2 else F32 for name, array in tensors.items()}
        arrays: dict[str, NDArray[np.generic]] = {
            name: quantise(array, dtype) if array.ndim == 2 and dtype is not F32 else array
            for name, array in tensors.items()
        }
        self.source = Weights({**arrays, **llama.computed(self.model)})
        self.vocabulary = self.model.vocabulary
        graph = self.graph(1, 1)
        self.weights = load(graph, self.source, device)
        for name, array in (planted or {}).items():
            raw = Weights({name: array}).raw(name)
            pack = Pack(name, raw, graph.types[name], self.weights[name])
            device.call_all(pack.kernel(), [pack.arguments()])

    def graph(self, pages: int, table: int) -> Graph:
        """One step's graph, for a cache of so many pages and so many of them for one sequence."""
        made = llama.graph(self.model, self.dtypes, self.cache, pages, table)
        quantised = any(dtype.quantised for dtype in self.dtypes.values())
        return quantize_activations(made) if quantised else made

    def engine(self, *, pages: int = 64, context: int = 512, budget: int = 512) -> Engine:
        """An engine with a cache of its own."""
        graph = self.graph(pages, -(-context // PAGE))
        states = {
            name: self.device.allocate(graph.types[name].nbytes({}), owner=name) for name in graph.states
        }
        executor = Executor(graph, self.device, self.weights, states, buckets())
        return Engine(executor, pages=pages, context=context, vocabulary=self.vocabulary, budget=budget)
