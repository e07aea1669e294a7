"""qwen3: a llama whose heads of queries and keys are normalised."""

from __future__ import annotations

from dataclasses import replace

from assay.models import gguf_decoder, llama, qwen2
from assay.models.architecture import QKV, Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    biases = (*QKV, "attn_output") if config.flag("attention_bias", False) else ()
    model = llama.like(config, name)
    return replace(model, biases=biases, head_norms=True, windows=qwen2.sliding(config, model))


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says."""
    return replace(gguf_decoder.like(keys), head_norms=True)


ARCHITECTURE = Architecture(from_config, llama.parts, from_gguf)
