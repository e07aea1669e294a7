"""gemma2: norms on both sides, capped scores and logits, every other layer with a window. gemma3: one without
caps whose heads are normalised; layers with a window rotate by another base.
"""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import GREATEST, Config, rounded
from assay.models import gguf_decoder, llama
from assay.models.architecture import Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Layout
from assay.models.rope import Rope
from assay.models.shape import LAYERS, MOST, alternating, root

PERIOD = 6
"""Of so many layers the last one sees everything."""
GLOBAL, LOCAL = 1e6, 1e4
"""Bases of the rotation where none is said."""
INSIDE = {
    "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 131072,
}  # fmt: skip
"""What missing fields mean in the config.json of a model for text and images, which leaves out much."""
LAYER = llama.LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def gemma2(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    model = like(config, name)
    if model.windows and "layer_types" not in config:
        model = replace(model, windows=alternating(model.windows[0], model.layers, 2))
    return replace(
        model,
        attention_cap=config.number("attn_logit_softcapping", 0.0, 2.0**20, 0.0),
        logit_cap=config.number("final_logit_softcapping", 0.0, 2.0**20, 0.0),
    )


def like(config: Config, name: str) -> Decoder:
    """What configs of this family say alike."""
    config.neutral("attention_bias", False)
    config.neutral("use_bidirectional_attention", False)
    kinds = llama.ACTIVATIONS
    active = kinds[config.choice("hidden_activation", tuple(kinds), "gelu_pytorch_tanh")]
    scalar = config.number("query_pre_attn_scalar", 1.0, 2.0**20, 256.0)
    return scaled(replace(llama.like(config, name, tied=True), activation=active), scalar)


def like_gguf(
    keys: Hyperparameters, largest: int, period: int, window: int, caps: tuple[float, float]
) -> Decoder:
    """What GGUF files of this family say alike. Of `largest` layers is the published model whose scores'
    scale isn't that of its heads, which no key says; the rest is what missing keys mean.
    """
    model = replace(gguf_decoder.like(keys), activation="gelu_tanh")
    period = keys.integer("attention.sliding_window_pattern", 1, LAYERS, period)
    window = keys.integer("attention.sliding_window", 0, MOST, window)
    return replace(
        scaled(model, model.hidden // model.heads if model.layers == largest else model.head_dim),
        windows=alternating(window, model.layers, period),
        attention_cap=keys.number("attn_logit_softcapping", 0.0, 2.0**20, caps[0]),
        logit_cap=keys.number("final_logit_softcapping", 0.0, 2.0**20, caps[1]),
    )


def scaled(model: Decoder, scalar: float) -> Decoder:
    """The model with this family's norms and scales; of the scores it is 1 / √scalar."""
    scale = rounded(1 / root(scalar))
    return replace(model, post_norms=True, embedding_scale=root(model.hidden), attention_scale=scale)


def gemma3(config: Config, name: str) -> Decoder:
    """The shape that a config.json says; of a model for text and images, that of its part for text."""
    text = config.inner("text_config")
    if text:
        config.neutral("tie_word_embeddings", True)
        said = {name: value for name, value in text.values.items() if value is not None}
        config = Config(INSIDE | said, text.place)
    if "attn_logit_softcapping" in config:
        raise config.error("attn_logit_softcapping", "null", "something", "a value that isn't supported")
    model = like(config, name)
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


def gemma3_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says. What it says of images is set aside: their tensors aren't in it."""
    keys.aside("mm.", "vision.")
    model = like_gguf(keys, largest=62, period=PERIOD, window=0, caps=(0.0, 0.0))
    base = keys.number("rope.freq_base_swa", 1.0, GREATEST, LOCAL)
    return _mixed(model, model.ropes[0], Rope(base, model.head_dim // 2, "halves"))


def _mixed(model: Decoder, wide: Rope | None, local: Rope) -> Decoder:
    ropes = tuple(local if model.window(layer) else wide for layer in range(model.layers))
    return replace(model, ropes=ropes, head_norms=True)


LAYOUT = Layout(LAYER, llama.REST, norms_plus=1.0)
"""Of norms, what they differ from one is stored."""
ARCHITECTURES = {
    "gemma2": Architecture(
        gemma2, LAYOUT, lambda keys: like_gguf(keys, largest=46, period=2, window=4096, caps=(50.0, 30.0))
    ),
    "gemma3": Architecture(gemma3, LAYOUT, gemma3_gguf, images=("vision_tower.", "multi_modal_projector.")),
}
