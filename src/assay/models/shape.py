"""The sizes of a decoder-only model, from whatever names them: a config.json, or the keys of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from assay.formats.fields import LEAST_NORMAL, Fields, rounded
from assay.kernels.sizes import POSITIONS
from assay.models.decoder import Decoder

MOST = (1 << 31) - 1
"""More than any size, of those that are held against tensors later."""
LAYERS = 4096
HEAD = range(16, 257, 16)
"""Elements of a head: see the operator `attention`."""


def sized(
    fields: Fields,
    names: Mapping[str, str],
    name: str,
    vocabulary: int,
    epsilon: float | None = None,
    widths: int = 0,
) -> Decoder:
    """A model of these sizes, without rotation and with an output map of its own. `names` are what the format
    calls them, and `epsilon` what a missing one means; `widths` is the feed-forward part's default width in
    those of the model, 0 for none.
    """
    hidden = fields.integer(names["hidden"], 1, MOST)
    heads = fields.integer(names["heads"], 1, MOST)
    kv_heads = fields.integer(names["kv_heads"], 1, MOST, heads)
    if heads % kv_heads:
        raise fields.error(names["kv_heads"], f"a divisor of {heads} query heads", kv_heads)
    layers = fields.integer(names["layers"], 1, LAYERS)
    return Decoder(
        name=name,
        layers=layers,
        hidden=hidden,
        feed_forward=fields.integer(names["feed_forward"], 1, MOST, widths * hidden or None),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_head_dim(fields, names, hidden, heads),
        vocabulary=vocabulary,
        context=fields.integer(names["context"], 2, POSITIONS),
        epsilon=rounded(fields.number(names["epsilon"], LEAST_NORMAL, 1.0, epsilon)),
        ropes=(None,) * layers,
        tied=False,
    )


def _head_dim(fields: Fields, names: Mapping[str, str], hidden: int, heads: int) -> int:
    """Elements of a head: what the file says, or an equal part of the model."""
    given, at = fields.integer(names["head_dim"], 1, MOST, 0), names["head_dim"]
    if not given:
        given, at = hidden // heads, names["heads"]
        if hidden % heads:
            raise fields.error(at, f"a divisor of the embedding's {hidden}", heads)
    if given not in HEAD:
        raise fields.error(at, f"heads of a multiple of {HEAD.step} elements, at most {HEAD[-1]}", given)
    return given


def root(value: float) -> float:
    """√value, rounded to float32."""
    return float(np.sqrt(np.float32(value)))


def alternating(window: int, layers: int, period: int) -> tuple[int, ...]:
    """The window, but for the last layer of each period."""
    return tuple(window if layer % period < period - 1 else 0 for layer in range(layers))
