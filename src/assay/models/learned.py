"""Learned positions, layer norms and biases, no gate: gpt2, and bert, an encoder that normalises sums."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config
from assay.models import gguf_decoder, llama
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Layout
from assay.models.shape import MOST, sized

NAMES = llama.NAMES | {
    "layers": "n_layer",
    "hidden": "n_embd",
    "feed_forward": "n_inner",
    "heads": "n_head",
    "context": "n_positions",
    "epsilon": "layer_norm_epsilon",
}
GGUF_NAMES = gguf_decoder.NAMES | {"epsilon": "attention.layer_norm_epsilon"}
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
BERT_NAMES = llama.NAMES | {"epsilon": "layer_norm_eps"}
BERT_LAYER = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
BERT_REST = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
UNUSED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
"""A classifier's map, which no embedding reads, and numbers from 0."""


def gpt2(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    config.neutral("scale_attn_weights", True)
    config.neutral("scale_attn_by_inverse_layer_idx", False)
    model = sized(config, NAMES, name, config.integer("vocab_size", 1, MOST), 1e-5, widths=4)
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


def bert(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    config.choice("position_embedding_type", ("absolute",), "absolute")
    config.neutral("is_decoder", False)
    model = sized(config, BERT_NAMES, name, config.integer("vocab_size", 1, MOST), 1e-12)
    active = llama.ACTIVATIONS[config.choice("hidden_act", GELUS, "gelu")]
    return _encoder(model, config.integer("type_vocab_size", 1, MOST, 2), active)


def bert_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says."""
    model = gguf_decoder.like(keys, "", GGUF_NAMES)
    return _encoder(model, keys.rows("token_types.weight"), "gelu")


def _encoder(model: Decoder, token_types: int, active: str) -> Decoder:
    model = replace(shaped(model), encoder=True, tied=True)
    return replace(model, token_types=token_types, activation=active)


ARCHITECTURES = {
    "gpt2": Architecture(
        gpt2,
        Layout(LAYER, REST, "transformer.h", turned=True),
        lambda keys: shaped(gguf_decoder.like(keys, "", GGUF_NAMES)),
        (".attn.bias", ".attn.masked_bias"),
        "transformer.",
    ),
    "bert": Architecture(bert, Layout(BERT_LAYER, BERT_REST, "encoder.layer"), bert_gguf, UNUSED, ""),
}
