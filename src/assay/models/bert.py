"""bert: an encoder with learned positions, kinds of text, and layer norms of sums."""

from __future__ import annotations

from dataclasses import replace

from assay.formats.fields import Config
from assay.models import gguf_decoder, gpt2, llama
from assay.models.architecture import Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Part
from assay.models.shape import MOST, sized

NAMES = replace(llama.NAMES, epsilon="layer_norm_eps", epsilon_default=1e-12)
LAYER = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
REST = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a config.json says."""
    config.choice("position_embedding_type", ("absolute",), "absolute")
    config.neutral("is_decoder", False)
    model = sized(config, NAMES, name, config.integer("vocab_size", 1, MOST))
    active = llama.ACTIVATIONS[config.choice("hidden_act", gpt2.GELUS, "gelu")]
    return _encoder(model, config.integer("type_vocab_size", 1, MOST, 2), active)


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says."""
    model = gguf_decoder.like(keys, "", gpt2.GGUF_NAMES)
    return _encoder(model, keys.rows("token_types.weight"), "gelu")


def _encoder(model: Decoder, token_types: int, active: str) -> Decoder:
    model = replace(gpt2.shaped(model), encoder=True, tied=True)
    return replace(model, token_types=token_types, activation=active)


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight of a folder lies."""
    return llama.parts(model, LAYER, REST, layers_at="encoder.layer")


UNUSED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
"""A classifier's map, which no embedding reads, and numbers from 0."""
ARCHITECTURE = Architecture(from_config, parts, from_gguf, UNUSED)
