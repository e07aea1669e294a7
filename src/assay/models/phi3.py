"""phi3: a llama whose maps are stored side by side: queries, keys and values; gate and up."""

from __future__ import annotations

from dataclasses import replace

from assay.models import gguf_decoder, llama
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Part, side_by_side
from assay.models.shape import MOST

GATE_UP = ("ffn_gate", "ffn_up")


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says, its window too, as transformers sees it (llama.cpp leaves it out)."""
    model = gguf_decoder.like(keys)
    window = keys.integer("attention.sliding_window", 0, MOST, 0)
    return replace(model, windows=(window,) * model.layers if window else ())


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight of a folder lies."""
    fused = {"self_attn.qkv_proj": QKV, "mlp.gate_up_proj": GATE_UP}
    return llama.parts(model) | side_by_side(model, fused, "model.layers")


ARCHITECTURE = Architecture(llama.like, parts, from_gguf, fused={"attn_qkv": QKV, "ffn_up": GATE_UP})
