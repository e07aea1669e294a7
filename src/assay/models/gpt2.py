"""gpt2: learned positions, layer norms and biases everywhere, no gate."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config
from assay.models import gguf_decoder, llama
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder
from assay.models.parts import Part, side_by_side
from assay.models.shape import MOST, sized

NAMES = replace(
    llama.NAMES,
    layers="n_layer",
    hidden="n_embd",
    feed_forward="n_inner",
    heads="n_head",
    context="n_positions",
    epsilon="layer_norm_epsilon",
    epsilon_default=1e-5,
    widths=4,
)
GGUF_NAMES = replace(gguf_decoder.NAMES, epsilon="attention.layer_norm_epsilon")
GELUS = ("gelu_new", "gelu_pytorch_tanh", "gelu")
LAYER = {
    **dict.fromkeys(QKV, "attn.c_attn"),
    "attn_norm": "ln_1",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
REST = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    config.neutral("scale_attn_weights", True)
    config.neutral("scale_attn_by_inverse_layer_idx", False)
    model = sized(config, NAMES, name, config.integer("vocab_size", 1, MOST))
    active = llama.ACTIVATIONS[config.choice("activation_function", GELUS, "gelu_new")]
    return replace(shaped(model), tied=config.flag("tie_word_embeddings", True), activation=active)


def shaped(model: Decoder) -> Decoder:
    """The model with this family's parts."""
    return replace(
        model,
        positions=model.context,
        norm="layer_norm",
        activation="gelu_tanh",
        gated=False,
        biases=(*QKV, "attn_output", "ffn_up", "ffn_down"),
    )


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight of a folder lies: maps are stored transposed, queries, keys and values in one."""
    fused = side_by_side(model, {"attn.c_attn": QKV}, "transformer.h")
    found = llama.parts(model, LAYER, REST, layers_at="transformer.h") | fused
    maps = {f"{part}.weight" for part in model.biases}
    return {name: replace(part, turned=name.split(".", 2)[-1] in maps) for name, part in found.items()}


ARCHITECTURE = Architecture(
    from_config,
    parts,
    lambda keys: shaped(gguf_decoder.like(keys, "", GGUF_NAMES)),
    (".attn.bias", ".attn.masked_bias"),
    "transformer.",
)
