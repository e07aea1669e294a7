"""A language model as a graph: one step over a ragged batch, for prefill, decoding and everything between; or
an embedder, of which a step has whole texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from assay.formats.fields import rounded
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.models.decoder import Decoder, weights
from assay.models.rope import Rope, frequencies
from assay.models.shape import root
from assay.ops.builder import Builder
from assay.ops.sample import PARAMETERS
from assay.tensor.dtype import F32, I32, DType


def computed(model: Decoder) -> Mapping[str, NDArray[np.generic]]:
    """Weights that no file holds. `share` is a vector of length 1 whose elements are equal."""
    share = np.full(model.hidden, rounded(1 / root(model.hidden)), np.float32)
    return {_table(model, rope): frequencies(rope) for rope in model.ropes if rope} | {"share": share}


Lora = Mapping[str, NDArray[np.float32]]


def graph(
    model: Decoder,
    dtypes: Mapping[str, DType],
    cache: DType,
    pages: int,
    table: int,
    lora: Lora = MappingProxyType({}),
) -> Graph:
    """One step: T tokens of S sequences with at most `table` pages each, logits and a sampled token for R of
    the rows, A of which have their logits adjusted; of an embedder the vectors of tokens and sequences.

    `dtypes` has each weight's element type; the cache is `pages` pages of `cache` elements. `lora` are the
    adapters' weights (see adapters.py): with them each token says which one it has.
    """
    return _Step(model, dtypes, cache, pages, table, lora).graph()


def _table(model: Decoder, rope: Rope) -> str:
    """The name of a rotation's frequencies: a model has one or two of them."""
    others = list(dict.fromkeys(each for each in model.ropes if each))
    return f"rope_frequencies.{others.index(rope)}" if len(others) > 1 else "rope_frequencies"


