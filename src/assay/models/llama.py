"""llama, and what its descendants have in common with it."""

from __future__ import annotations

from collections.abc import Mapping

from assay.kernels.sizes import POSITIONS
from assay.models.architecture import Architecture
from assay.models.config import Config
from assay.models.decoder import Decoder, weights
from assay.models.parts import Part
from assay.models.rope import Llama3, Rope

MOST = (1 << 31) - 1
HEAD = range(16, 257, 16)
"""Elements of a head: see the operator `attention`."""
ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "gelu": "gelu"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
REST = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def from_config(config: Config, name: str) -> Decoder:
    """The shape that a llama's config.json says."""
    attention, feed_forward = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    biases = {"attn_q", "attn_k", "attn_v", "attn_output"} if attention else set()
    biases |= {"ffn_gate", "ffn_up", "ffn_down"} if feed_forward else set()
    return like(config, name, biases=frozenset(biases))


def like(
    config: Config,
    name: str,
    *,
    biases: frozenset[str] = frozenset(),
    head_norms: bool = False,
    post_norms: bool = False,
    tied: bool = False,
) -> Decoder:
    """The shape of a model whose config has llama's fields. `tied` is what a missing field means."""
    hidden = config.integer("hidden_size", 1, MOST)
    heads = config.integer("num_attention_heads", 1, MOST)
    kv_heads = config.integer("num_key_value_heads", 1, MOST, heads)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"a divisor of {heads} query heads", kv_heads)
    head_dim = config.integer("head_dim", 1, MOST, hidden // heads)
    if head_dim not in HEAD:
        raise config.error("head_dim", f"a multiple of {HEAD.step}, at most {HEAD[-1]}", head_dim)
    layers = config.integer("num_hidden_layers", 1, 4096)
    config.neutral("pretraining_tp", 1)
    activation = "hidden_act" if config.has("hidden_act") else "hidden_activation"
    return Decoder(
        name=name,
        layers=layers,
        hidden=hidden,
        feed_forward=config.integer("intermediate_size", 1, MOST),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=config.integer("vocab_size", 1, MOST),
        context=config.integer("max_position_embeddings", 2, POSITIONS),
        epsilon=config.number("rms_norm_eps", 2.0**-126, 1.0, 1e-6),
        ropes=(rope(config, head_dim),) * layers,
        tied=config.flag("tie_word_embeddings", tied),
        activation=ACTIVATIONS[config.choice(activation, tuple(ACTIVATIONS), "silu")],
        biases=biases,
        head_norms=head_norms,
        post_norms=post_norms,
        windows=windows(config, layers),
    )


def rope(config: Config, head_dim: int) -> Rope:
    """Rotary positions: `rope_parameters`, or of older files `rope_theta` and `rope_scaling`."""
    rules = config.inner("rope_parameters") or config.inner("rope_scaling")
    holder = rules if rules and rules.has("rope_theta") else config
    base = holder.number("rope_theta", 1.0, 2.0**127, 10000.0)
    share = holder.number("partial_rotary_factor", 0.0, 1.0, 1.0)
    pairs = int(head_dim * share) // 2
    if pairs < 1:
        raise holder.error("partial_rotary_factor", "at least a pair of elements", share)
    kind = "default"
    if rules:
        field = "rope_type" if rules.has("rope_type") else "type"
        kind = rules.choice(field, ("default", "linear", "llama3"), "default")
    made = Rope(base, pairs, "halves")
    if rules is None or kind == "default":
        return made
    factor = rules.number("factor", 1.0, 2.0**20)
    if kind == "linear":
        return Rope(base, pairs, "halves", linear=factor)
    low, high = (rules.number(f"{end}_freq_factor", 0.0, 2.0**20) for end in ("low", "high"))
    if low >= high:
        raise rules.error("low_freq_factor", f"less than high_freq_factor {high}", low)
    original = rules.integer("original_max_position_embeddings", 1, POSITIONS)
    return Rope(base, pairs, "halves", llama3=Llama3(factor, low, high, original))


def windows(config: Config, layers: int) -> tuple[int, ...]:
    """Each layer's window: by `layer_types`, or the same for all."""
    kinds = config.choices("layer_types", ("sliding_attention", "full_attention"), layers)
    if not config.has("sliding_window") or not config.flag("use_sliding_window", True):
        return ()
    window = config.integer("sliding_window", 1, MOST)
    if kinds is None:
        return (window,) * layers
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def parts(
    model: Decoder,
    layer: Mapping[str, str] = LAYER,
    rest: Mapping[str, str] = REST,
    norms_plus: float = 0.0,
    layers_at: str = "model.layers",
) -> dict[str, Part]:
    """Where each weight lies; norms are stored `norms_plus` too low."""
    found = {}
    for name in weights(model):
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("blk."):
            _, number, part = stem.split(".")
            source = f"{layers_at}.{number}.{layer[part]}.{kind}"
        else:
            source = f"{rest[stem]}.{kind}"
        found[name] = Part(source, plus=norms_plus if stem.endswith("_norm") else 0.0)
    return found


ARCHITECTURE = Architecture(from_config, parts)
