"""gpt2: learned positions, layer norms and biases everywhere, no gate."""

from __future__ import annotations

from assay.kernels.sizes import POSITIONS
from assay.models import llama
from assay.models.architecture import Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder
from assay.models.parts import Part

LAYER = {
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
    hidden, heads = config.integer("n_embd", 1, llama.MOST), config.integer("n_head", 1, llama.MOST)
    if hidden % heads or hidden // heads not in llama.HEAD:
        raise config.error("n_head", f"heads of a multiple of {llama.HEAD.step} elements", heads)
    layers = config.integer("n_layer", 1, 4096)
    context = config.integer("n_positions", 2, POSITIONS)
    return Decoder(
        name=name,
        layers=layers,
        hidden=hidden,
        feed_forward=config.integer("n_inner", 1, llama.MOST, 4 * hidden),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocabulary=config.integer("vocab_size", 1, llama.MOST),
        context=context,
        epsilon=config.number("layer_norm_epsilon", 2.0**-126, 1.0, 1e-5),
        ropes=(None,) * layers,
        tied=config.flag("tie_word_embeddings", True),
        positions=context,
        norm="layer_norm",
        activation=llama.ACTIVATIONS[
            config.choice("activation_function", ("gelu_new", "gelu_pytorch_tanh", "gelu"), "gelu_new")
        ],
        gated=False,
        biases=frozenset(("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")),
    )


def parts(model: Decoder) -> dict[str, Part]:
    """Where each weight lies: maps are stored transposed, queries, keys and values in one."""
    fused = LAYER | dict.fromkeys(("attn_q", "attn_k", "attn_v"), "attn.c_attn")
    found = llama.parts(model, fused, REST, layers_at="transformer.h")
    wide = 3 * model.hidden
    for name, part in found.items():
        if not name.startswith("blk.") or "norm" in name:
            continue
        place = ("attn_q", "attn_k", "attn_v").index(name.split(".")[2]) if "c_attn" in part.source else -1
        first, total = (place * model.hidden, wide) if place >= 0 else (0, 0)
        found[name] = Part(part.source, first, total, turned=name.endswith(".weight"))
    return found


ARCHITECTURE = Architecture(from_config, parts, (".attn.bias", ".attn.masked_bias"))
