"""qwen2: a llama whose queries, keys and values have a bias."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config
from assay.models import gguf_decoder, llama
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder
from assay.models.shape import MOST


def like(config: Config, name: str) -> Decoder:
    """A llama's shape, with a window only where the config turns it on, from layer `max_window_layers` on."""
    model = llama.like(config, name)
    if not model.windows or not config.flag("use_sliding_window", False):
        return replace(model, windows=())
    first = 0 if "layer_types" in config else config.integer("max_window_layers", 0, MOST, model.layers)
    windows = (0 if layer < first else window for layer, window in enumerate(model.windows))
    return replace(model, windows=tuple(windows))


ARCHITECTURE = Architecture(
    lambda config, name: replace(like(config, name), biases=QKV),
    llama.parts,
    lambda keys: replace(gguf_decoder.like(keys), biases=QKV),
)
