"""qwen2: a llama whose queries, keys and values have a bias."""

from __future__ import annotations

from dataclasses import replace

from assay.models import llama
from assay.models.architecture import Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder

BIASES = frozenset(("attn_q", "attn_k", "attn_v"))


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    model = llama.like(config, name, biases=BIASES)
    return replace(model, windows=sliding(config, model))


def sliding(config: Config, model: Decoder) -> tuple[int, ...]:
    """A window only where the config turns it on, and from layer `max_window_layers` on."""
    if not model.windows or not config.flag("use_sliding_window", False):
        return ()
    if config.has("layer_types"):
        return model.windows
    first = config.integer("max_window_layers", 0, llama.MOST, model.layers)
    return tuple(0 if layer < first else window for layer, window in enumerate(model.windows))


ARCHITECTURE = Architecture(from_config, llama.parts)
