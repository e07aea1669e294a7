"""The golden models as GGUF files, as the public converters write them: keys, names, changes of weights.

Needs NumPy and `gguf` only, so that llama.cpp's answers can be recorded where the engine isn't installed: see
tests/golden/make_gguf_architectures.py. The names of tensors are those that `gguf` maps published names to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).parents[1] / "golden"
LENGTH, POSITIONS = 150, (0, 63, 64, 101, 149)
"""Of the golden tokens so many are given to llama.cpp; where its logits are kept."""

Floats = NDArray[np.float32]
Config = dict[str, object]
Tensors = dict[str, Floats]


def stored(path: Path) -> Tensors:
    """A safetensors file of float32 or bfloat16, all as float32."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            raw = content[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
            if entry["dtype"] == "BF16":
                values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                values = np.frombuffer(raw, np.float32)
            found[name] = values.reshape(entry["shape"])
    return found


def whole(config: Config, key: str) -> int:
    value = config[key]
    assert isinstance(value, int)
    return value


def permuted(weight: Floats, heads: int) -> Floats:
    """Rows of each head so that what were halves become neighbours."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def divisors(config: Config, rules: dict[str, float]) -> Floats:
    """By how much llama 3.1's rule divides each frequency."""
    size = whole(config, "head_dim")
    found = []
    for pair in range(size // 2):
        wave = 2 * math.pi * rules["rope_theta"] ** (2 * pair / size)
        old, factor = rules["original_max_position_embeddings"], rules["factor"]
        low, high = rules["low_freq_factor"], rules["high_freq_factor"]
        if wave < old / high:
            found.append(1.0)
        elif wave > old / low:
            found.append(factor)
        else:
            smooth = (old / wave - low) / (high - low)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, np.float32)


def said(writer: gguf.GGUFWriter, config: Config) -> None:
    """The keys that most converters write."""
    writer.add_block_count(whole(config, "num_hidden_layers"))
    writer.add_context_length(whole(config, "max_position_embeddings"))
    writer.add_embedding_length(whole(config, "hidden_size"))
    writer.add_feed_forward_length(whole(config, "intermediate_size"))
    writer.add_head_count(whole(config, "num_attention_heads"))
    writer.add_head_count_kv(whole(config, "num_key_value_heads"))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config.get("head_dim"):
        writer.add_key_length(whole(config, "head_dim"))
        writer.add_value_length(whole(config, "head_dim"))


