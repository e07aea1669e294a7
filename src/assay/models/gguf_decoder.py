"""A decoder-only model, read from a GGUF file: what the graph can't be built from is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.formats.fields import GREATEST, Keys
from assay.formats.tensors import GgufContents, TensorInfo
from assay.kernels.sizes import POSITIONS
from assay.models import architecture
from assay.models.decoder import Decoder, Pooling
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Layout, Part
from assay.models.pooling import KINDS
from assay.models.rope import Rope
from assay.models.shape import sized

NAMES = {
    "layers": "block_count",
    "hidden": "embedding_length",
    "feed_forward": "feed_forward_length",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "context": "context_length",
    "epsilon": "attention.layer_norm_rms_epsilon",
}
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
DIVISORS = "rope_freqs.weight"
LAYOUT = "Meta AI original pth"
"""What old converters call the order of rows that rotates neighbours."""


def from_gguf(file: GgufContents) -> tuple[Decoder, dict[str, Part], dict[str, TensorInfo]]:
    """The shape that a file's metadata say, where each weight lies, and the tensors that weights lie in.

    Every key of the architecture is used, or is held to the value that changes nothing. Raises FormatError.
    """
    keys, model, parts = read(file)
    keys.finish()
    return model, parts, {name: info for name, info in file.tensors.items() if name not in keys.tensors}


def read(file: GgufContents) -> tuple[Hyperparameters, Decoder, dict[str, Part]]:
    """The keys of the file's architecture, all used that are known, and what they say."""
    name = Keys(file.metadata, str(file.path)).text("general.architecture")
    place = f"{file.path} › key 'general.architecture'"
    kind = architecture.find(name, place, architecture.GGUF_NAMES)
    keys = Hyperparameters(file, name)
    pooled = ("", *KINDS)[keys.integer("pooling_type", 0, len(KINDS), 0)]
    model = replace(kind.from_gguf(keys), pooling=Pooling(pooled))
    for key, value in (
        ("vocab_size", model.vocabulary),
        ("attention.value_length", model.head_dim),
        ("attention.causal", not model.encoder),
        ("expert_count", 0),
        ("expert_used_count", 0),
        ("tensor_data_layout", LAYOUT),
    ):
        keys.neutral(key, value)
    fused = {
        source: members for source, members in kind.fused.items() if f"blk.0.{source}.weight" in file.tensors
    }
    return keys, model, placed(model, fused)


def placed(model: Decoder, fused: Mapping[str, tuple[str, ...]]) -> dict[str, Part]:
    """Where weights lie in a GGUF file, some of them side by side."""
    inside = {member: source for source, members in fused.items() for member in members}
    return Layout(inside, {}, "blk").parts(model)


def like(keys: Hyperparameters, pairing: str = "halves", names: Mapping[str, str] = NAMES) -> Decoder:
    """What the files of all architectures say alike; `pairing` is that of the rotation, "" for none."""
    file = keys.file
    name = Keys(file.metadata, keys.place).text("general.name", file.path.stem)
    model = sized(keys, names, name, keys.rows("token_embd.weight"))
    blocks = len({name.split(".")[1] for name in file.tensors if name.startswith("blk.")})
    if model.layers > blocks:
        want = f"at most {blocks}, as many as there are tensors of"
        raise keys.error(names["layers"], want, model.layers)
    model = replace(model, tied="output.weight" not in file.tensors)
    return _turned(keys, model, pairing) if pairing else model


def _turned(keys: Hyperparameters, model: Decoder, pairing: str) -> Decoder:
    """The model with its rotation. Frequencies' divisors for a longer context than the model was trained on
    aren't used: the model's context is then the one that it was trained on.
    """
    turned = keys.integer("rope.dimension_count", 2, model.head_dim, model.head_dim)
    if turned % 2:
        raise keys.error("rope.dimension_count", "an even number: pairs are rotated", turned)
    kind = keys.choice("rope.scaling.type", ("none", "linear", "longrope"), "linear")
    most = 2.0**20 if kind == "linear" else 1.0
    linear = keys.number("rope.scaling.factor", 1.0, most, keys.number("rope.scale_linear", 1.0, most, 1.0))
    keys.aside("rope.scaling.finetuned")
    trained = keys.integer("rope.scaling.original_context_length", 2, POSITIONS, model.context)
    long = keys.vector(LONG, turned // 2, required=kind == "longrope")
    factors = SHORT if long else DIVISORS
    rope = Rope(
        keys.number("rope.freq_base", 1.0, GREATEST, 10000.0),
        turned // 2,
        pairing,
        linear,
        divisors=keys.vector(factors, turned // 2, required=bool(long)),
        magnitude=keys.number("rope.scaling.attn_factor", 2.0**-20, 2.0**20, 1.0),
    )
    context = min(model.context, int(trained * linear))
    return replace(model, ropes=(rope,) * model.layers, context=context)
