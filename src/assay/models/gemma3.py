"""gemma3: a gemma2 without caps whose heads are normalised; layers with a window rotate by another base."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import GREATEST, Config
from assay.models import gemma2, llama
from assay.models.architecture import Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.rope import Rope
from assay.models.shape import LAYERS, MOST, alternating

PERIOD = 6
"""Of so many layers the last one sees everything."""
GLOBAL, LOCAL = 1e6, 1e4
"""Bases of the rotation where none is said."""
INSIDE = {
    "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072,
}  # fmt: skip
"""What missing fields mean in the config.json of a model for text and images, which leaves out much."""


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says; of a model for text and images, that of its part for text."""
    text = config.inner("text_config")
    if text:
        config.neutral("tie_word_embeddings", True)
        config = Config({**INSIDE, **text.values}, text.place)
    if "attn_logit_softcapping" in config:
        raise config.error("attn_logit_softcapping", "null", "something", "a value that isn't supported")
    model = gemma2.like(config, name)
    if "layer_types" not in config:
        period = config.integer("sliding_window_pattern", 1, LAYERS, PERIOD)
        window = config.integer("sliding_window", 1, MOST)
        model = replace(model, windows=alternating(window, model.layers, period))
    model = replace(model, logit_cap=config.number("final_logit_softcapping", 0.0, 2.0**20, 0.0))
    return _mixed(model, *_ropes(config, model.head_dim))


def _ropes(config: Config, head_dim: int) -> tuple[Rope, Rope]:
    """The rotation of layers that see everything, and of those with a window."""
    rules = config.inner("rope_parameters")
    if rules is None:
        wide = llama.ruled_rope(config, config.inner("rope_scaling"), head_dim, GLOBAL)
        return wide, Rope(config.number("rope_local_base_freq", 1.0, GREATEST, LOCAL), wide.pairs, "halves")
    full, sliding = rules.require("full_attention"), rules.require("sliding_attention")
    return llama.ruled_rope(full, full, head_dim, GLOBAL), llama.ruled_rope(sliding, sliding, head_dim, LOCAL)


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says. What it says of images is set aside: their tensors aren't in it."""
    keys.aside("mm.", "vision.")
    model = gemma2.like_gguf(keys, largest=62, period=PERIOD, window=0, caps=(0.0, 0.0))
    base = keys.number("rope.freq_base_swa", 1.0, GREATEST, LOCAL)
    return _mixed(model, model.ropes[0], Rope(base, model.head_dim // 2, "halves"))


def _mixed(model: Decoder, wide: Rope | None, local: Rope) -> Decoder:
    ropes = tuple(local if model.window(layer) else wide for layer in range(model.layers))
    return replace(model, ropes=ropes, head_norms=True)


ARCHITECTURE = Architecture(from_config, gemma2.parts, from_gguf)
