"""qwen2: a llama whose queries, keys and values have a bias."""

from __future__ import annotations

from dataclasses import replace

from assay.models import gguf_decoder, llama
from assay.models.architecture import QKV, Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.shape import MOST


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    model = llama.like(config, name)
    return replace(model, biases=QKV, windows=sliding(config, model))


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says."""
    return replace(gguf_decoder.like(keys), biases=QKV)


def sliding(config: Config, model: Decoder) -> tuple[int, ...]:
    """A window only where the config turns it on, and from layer `max_window_layers` on."""
    if not model.windows or not config.flag("use_sliding_window", False):
        return ()
    if config.has("layer_types"):
        return model.windows
    first = config.integer("max_window_layers", 0, MOST, model.layers)
    return tuple(0 if layer < first else window for layer, window in enumerate(model.windows))


ARCHITECTURE = Architecture(from_config, llama.parts, from_gguf)
