"""A model of another file as what a GGUF file has in it: written by reading, so that no rule is said twice.

All keys that could be said of the model are offered to our own reading of such files. Those that the reading
of its architecture asks for are kept, and what it makes of them must be the model again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError, shown
from assay.formats.fields import rounded
from assay.formats.gguf_types import MetadataValue
from assay.formats.recipe import KEPT
from assay.formats.tensors import TensorInfo
from assay.models import architecture
from assay.models.decoder import Decoder, weights
from assay.models.gguf_decoder import DIVISORS, NAMES, placed, read
from assay.models.parts import Weights, neighbours, stored
from assay.models.pooling import KINDS
from assay.models.rope import divided
from assay.tensor.dtype import F32, DType


@dataclass(frozen=True)
class Contents:
    """What a GGUF file is to have in it. Bytes are made when they are asked for."""

    path: Path
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, TensorInfo]
    raw: Callable[[str], NDArray[np.uint8]]


def contents(path: Path, name: str, model: Decoder, held: Weights) -> Contents:
    """The model, of the architecture `name`, with the keys that are about its shape. What lies side by side
    in its own file does so in the new one, and small matrices become float32, as converters do it.

    A window that no key can say is left out, and the context is then no longer than it. Raises FormatError
    for a model that such a file can't say.
    """
    name = name if name in architecture.GGUF_NAMES else "llama"
    fused = architecture.find(name, str(path)).fused if held.parts["blk.0.attn_q.weight"].total else {}
    parts, wanted, members = placed(model, fused), weights(model), dict[str, list[str]]()
    for weight in sorted(parts, key=lambda weight: parts[weight].first):
        members.setdefault(parts[weight].source, []).append(weight)
    held.dtypes |= {weight: F32 for weight in KEPT if weight in held.dtypes}
    tensors = {
        source: _info(source, held.dtypes[members[source][0]], want.shape)
        for source, want in stored(parts, wanted).items()
    }
    ropes = tuple(rope and divided(rope) for rope in model.ropes)
    divisors = np.array(ropes[0].divisors if ropes[0] and name == "llama" else (), np.float32)
    if divisors.size:
        tensors[DIVISORS] = _info(DIVISORS, F32, divisors.shape)
    turned = False

    def raw(source: str) -> NDArray[np.uint8]:
        if source == DIVISORS:
            return divisors.view(np.uint8)
        found = {each: held.raw(each).reshape(wanted[each].shape[0], -1) for each in members[source]}
        if turned:
            found = {each: neighbours(rows, each, model) for each, rows in found.items()}
        return np.concatenate([*found.values()]).reshape(-1)

    metadata: dict[str, MetadataValue] = {
        f"{name}.{key}": rounded(value) if isinstance(value, float) else value
        for key, value in _keys(model).items()
    }
    metadata |= {"general.architecture": name, "general.name": model.name}
    keys, read_back, _ = read(Contents(path, metadata, tensors, raw))
    if any(model.windows) and not read_back.windows:
        context = min(model.context, *filter(None, model.windows))
        return contents(path, name, replace(model, windows=(), context=context), held)
    pairing = read_back.ropes[0].pairing if read_back.ropes[0] else ""
    turned = ropes[0] is not None and ropes[0].pairing != pairing
    whole = [rope is not None and 2 * rope.pairs == model.head_dim for rope in ropes]
    same = tuple(r and (replace(r, pairing=pairing) if all(whole) else r) for r in ropes)
    meant = replace(model, ropes=same, pooling=replace(model.pooling, longest=0))
    for field in fields(Decoder):
        want, got = getattr(read_back, field.name), getattr(meant, field.name)
        if want != got:
            rule, place = "a model that a GGUF file can't say", f"{path} › config.json ({field.name})"
            raise FormatError(rule, place=place, want=shown(want), got=shown(got))
    kept = {key: value for key, value in metadata.items() if key in keys.asked or key.startswith("general.")}
    return Contents(path, kept, tensors, raw)


def _info(name: str, dtype: DType, shape: tuple[int, ...]) -> TensorInfo:
    return TensorInfo(name, dtype, shape, 0, dtype.nbytes(math.prod(shape)))


def _keys(model: Decoder) -> dict[str, MetadataValue]:
    """What any architecture's keys say of the model, without the architecture's name."""
    found = {key: getattr(model, size) for size, key in NAMES.items()}
    found |= {
        "attention.layer_norm_epsilon": model.epsilon,
        "attention.value_length": model.head_dim,
        "vocab_size": model.vocabulary,
    }
    ropes = {bool(model.window(layer)): rope for layer, rope in enumerate(model.ropes)}
    wide, local = ropes.get(False, model.ropes[0]), ropes.get(True, model.ropes[0])
    if wide and local:
        found |= {"rope.dimension_count": 2 * wide.pairs, "rope.freq_base": wide.base}
        found |= {"rope.freq_base_swa": local.base}
    if wide and wide.linear != 1.0:
        found |= {"rope.scaling.type": "linear", "rope.scaling.factor": wide.linear}
    optional = {
        "attention.sliding_window": max(model.windows, default=0),
        "attn_logit_softcapping": model.attention_cap,
        "final_logit_softcapping": model.logit_cap,
        "pooling_type": ("", *KINDS).index(model.pooling.kind),
    }
    if model.encoder:
        found["attention.causal"] = False
    return found | {key: value for key, value in optional.items() if value}
