"""The llama architecture as a graph: one step over a ragged batch, for prefill, decoding and everything
between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.formats.inventory import Wanted
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.models.rope import frequencies
from assay.ops.builder import Builder
from assay.ops.weights import WEIGHT_TYPES
from assay.tensor.dtype import F32, I32, I64, DType


@dataclass(frozen=True)
class Llama:
    """The shape of a llama model."""

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
    rope_base: float
    rope_pairs: int
    pairing: str
    tied: bool
    """Whether the output map is the token table."""

    @property
    def kv_elements(self) -> int:
        """Elements of the cache that one token takes."""
        return 2 * self.layers * self.kv_heads * self.head_dim


FREQUENCIES = "rope_frequencies"


def computed(model: Llama) -> Mapping[str, NDArray[np.generic]]:
    """Weights that no file holds."""
    return {FREQUENCIES: frequencies(model.rope_base, model.rope_pairs)}


def weights(model: Llama) -> dict[str, Wanted]:
    """The weights that a file must hold, by name."""
    hidden, queries = model.hidden, model.heads * model.head_dim
    keys = model.kv_heads * model.head_dim
    layer = {
        "attn_norm": (hidden,),
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_norm": (hidden,),
        "ffn_gate": (model.feed_forward, hidden),
        "ffn_up": (model.feed_forward, hidden),
        "ffn_down": (hidden, model.feed_forward),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (model.vocabulary, hidden)}
    for number in range(model.layers):
        shapes |= {f"blk.{number}.{part}.weight": shape for part, shape in layer.items()}
    shapes["output_norm.weight"] = (hidden,)
    if not model.tied:
        shapes["output.weight"] = (model.vocabulary, hidden)
    return {
        name: Wanted(shape, WEIGHT_TYPES if len(shape) == 2 else (F32,)) for name, shape in shapes.items()
    }


def graph(model: Llama, dtypes: Mapping[str, DType], cache: DType, pages: int, table: int) -> Graph:
    """One step: T tokens of S sequences with at most `table` pages each, logits and a sampled token for R of
    the rows.

    `dtypes` has each weight's element type; the cache is `pages` pages of `cache` elements.
    """
    b = Builder(model.name)
    tokens = b.input("tokens", I32, "T")
    positions = b.input("positions", I32, "T")
    slots = b.input("slots", I32, "T")
    spans = b.input("spans", I32, "S + 1")
    pasts = b.input("pasts", I32, "S")
    pages_of = b.input("table", I32, "S", table)
    rows = b.input("rows", I32, "R")
    sampling = [
        b.input("temperature", F32, "R"), b.input("top_k", I32, "R"), b.input("top_p", F32, "R"),
        b.input("seed", I64, "R"), b.input("choice", I32, "R"), b.input("draw", I32, "R"),
    ]  # fmt: skip

    wanted = weights(model)

    def weight(name: str) -> str:
        return b.weight(name, dtypes[name], *wanted[name].shape)

    embedding = weight("token_embd.weight")
    turns = b.op(
        "rotary_table", positions, b.weight(FREQUENCIES, F32, model.rope_pairs), name="rope", output="turns"
    )
    x = b.op("embedding", tokens, embedding, name="token_embd", output="embedded")

    def rotate(value: str, heads: int, name: str) -> str:
        return b.op(
            "rotary",
            value,
            turns,
            name=name,
            output=name,
            heads=heads,
            head_dim=model.head_dim,
            pairing=model.pairing,
        )

    for layer in range(model.layers):
        at = f"blk.{layer}"

        def linear(value: str, part: str, at: str = at) -> str:
            name = f"{at}.{part}"
            return b.op("linear", value, weight(f"{name}.weight"), name=name, output=name)

        def norm(value: str, part: str, at: str = at) -> str:
            name = f"{at}.{part}"
            return b.op(
                "rms_norm",
                value,
                weight(f"{name}.weight"),
                name=name,
                output=name,
                epsilon=model.epsilon,
            )

        shape = (pages, model.kv_heads)
        keys = b.state(f"{at}.keys", cache, *shape, model.head_dim, PAGE)
        values = b.state(f"{at}.values", cache, *shape, PAGE, model.head_dim)
        normed = norm(x, "attn_norm")
        q = linear(normed, "attn_q")
        k = linear(normed, "attn_k")
        v = linear(normed, "attn_v")
        q = rotate(q, model.heads, f"{at}.rope_q")
        k = rotate(k, model.kv_heads, f"{at}.rope_k")
        keys, values = b.ops("cache_write", k, v, slots, keys, values, name=f"{at}.cache")
        attended = b.op(
            "attention", q, keys, values, spans, pasts, pages_of, name=f"{at}.attn", output=f"{at}.attn",
            heads=model.heads, scale=_scale(model.head_dim),
        )  # fmt: skip
        mixed = linear(attended, "attn_output")
        x = b.op("add", x, mixed, name=f"{at}.attn_residual", output=f"{at}.attn_residual")
        normed = norm(x, "ffn_norm")
        gate = linear(normed, "ffn_gate")
        up = linear(normed, "ffn_up")
        gate = b.op("silu", gate, name=f"{at}.ffn_act", output=f"{at}.ffn_act")
        both = b.op("mul", gate, up, name=f"{at}.ffn_mul", output=f"{at}.ffn_mul")
        down = linear(both, "ffn_down")
        x = b.op("add", x, down, name=f"{at}.ffn_residual", output=f"{at}.ffn_residual")
    x = b.op("gather_rows", x, rows, name="rows", output="wanted")
    x = b.op(
        "rms_norm",
        x,
        weight("output_norm.weight"),
        name="output_norm",
        output="final",
        epsilon=model.epsilon,
    )
    head = embedding if model.tied else weight("output.weight")
    logits = b.op("linear", x, head, name="output", output="logits")
    sampled, logprob = b.ops("sample", logits, *sampling, name="sample", output="sample")
    for value in (logits, sampled, logprob):
        b.output(value)
    return b.graph()


def _scale(head_dim: int) -> float:
    """1 / √head_dim, rounded to float32."""
    return float(np.float32(1) / np.sqrt(np.float32(head_dim)))