def llama(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    said(writer, config)
    heads = whole(config, "num_attention_heads")
    rules = config["rope_parameters"]
    assert isinstance(rules, dict)
    writer.add_rope_freq_base(rules["rope_theta"])
    writer.add_vocab_size(whole(config, "vocab_size"))
    writer.add_rope_dimension_count(config.get("head_dim") or whole(config, "hidden_size") // heads)
    changed = dict(tensors)
    for name, weight in tensors.items():
        for part, count in (("q_proj", heads), ("k_proj", whole(config, "num_key_value_heads"))):
            if part in name:
                changed[name] = permuted(weight, count)
    if rules["rope_type"] == "llama3":
        changed["rope_freqs.weight"] = divisors(config, rules)
    return changed


def plain(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    """qwen2 and qwen3."""
    said(writer, config)
    rules = config["rope_parameters"]
    assert isinstance(rules, dict)
    writer.add_rope_freq_base(rules["rope_theta"])
    return tensors


def gemma(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    said(writer, config)
    rules = config["rope_parameters"]
    assert isinstance(rules, dict)
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    else:
        writer.add_rope_freq_base(rules["full_attention"]["rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rules["full_attention"]["factor"])
    writer.add_sliding_window(whole(config, "sliding_window"))
    one = np.float32(1)
    return {
        name: weight + one if name.endswith("norm.weight") else weight for name, weight in tensors.items()
    }


def phi3(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    said(writer, config)
    rules = config["rope_parameters"]
    assert isinstance(rules, dict)
    size = whole(config, "hidden_size") // whole(config, "num_attention_heads")
    writer.add_rope_dimension_count(int(rules["partial_rotary_factor"] * size))
    writer.add_rope_freq_base(rules["rope_theta"])
    writer.add_rope_scaling_orig_ctx_len(whole(config, "original_max_position_embeddings"))
    writer.add_sliding_window(config["sliding_window"] or 0)
    return tensors


def gpt2(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    writer.add_block_count(whole(config, "n_layer"))
    writer.add_context_length(whole(config, "n_positions"))
    writer.add_embedding_length(whole(config, "n_embd"))
    writer.add_feed_forward_length(4 * whole(config, "n_embd"))
    writer.add_head_count(whole(config, "n_head"))
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    turned = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    return {name: weight.T if name.endswith(turned) else weight for name, weight in tensors.items()}


def bert(writer: gguf.GGUFWriter, config: Config, tensors: Tensors) -> Tensors:
    writer.add_block_count(whole(config, "num_hidden_layers"))
    writer.add_context_length(whole(config, "max_position_embeddings"))
    writer.add_embedding_length(whole(config, "hidden_size"))
    writer.add_feed_forward_length(whole(config, "intermediate_size"))
    writer.add_head_count(whole(config, "num_attention_heads"))
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_vocab_size(whole(config, "vocab_size"))
    return {name: weight for name, weight in tensors.items() if "pooler" not in name}


def write_bert(path: Path, pooling: gguf.PoolingType) -> None:
    """Write the golden bert as an embedder, with the words of WORDS and letters as its vocabulary."""
    folder = GOLDEN / "bert"
    config, tensors = json.loads((folder / "config.json").read_text()), stored(folder / "model.safetensors")
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("small")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_pooling_type(pooling)
    tensors = bert(writer, config, tensors)
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(97 + index) for index in range(26)]
    # Where BERT's own are: llama.cpp doesn't read every id.
    tokens = ["[PAD]", *(f"[unused{index}]" for index in range(99)), *special]
    tokens += [*(f"▁{each}" for each in (*WORDS, *letters, ".", "!")), *letters, "ing"]
    tokens += [f"[unused{index}]" for index in range(len(tokens), whole(config, "vocab_size"))]
    writer.add_token_type_count(whole(config, "type_vocab_size"))
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("bert-bge")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in ("[PAD]", *special) else 1 for token in tokens])
    for name, index in (("unknown", 100), ("cls", 101), ("seperator", 102), ("padding", 0), ("mask", 103)):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", index)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for stem, weight in tensors.items():
        mapped = names.get_name(stem, (".weight", ".bias"))
        assert mapped, stem
        writer.add_tensor(mapped, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


WORDS = ("the", "cat", "sits", "out", "side", "man", "is", "play")
BERT_TEXTS = ["The cat sits outside.", "A man is playing guitar!", "x", "a cat " * 50, "Käse 机器 the"]
Convert = Callable[[gguf.GGUFWriter, Config, Tensors], Tensors]
Change = Callable[[Config, Tensors], object]


def biased(config: Config, tensors: Tensors) -> None:
    """Every map of the layers gets a bias."""
    rng = np.random.default_rng(5)
    for name, weight in list(tensors.items()):
        if name.endswith("proj.weight"):
            tensors[name.replace(".weight", ".bias")] = rng.normal(0, 0.2, len(weight)).astype(np.float32)


def partly_rotated(config: Config, tensors: Tensors) -> None:
    """Three quarters of a head are rotated, by frequencies with divisors for short and for long contexts."""
    rules = config["rope_parameters"]
    assert isinstance(rules, dict)
    rules["partial_rotary_factor"] = 0.75
    config["original_max_position_embeddings"] = 256
    tensors["rope_factors_short.weight"] = np.linspace(1.0, 2.5, 6, dtype=np.float32)
    tensors["rope_factors_long.weight"] = np.linspace(3.0, 40.0, 6, dtype=np.float32)


def side_by_side(config: Config, tensors: Tensors) -> None:
    """Queries, keys and values in one tensor, as newer converters can write them for any architecture."""
    for layer in range(whole(config, "num_hidden_layers")):
        for kind in ("weight", "bias"):
            parts = [tensors.pop(f"model.layers.{layer}.self_attn.{part}_proj.{kind}") for part in "qkv"]
            tensors[f"blk.{layer}.attn_qkv.{kind}"] = np.concatenate(parts)


def nothing(config: Config, tensors: Tensors) -> None:
    """The model as it is."""


@dataclass(frozen=True)
class Model:
    """A golden model, its architecture's converter, what is changed before, and keys beside the converter's.
    One that nothing is changed in answers as its golden data say, too, while positions are below `alike`.
    """

    golden: str
    convert: Convert
    architecture: str = ""
    change: Change = nothing
    keys: tuple[tuple[str, str | float], ...] = ()
    alike: int = 1 << 20


LINEAR = (("rope.scaling.type", "linear"), ("rope.scaling.factor", 4.0))
MODELS = {
    "llama": Model("llama", llama),
    "llama-wide": Model("llama-wide", llama, "llama"),
    "llama-linear": Model("llama", llama, keys=LINEAR, alike=0),
    "llama-biases": Model("llama", llama, change=biased, alike=0),
    "mistral": Model("mistral", llama, "llama", alike=100),  # no file says that there is a window
    "qwen2": Model("qwen2", plain),
    "qwen2-side-by-side": Model("qwen2", plain, change=side_by_side),
    "qwen3": Model("qwen3", plain),
    "gemma2": Model("gemma2", gemma),
    "gemma3": Model("gemma3", gemma),
    "phi3": Model("phi3", phi3),
    "phi3-long": Model(
        "phi3", phi3, change=partly_rotated, keys=(("rope.scaling.attn_factor", 1.25),), alike=0
    ),
    "gpt2": Model("gpt2", gpt2),
}


def letters() -> list[str]:
    """GPT-2's alphabet of bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [*map(chr, printable), *(chr(256 + index) for index in range(256 - len(printable)))]


def write(path: Path, name: str) -> list[int]:
    """Write the file; the tokens that the golden model was given."""
    model = MODELS[name]
    folder = GOLDEN / model.golden
    config, tensors = json.loads((folder / "config.json").read_text()), stored(folder / "model.safetensors")
    model.change(config, tensors)
    architecture = model.architecture or model.golden
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("small")  # llama.cpp looks for tokens of its own where it says phi-3
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    tensors = model.convert(writer, config, tensors)
    for key, value in model.keys:
        if isinstance(value, str):
            writer.add_string(f"{architecture}.{key}", value)
        else:
            writer.add_float32(f"{architecture}.{key}", value)
    tokens = [*letters(), "ab", *(f"<|{index}|>" for index in range(63))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(319)
    writer.add_eos_token_id(319)
    kind = next(kind for kind, text in gguf.MODEL_ARCH_NAMES.items() if text == architecture)
    names = gguf.get_tensor_name_map(kind, config.get("num_hidden_layers") or config["n_layer"])
    for stem, weight in tensors.items():
        mapped = names.get_name(stem, (".weight", ".bias")) or stem
        writer.add_tensor(mapped, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found: list[int] = np.load(folder / "tokens.npy").tolist()
    return found
