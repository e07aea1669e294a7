"""llama and its like: mistral has a window, qwen2 biases, qwen3 norms of heads, phi3 maps side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from assay.formats.fields import GREATEST, Config, rounded
from assay.kernels.sizes import POSITIONS
from assay.models import gguf_decoder
from assay.models.architecture import QKV, Architecture
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Layout
from assay.models.rope import Llama3, Rope, lengthened
from assay.models.shape import MOST, sized

NAMES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "feed_forward": "intermediate_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "context": "max_position_embeddings",
    "epsilon": "rms_norm_eps",
}
BIASES = (*QKV, "attn_output", "ffn_gate", "ffn_up", "ffn_down")
"""Those that a llama may have."""
LONG = ("longrope", "su")
"""Two names of one rule."""
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
    biases = tuple(part for part in BIASES if (attention if "attn" in part else feed_forward))
    return replace(like(config, name), biases=biases)


def from_gguf(keys: Hyperparameters) -> Decoder:
    """The shape that a llama's GGUF file says; it has the biases that its first layer has."""
    model = gguf_decoder.like(keys, "neighbours")
    biases = tuple(part for part in BIASES if f"blk.0.{part}.bias" in keys.file.tensors)
    return replace(model, biases=biases)


def like(config: Config, name: str, tied: bool = False) -> Decoder:
    """The shape of a model whose config has llama's fields. `tied` is what a missing field means."""
    model = sized(config, NAMES, name, config.integer("vocab_size", 1, MOST), epsilon=1e-6)
    config.neutral("pretraining_tp", 1)
    activation = "hidden_act" if "hidden_act" in config else "hidden_activation"
    rules, older = config.inner("rope_parameters"), config.inner("rope_scaling")
    if rules and older:
        raise config.error("rope_scaling", "nothing, beside rope_parameters", "an object")
    rules = rules or older
    holder = rules if rules and "rope_theta" in rules else config
    if rules and _kind(rules, *LONG) in LONG:
        rope, model = _long(config, rules, ruled_rope(holder, None, model.head_dim), model)
    else:
        rope = ruled_rope(holder, rules, model.head_dim)
    return replace(
        model,
        ropes=(rope,) * model.layers,
        tied=config.flag("tie_word_embeddings", tied),
        activation=ACTIVATIONS[config.choice(activation, tuple(ACTIVATIONS), "silu")],
        windows=windows(config, model.layers),
    )


def ruled_rope(holder: Config, rules: Config | None, head_dim: int, base: float = 10000.0) -> Rope:
    """Rotary positions whose base `holder` has, and whose stretching, if any, `rules` say."""
    base = holder.number("rope_theta", 1.0, GREATEST, base)
    share = holder.number("partial_rotary_factor", 0.0, 1.0, 1.0)
    pairs = int(head_dim * share) // 2
    if pairs < 1:
        raise holder.error("partial_rotary_factor", "at least a pair of elements", share)
    made = Rope(base, pairs, "halves")
    if rules is None:
        return made
    kind = _kind(rules)
    if kind == "default":
        return made
    factor = rules.number("factor", 1.0, 2.0**20)
    if kind == "linear":
        return replace(made, linear=factor)
    low, high = (rules.number(f"{end}_freq_factor", 0.0, 2.0**20) for end in ("low", "high"))
    if low >= high:
        raise rules.error("low_freq_factor", f"less than high_freq_factor {high}", low)
    original = rules.integer("original_max_position_embeddings", 1, POSITIONS)
    return replace(made, llama3=Llama3(factor, low, high, original))


def _kind(rules: Config, *more: str) -> str:
    field = "rope_type" if "rope_type" in rules else "type"
    return rules.choice(field, ("default", "linear", "llama3", *more), "default")


def _long(config: Config, rules: Config, rope: Rope, model: Decoder) -> tuple[Rope, Decoder]:
    """Of divisors for short and for long contexts those for short ones, which the model's context then is."""
    holder = rules if "original_max_position_embeddings" in rules else config
    trained = holder.integer("original_max_position_embeddings", 2, POSITIONS)
    factor = rules.number("factor", 1.0, 2.0**20, max(1.0, model.context / trained))
    magnitude = rules.number("attention_factor", 2.0**-20, 2.0**20, lengthened(factor, trained))
    rules.numbers("long_factor", rope.pairs)
    rope = replace(rope, divisors=rules.numbers("short_factor", rope.pairs), magnitude=rounded(magnitude))
    return rope, replace(model, context=min(model.context, trained))


def windows(config: Config, layers: int) -> tuple[int, ...]:
    """Each layer's window: by `layer_types`, or the same for all."""
    kinds = config.choices("layer_types", ("sliding_attention", "full_attention"), layers)
    if "sliding_window" not in config or not config.flag("use_sliding_window", True):
        return ()
    window = config.integer("sliding_window", 1, MOST)
    if kinds is None:
        return (window,) * layers
    return told(window if kind == "sliding_attention" else 0 for kind in kinds)


def told(windows: Iterable[int]) -> tuple[int, ...]:
    """Each layer's window; nothing where none has one."""
    found = tuple(windows)
    return found if any(found) else ()


def qwen2(config: Config, name: str) -> Decoder:
    """A shape with a window only where the config turns it on, from layer `max_window_layers` on."""
    model = like(config, name)
    if not model.windows or not config.flag("use_sliding_window", False):
        return replace(model, windows=())
    first = 0 if "layer_types" in config else config.integer("max_window_layers", 0, MOST, model.layers)
    windows = (0 if layer < first else window for layer, window in enumerate(model.windows))
    return replace(model, windows=told(windows))


def qwen3(config: Config, name: str) -> Decoder:
    """The same, with normalised heads."""
    biases = (*QKV, "attn_output") if config.flag("attention_bias", False) else ()
    return replace(qwen2(config, name), biases=biases, head_norms=True)


def phi3(keys: Hyperparameters) -> Decoder:
    """The shape that a GGUF file says, its window too, as transformers sees it (llama.cpp leaves it out)."""
    model = gguf_decoder.like(keys)
    window = keys.integer("attention.sliding_window", 0, MOST, 0)
    return replace(model, windows=(window,) * model.layers if window else ())


GATE_UP = ("ffn_gate", "ffn_up")
SIDE_BY_SIDE = dict.fromkeys(QKV, "self_attn.qkv_proj") | dict.fromkeys(GATE_UP, "mlp.gate_up_proj")
LAYOUT = Layout(LAYER, REST)
ARCHITECTURES = {
    "llama": Architecture(from_config, LAYOUT, from_gguf),
    "mistral": Architecture(like, LAYOUT, from_gguf),
    "qwen2": Architecture(
        lambda config, name: replace(qwen2(config, name), biases=QKV),
        LAYOUT,
        lambda keys: replace(gguf_decoder.like(keys), biases=QKV),
    ),
    "qwen3": Architecture(qwen3, LAYOUT, lambda keys: replace(gguf_decoder.like(keys), head_norms=True)),
    "phi3": Architecture(
        like, Layout(LAYER | SIDE_BY_SIDE, REST), phi3, fused={"attn_qkv": QKV, "ffn_up": GATE_UP}
    ),
}
