"""gemma2: norms on both sides, capped scores and logits, every other layer with a window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.models import llama
from assay.models.architecture import Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder
from assay.models.parts import Part

LAYER = llama.LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    config.neutral("attention_bias", False)
    model = llama.like(config, name, post_norms=True, tied=True)
    if model.windows and not config.has("layer_types"):
        alternate = tuple(0 if layer % 2 else window for layer, window in enumerate(model.windows))
        model = replace(model, windows=alternate)
    scalar = config.number("query_pre_attn_scalar", 1.0, 2.0**20, 256.0)
    return replace(
        model,
        embedding_scale=root(model.hidden),
        attention_scale=float(np.float32(1) / np.sqrt(np.float32(scalar))),
        attention_cap=config.number("attn_logit_softcapping", 0.0, 2.0**20, 0.0),
        logit_cap=config.number("final_logit_softcapping", 0.0, 2.0**20, 0.0),
    )


def root(hidden: int) -> float:
    """√hidden, rounded to float32."""
    return float(np.sqrt(np.float32(hidden)))


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight lies: of norms, what they differ from one is stored."""
    return llama.parts(model, LAYER, norms_plus=1.0)


ARCHITECTURE = Architecture(from_config, parts)
