"""What language models differ in, and the weights that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.formats.tensors import Wanted
from assay.models.rope import Rope
from assay.tensor.dtype import BF16, F16, F32, RARE, WEIGHT_TYPES

VECTORS = (F32, F16, BF16)
"""How files may hold norms and biases, which the graph adds in float32."""


@dataclass(frozen=True)
class Pooling:
    """How the vectors of a text's tokens become one."""

    kind: str = ""
    """"mean", "cls" (the first token's) or "last"; "" where the model's files don't say."""
    unit: bool = True
    """Whether the vector is then divided by its length."""
    longest: int = 0
    """Tokens of the longest text; 0 for the context."""


@dataclass(frozen=True)
class Decoder:
    """The shape of a language model, a decoder unless it says `encoder`. Names of weights are GGUF's, without
    `.weight`.
    """

    name: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    epsilon: float
    ropes: tuple[Rope | None, ...]
    """Each layer's rotation of queries and keys; None for none."""
    tied: bool
    """Whether the output map is the token table."""
    positions: int = 0
    """Rows of a table of positions that is added to the tokens'; 0 for none."""
    norm: str = "rms_norm"
    """Or "layer_norm", whose weights have a bias each."""
    activation: str = "silu"
    """The operator: or "gelu_tanh" or "gelu"."""
    gated: bool = True
    """Whether the activation of one map is multiplied with another map."""
    biases: tuple[str, ...] = ()
    """Linear maps with a bias, such as "attn_q"."""
    head_norms: bool = False
    """Whether each head of queries and keys is normalised."""
    post_norms: bool = False
    """Whether what attention and the feed-forward part give is normalised before it is added."""
    windows: tuple[int, ...] = ()
    """Keys that a query of each layer sees; 0 for all."""
    embedding_scale: float = 1.0
    attention_scale: float = 0.0
    """Factor of the scores; 0 for 1 / √head_dim."""
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    encoder: bool = False
    """Whether each token sees the whole text, and layers normalise sums, not what they read: then there are
    no logits.
    """
    token_types: int = 0
    """Rows of an encoder's table of kinds of text."""
    pooling: Pooling = field(default_factory=Pooling)

    @property
    def embeds(self) -> bool:
        """Whether it makes vectors of texts, and not texts."""
        return self.encoder or bool(self.pooling.kind)

    @property
    def kv_elements(self) -> int:
        """Elements of the cache that one token takes."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def window(self, layer: int) -> int:
        """Keys that a query of this layer sees; 0 for all."""
        return self.windows[layer] if self.windows else 0


def weights(model: Decoder) -> dict[str, Wanted]:
    """The weights that the model's graph reads, by name."""
    hidden, queries = model.hidden, model.heads * model.head_dim
    keys = model.kv_heads * model.head_dim
    maps = {
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_up": (model.feed_forward, hidden),
        "ffn_down": (hidden, model.feed_forward),
    }
    if model.gated:
        maps["ffn_gate"] = (model.feed_forward, hidden)
    norms = ["attn_output_norm", "layer_output_norm"] if model.encoder else ["attn_norm", "ffn_norm"]
    if model.post_norms:
        norms += ["post_attention_norm", "post_ffw_norm"]
    layer: dict[str, tuple[int, ...]] = {f"{part}.weight": shape for part, shape in maps.items()}
    layer |= {f"{part}.bias": maps[part][:1] for part in model.biases}
    for part in norms:
        layer |= _norm(model, part)
    if model.head_norms:
        layer |= {f"{part}.weight": (model.head_dim,) for part in ("attn_q_norm", "attn_k_norm")}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (model.vocabulary, hidden)}
    if model.positions:
        shapes["position_embd.weight"] = (model.positions, hidden)
    for number in range(model.layers):
        shapes |= {f"blk.{number}.{part}": shape for part, shape in layer.items()}
    shapes |= _norm(model, "token_embd_norm" if model.encoder else "output_norm")
    if model.encoder:
        shapes["token_types.weight"] = (model.token_types, hidden)
    elif not model.tied:
        shapes["output.weight"] = (model.vocabulary, hidden)
    return {
        name: Wanted(shape, (*WEIGHT_TYPES, *RARE) if len(shape) == 2 else VECTORS)
        for name, shape in shapes.items()
    }


def _norm(model: Decoder, part: str) -> dict[str, tuple[int, ...]]:
    kinds = ("weight", "bias") if model.norm == "layer_norm" else ("weight",)
    return {f"{part}.{kind}": (model.hidden,) for kind in kinds}
