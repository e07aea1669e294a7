"""A llama of a few thousand weights as a GGUF file, to be loaded as it is or with something changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from assay.formats.gguf_types import MetadataValue
from assay.formats.gguf_writer import Row, write_gguf
from assay.formats.quant import quantise
from assay.tensor.dtype import F32, Q8_0, DType

LETTERS = [chr(0x61 + index) for index in range(26)]
TOKENS = ("<end>", "<begin>", "<more>", *LETTERS, "Ġ", "Ċ", "ab")
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD, LAYERS = 32, 2, 1, 16, 64, 2

METADATA: dict[str, MetadataValue] = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.block_count": LAYERS,
    "llama.context_length": 128,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": FEED_FORWARD,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": 2.0**-17,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.dimension_count": HEAD_DIM,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": np.array([3, 3, 3, *[1] * (len(TOKENS) - 3)], np.int32),
    "tokenizer.ggml.merges": ("a b",),
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}",
}

Tensors = dict[str, tuple[DType, tuple[int, ...]]]


def shapes() -> Tensors:
    """Types and shapes of the tensors; maps of the first block are in blocks, those of the second plain."""
    found: Tensors = {"token_embd.weight": (Q8_0, (len(TOKENS), HIDDEN))}
    for layer, dtype in enumerate((Q8_0, F32)):
        at = f"blk.{layer}"
        found[f"{at}.attn_norm.weight"] = (F32, (HIDDEN,))
        found[f"{at}.attn_q.weight"] = (dtype, (HEADS * HEAD_DIM, HIDDEN))
        found[f"{at}.attn_k.weight"] = (dtype, (KV_HEADS * HEAD_DIM, HIDDEN))
        found[f"{at}.attn_v.weight"] = (dtype, (KV_HEADS * HEAD_DIM, HIDDEN))
        found[f"{at}.attn_output.weight"] = (dtype, (HIDDEN, HEADS * HEAD_DIM))
        found[f"{at}.ffn_norm.weight"] = (F32, (HIDDEN,))
        found[f"{at}.ffn_gate.weight"] = (dtype, (FEED_FORWARD, HIDDEN))
        found[f"{at}.ffn_up.weight"] = (dtype, (FEED_FORWARD, HIDDEN))
        found[f"{at}.ffn_down.weight"] = (dtype, (HIDDEN, FEED_FORWARD))
    found["output_norm.weight"] = (F32, (HIDDEN,))
    return found


def rows(tensors: Tensors) -> list[Row]:
    """Tensors with small random numbers, always the same ones."""
    rng = np.random.default_rng(7)
    found: list[Row] = []
    for name, (dtype, shape) in tensors.items():
        numbers = rng.normal(0, 0.3, shape).astype(np.float32)
        found.append((name, dtype, shape, quantise(numbers, dtype)))
    return found


def write(
    path: Path,
    changes: Mapping[str, MetadataValue | np.generic | None] | None = None,
    tensors: Tensors | None = None,
) -> Path:
    """The file, with some keys changed (None: left out) and other tensors, if any are given."""
    metadata = {**METADATA, **(changes or {})}
    kept = {key: value for key, value in metadata.items() if value is not None}
    write_gguf(path, kept, rows(shapes() if tensors is None else tensors))
    return path
