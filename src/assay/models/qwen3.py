"""qwen3: a llama whose heads of queries and keys are normalised."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config
from assay.models import gguf_decoder, llama, qwen2
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    biases = (*QKV, "attn_output") if config.flag("attention_bias", False) else ()
    return replace(qwen2.like(config, name), biases=biases, head_norms=True)


ARCHITECTURE = Architecture(
    from_config, llama.parts, lambda keys: replace(gguf_decoder.like(keys), head_norms=True)
)
