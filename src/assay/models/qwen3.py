"""qwen3: a llama whose heads of queries and keys are normalised."""

from __future__ import annotations

from dataclasses import replace

from assay.models import llama, qwen2
from assay.models.architecture import Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder

ALL = frozenset(("attn_q", "attn_k", "attn_v", "attn_output"))


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    biases = ALL if config.flag("attention_bias", False) else frozenset()
    model = llama.like(config, name, biases=biases, head_norms=True)
    return replace(model, windows=qwen2.sliding(config, model))


ARCHITECTURE = Architecture(from_config, llama.parts)