class _Step:
    """The graph while it is built."""

    def __init__(
        self, model: Decoder, dtypes: Mapping[str, DType], cache: DType, pages: int, table: int, lora: Lora
    ) -> None:
        b = self.b = Builder(model.name)
        self.model, self.dtypes, self.cache, self.pages = model, dtypes, cache, pages
        self.wanted = weights(model)
        self.tokens, self.positions = b.input("tokens", I32, "T"), b.input("positions", I32, "T")
        self.slots = b.input("slots", I32, "T")
        self.lora, self.adapter = lora, b.input("adapter", I32, "T") if lora else ""
        self.batch = (
            b.input("spans", I32, "S + 1"),
            b.input("pasts", I32, "S"),
            b.input("table", I32, "S", table),
        )
        self.cached: tuple[str, ...] = ()
        """Keys and values as the layer before left them."""
        self.turns = {rope: self._turns(rope) for rope in dict.fromkeys(model.ropes) if rope}

    def graph(self) -> Graph:
        b, model = self.b, self.model
        table = self._weight("token_embd.weight")
        x = b.op("embedding", self.tokens, table, name="token_embd", output="embedded")
        if model.embedding_scale != 1.0:
            x = b.op(
                "scale", x, name="embedding_scale", output="embedding_scale", factor=model.embedding_scale
            )
        if model.positions:
            places = self._weight("position_embd.weight")
            place = b.op("embedding", self.positions, places, name="position_embd", output="position_embd")
            x = b.op("add", x, place, name="placed", output="placed")
        if model.encoder:
            types, kinds = b.input("types", I32, "T"), self._weight("token_types.weight")
            kind = b.op("embedding", types, kinds, name="token_types", output="token_types")
            x = b.op("add", x, kind, name="typed", output="typed")
            x = self._norm(x, "token_embd_norm")
        for layer in range(model.layers):
            x = self._layer(x, layer)
        for value in self._pooled(x) if model.embeds else self._sampled(x, table):
            b.output(value)
        return b.graph()

    def _sampled(self, x: str, table: str) -> tuple[str, ...]:
        """Of the rows that are asked for hidden states, logits, and a token with its probability."""
        b, model = self.b, self.model
        rows = b.input("rows", I32, "R")
        adjusting = (
            b.input("asking", I32, "A"), b.input("adjust.allowed", I32, "A", -(-model.vocabulary // 32)),
            b.input("adjust.spans", I32, "A + 1"), b.input("adjust.ids", I32, "E"),
            b.input("adjust.counts", I32, "E"), b.input("adjust.biases", F32, "E"),
            b.input("adjust.penalties", F32, "A", 3),
        )  # fmt: skip
        sampling = tuple(b.input(name, dtype, "R") for name, dtype in PARAMETERS.items())
        x = b.op("gather_rows", x, rows, name="rows", output="wanted")
        final = self._norm(x, "output_norm", "final")
        head = table if model.tied else self._weight("output.weight")
        logits = b.op(
            "linear", final, head, name="output", output="logits" if not model.logit_cap else "uncapped"
        )
        if model.logit_cap:
            logits = self._capped(logits)
        adjusted = b.op("adjust", logits, *adjusting, name="adjust", output="adjusted")
        return final, logits, *b.ops("sample", logits, adjusted, *sampling, name="sample", output="sample")

    def _pooled(self, x: str) -> tuple[str, ...]:
        """The vectors of all tokens, their mean over the rows `first` ≤ t < `last` of each sequence, and that
        divided by its length.
        """
        b = self.b
        if not self.model.encoder:
            x = self._norm(x, "output_norm", "final")
        runs = b.input("first", I32, "S"), b.input("last", I32, "S")
        mean = b.op("segment_mean", x, *runs, name="mean", output="mean")
        share = b.weight("share", F32, self.model.hidden)
        # x / √(Σx² / N) · (1 / √N) has length 1; the epsilon keeps what is 0.
        return x, mean, b.op("rms_norm", mean, share, name="unit", output="unit", epsilon=2.0**-100)

    def _layer(self, x: str, layer: int) -> str:
        b, model, at = self.b, self.model, f"blk.{layer}"
        attended = self._attention(x if model.encoder else self._norm(x, f"{at}.attn_norm"), layer)
        mixed = self._linear(attended, f"{at}.attn_output")
        if model.post_norms:
            mixed = self._norm(mixed, f"{at}.post_attention_norm")
        x = b.op("add", x, mixed, name=f"{at}.attn_residual", output=f"{at}.attn_residual")
        if model.encoder:
            x = self._norm(x, f"{at}.attn_output_norm")
        fed = self._feed_forward(x if model.encoder else self._norm(x, f"{at}.ffn_norm"), at)
        if model.post_norms:
            fed = self._norm(fed, f"{at}.post_ffw_norm")
        x = b.op("add", x, fed, name=f"{at}.ffn_residual", output=f"{at}.ffn_residual")
        return self._norm(x, f"{at}.layer_output_norm") if model.encoder else x

    def _attention(self, x: str, layer: int) -> str:
        b, model, at = self.b, self.model, f"blk.{layer}"
        q, k, v = (self._linear(x, f"{at}.{part}") for part in ("attn_q", "attn_k", "attn_v"))
        if model.head_norms:
            q = self._head_norm(q, f"{at}.attn_q_norm", model.heads)
            k = self._head_norm(k, f"{at}.attn_k_norm", model.kv_heads)
        rope = model.ropes[layer]
        if rope:
            q = self._rotate(q, rope, model.heads, f"{at}.rope_q")
            k = self._rotate(k, rope, model.kv_heads, f"{at}.rope_k")
        if not (model.embeds and self.cached):  # an embedder's layers have one cache in turn
            shape = (self.pages, model.kv_heads)
            keys = b.state(f"{at}.keys", self.cache, *shape, model.head_dim, PAGE)
            self.cached = keys, b.state(f"{at}.values", self.cache, *shape, PAGE, model.head_dim)
        self.cached = b.ops("cache_write", k, v, self.slots, *self.cached, name=f"{at}.cache")
        return b.op(
            "attention", q, *self.cached, *self.batch, name=f"{at}.attn", output=f"{at}.attn",
            heads=model.heads, scale=model.attention_scale or rounded(1 / root(model.head_dim)),
            window=model.window(layer), cap=model.attention_cap, causal=not model.encoder,
        )  # fmt: skip

    def _feed_forward(self, x: str, at: str) -> str:
        b, model = self.b, self.model
        inner = self._linear(x, f"{at}.ffn_gate") if model.gated else ""
        up = self._linear(x, f"{at}.ffn_up")
        active = b.op(model.activation, inner or up, name=f"{at}.ffn_act", output=f"{at}.ffn_act")
        if model.gated:
            active = b.op("mul", active, up, name=f"{at}.ffn_mul", output=f"{at}.ffn_mul")
        return self._linear(active, f"{at}.ffn_down")

    def _linear(self, x: str, name: str) -> str:
        """A linear map, with its bias and its adapters where it has some; the part's name is the value's."""
        b, bias, maps = self.b, f"{name}.bias", [f"{name}.lora_a", f"{name}.lora_b"]
        base = f"{name}.base" if maps[0] in self.lora else name
        y = f"{name}.map" if bias in self.wanted else base
        b.op("linear", x, self._weight(f"{name}.weight"), name=name, output=y)
        if bias in self.wanted:
            b.op("bias", y, self._weight(bias), name=bias, output=base)
        if maps[0] in self.lora:
            added = [b.weight(each, F32, *self.lora[each].shape) for each in maps]
            b.op("lora", base, x, self.adapter, *added, name=f"{name}.lora", output=name)
        return name

    def _norm(self, x: str, name: str, output: str = "") -> str:
        weights = [self._weight(f"{name}.weight")]
        if self.model.norm == "layer_norm":
            weights.append(self._weight(f"{name}.bias"))
        epsilon = self.model.epsilon
        return self.b.op(self.model.norm, x, *weights, name=name, output=output or name, epsilon=epsilon)

    def _head_norm(self, x: str, name: str, heads: int) -> str:
        weight, epsilon = self._weight(f"{name}.weight"), self.model.epsilon
        return self.b.op("rms_norm", x, weight, name=name, output=name, epsilon=epsilon, groups=heads)

    def _turns(self, rope: Rope) -> str:
        b, name = self.b, _table(self.model, rope)
        output = name.replace("rope_frequencies", "turns")
        table = b.weight(name, F32, rope.pairs)
        turns = b.op(
            "rotary_table", self.positions, table, name=name.replace("_frequencies", ""), output=output
        )
        if rope.magnitude == 1.0:
            return turns
        return b.op("scale", turns, name=f"{output}.long", output=f"{output}.long", factor=rope.magnitude)

    def _rotate(self, x: str, rope: Rope, heads: int, name: str) -> str:
        return self.b.op(
            "rotary", x, self.turns[rope], name=name, output=name,
            heads=heads, head_dim=self.model.head_dim, pairing=rope.pairing,
        )  # fmt: skip

    def _capped(self, logits: str) -> str:
        """cap · tanh(logits / cap)."""
        b, cap = self.b, self.model.logit_cap
        x = b.op("scale", logits, name="logits.down", output="logits.down", factor=rounded(1 / cap))
        x = b.op("tanh", x, name="logits.tanh", output="logits.tanh")
        return b.op("scale", x, name="logits.cap", output="logits", factor=cap)

    def _weight(self, name: str) -> str:
        return self.b.weight(name, self.dtypes[name], *self.wanted[name].shape)
