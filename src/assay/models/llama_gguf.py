"""A llama model's shape, read from a GGUF file: what the graph can't be built from is refused."""

from __future__ import annotations

from assay.formats.gguf import GgufFile
from assay.kernels.sizes import POSITIONS
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.rope import Rope

MOST = (1 << 31) - 1
"""More than any size, of those that are held against tensors later."""
HEAD = range(16, 257, 16)
"""Elements of a head: see the operator `attention`."""
LEAST_NORMAL, GREATEST = 2.0**-126, 2.0**127
"""Of float32."""
LAYOUT = "Meta AI original pth"
"""What old converters call the order of rows that rotates neighbours."""


def from_gguf(file: GgufFile) -> Decoder:
    """The configuration in a GGUF file's metadata, every key of it. Raises FormatError for another
    architecture, for values that no llama has and for keys whose meaning isn't known.
    """
    keys = Hyperparameters(file, file.require_architecture(("llama",)))
    table = file.tensor("token_embd.weight")
    hidden = keys.integer("embedding_length", 1, MOST)
    heads = keys.integer("attention.head_count", 1, MOST)
    kv_heads = keys.integer("attention.head_count_kv", 1, MOST, heads)
    if heads % kv_heads:
        raise keys.error("attention.head_count_kv", f"a divisor of {heads} query heads", str(kv_heads))
    head_dim = _head_dim(keys, hidden, heads)
    turned = keys.integer("rope.dimension_count", 2, head_dim, head_dim)
    if turned % 2:
        raise keys.error("rope.dimension_count", "an even number: pairs are rotated", str(turned))
    layers = _layers(keys, file)
    base = keys.number("rope.freq_base", 1.0, GREATEST, 10000.0)
    model = Decoder(
        name=file.expect("general.name", str, file.path.stem),
        layers=layers,
        hidden=hidden,
        feed_forward=keys.integer("feed_forward_length", 1, MOST),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=table.shape[0],
        context=keys.integer("context_length", 2, POSITIONS),
        epsilon=keys.number("attention.layer_norm_rms_epsilon", LEAST_NORMAL, 1.0),
        ropes=(Rope(base, turned // 2, "neighbours"),) * layers,
        tied="output.weight" not in file.tensors,
    )
    _neutral(keys, model)
    keys.finish()
    return model


def _head_dim(keys: Hyperparameters, hidden: int, heads: int) -> int:
    """Elements of a head: what the file says, or an equal part of the model."""
    key = "attention.key_length"
    given = keys.integer(key, 1, MOST, 0)
    if not given:
        key, given = "attention.head_count", hidden // heads
        if hidden % heads:
            raise keys.error(key, f"a divisor of the embedding's {hidden}", str(heads))
    if given not in HEAD:
        want = f"heads of a multiple of {HEAD.step} elements, at most {HEAD[-1]}"
        raise keys.error(key, want, f"{heads} heads of {given}")
    return given


def _layers(keys: Hyperparameters, file: GgufFile) -> int:
    """The number of blocks, no more than the file has tensors of."""
    named = (name.split(".") for name in file.tensors)
    blocks = len({parts[1] for parts in named if parts[0] == "blk" and len(parts) > 1})
    layers = keys.integer("block_count", 1, MOST)
    if layers > blocks:
        raise keys.error("block_count", f"at most {blocks}, as many as there are tensors of", str(layers))
    return layers


def _neutral(keys: Hyperparameters, model: Decoder) -> None:
    """Keys that change nothing as long as they say this."""
    for name, value in (
        ("vocab_size", model.vocabulary),
        ("attention.value_length", model.head_dim),
        ("attention.causal", True),
        ("rope.scaling.type", "none"),
        ("rope.scaling.factor", 1.0),
        ("rope.scale_linear", 1.0),
        ("expert_count", 0),
        ("expert_used_count", 0),
        ("tensor_data_layout", LAYOUT),
    ):
        keys.neutral(name, value)
