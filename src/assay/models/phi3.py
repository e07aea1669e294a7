"""phi3: a llama whose maps are stored side by side: queries, keys and values; gate and up."""

from __future__ import annotations

from assay.models import llama
from assay.models.architecture import Architecture
from assay.models.decoder import Decoder
from assay.models.parts import Part


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight lies."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    fused = {
        "attn_q": Part("self_attn.qkv_proj", 0, queries + 2 * keys),
        "attn_k": Part("self_attn.qkv_proj", queries, queries + 2 * keys),
        "attn_v": Part("self_attn.qkv_proj", queries + keys, queries + 2 * keys),
        "ffn_gate": Part("mlp.gate_up_proj", 0, 2 * model.feed_forward),
        "ffn_up": Part("mlp.gate_up_proj", model.feed_forward, 2 * model.feed_forward),
    }
    found = llama.parts(model)
    for layer in range(model.layers):
        for name, part in fused.items():
            source = f"model.layers.{layer}.{part.source}.weight"
            found[f"blk.{layer}.{name}.weight"] = Part(source, part.first, part.total)
    return found


ARCHITECTURE = Architecture(lambda config, name: llama.like(config, name), parts)
