"""gemma2: norms on both sides, capped scores and logits, every other layer with a window."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config, rounded
from assay.models import gguf_decoder, llama
from assay.models.architecture import Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Part
from assay.models.shape import LAYERS, MOST, alternating, root

LAYER = llama.LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def from_config(config: Config, name: str) -> Decoder:
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


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says; what it doesn't say is as in the published models."""
    return like_gguf(keys, largest=46, period=2, window=4096, caps=(50.0, 30.0))


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


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight lies: of norms, what they differ from one is stored."""
    return llama.parts(model, LAYER, norms_plus=1.0)


ARCHITECTURE = Architecture(from_config, parts, from_gguf)
