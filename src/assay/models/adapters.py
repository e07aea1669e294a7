"""LoRA adapters in PEFT's layout: adapter_config.json beside adapter_model.safetensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.formats.files import member
from assay.formats.inventory import Wanted, hold
from assay.formats.quant import dequantise
from assay.formats.safetensors import SafetensorsFiles, open_safetensors
from assay.formats.strict_json import JsonValue, read_json
from assay.formats.tensors import quoted
from assay.models.config import Config
from assay.models.decoder import VECTORS, Decoder, weights
from assay.models.parts import Part
from assay.models.shape import GREATEST, MOST

Floats = NDArray[np.float32]
CONFIG, WEIGHTS, PREFIX = "adapter_config.json", "adapter_model.safetensors", "base_model.model."
CONFIG_LIMIT = 1 << 20
READ = ("peft_type", "r", "lora_alpha", "use_rslora", "target_modules", "bias", "init_lora_weights")
ASIDE = (
    "auto_mapping", "base_model_name_or_path", "exclude_modules", "fan_in_fan_out", "inference_mode",
    "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "peft_version",
    "qalora_group_size", "revision", "task_type",
)  # fmt: skip
"""What a config says of training, or what the tensors' names say too. Any other key must be empty."""


@dataclass(frozen=True)
class Adapter:
    """What is added to linear maps, by the weight's name: b · a of float32 a[R, K] and b[N, R], which has the
    scale in it.
    """

    maps: Mapping[str, tuple[Floats, Floats]]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        found = sha256()
        for name, maps in self.maps.items():
            for each in maps:
                found.update(f"{name} {each.shape}".encode() + each.tobytes())
        return found.digest()


def read_adapter(folder: Path, model: Decoder, modules: Mapping[str, Part]) -> Adapter:
    """The adapter in a folder, for a model whose weights lie so in a folder of Hugging Face's. Raises
    FormatError for what isn't a plain LoRA of linear maps in the model's blocks.
    """
    fields = read_json(member(folder, CONFIG), CONFIG_LIMIT)
    config = Config(fields, f"{folder} › {CONFIG}")
    rank, scale = _settings(config, fields)
    wanted, keys = dict[str, Wanted](), dict[str, tuple[str, str]]()
    with open_safetensors(member(folder, WEIGHTS)) as file:
        for name, want in weights(model).items():
            if not name.startswith("blk.") or len(want.shape) != 2:
                continue
            part, (n, k) = modules[name], want.shape
            stem = PREFIX + part.source.removesuffix(".weight")
            pair = f"{stem}.lora_A.weight", f"{stem}.lora_B.weight"
            if not file.tensors.keys().isdisjoint(pair):
                keys[name] = pair
                shapes = (rank, k), (part.total or n, rank)
                wanted |= {key: Wanted(shape, VECTORS) for key, shape in zip(pair, shapes, strict=True)}
        hold(file.tensors, wanted, f"{folder} › {WEIGHTS}")
        if not wanted:
            raise FormatError("an adapter that changes nothing", place=f"{folder} › {WEIGHTS}")
        targets = fields.get("target_modules")
        for target in targets if isinstance(targets, list) else ():
            if not any(key.endswith(f".{target}.lora_A.weight") for key in wanted):
                raise config.error("target_modules", "names of modules that there are tensors for", target)
        maps = {}
        for name, (a, b) in keys.items():
            first, rows = modules[name].first, weights(model)[name].shape[0]
            scaled = _values(file, b, scale)[first : first + rows]
            maps[name] = (_values(file, a), np.ascontiguousarray(_ordered(scaled, name, model)))
    return Adapter(maps)


def stacked(adapters: Sequence[Adapter]) -> dict[str, Floats]:
    """What the graph's `lora` nodes read, by name: of each map that any adapter changes, a[G, K, R] and
    b[G, R, N] of all of them, filled up with zeros.
    """
    found: dict[str, Floats] = {}
    for name in dict.fromkeys(name for adapter in adapters for name in adapter.maps):
        given = [(index, *each.maps[name]) for index, each in enumerate(adapters) if name in each.maps]
        rank, (_, a, b) = max(len(a) for _, a, _ in given), given[0]
        down = np.zeros((len(adapters), a.shape[1], rank), np.float32)
        up = np.zeros((len(adapters), rank, len(b)), np.float32)
        for index, a, b in given:
            down[index, :, : len(a)], up[index, : len(a)] = a.T, b.T
        stem = name.removesuffix(".weight")
        found |= {f"{stem}.lora_a": down, f"{stem}.lora_b": up}
    return found


def _settings(config: Config, fields: Mapping[str, JsonValue]) -> tuple[int, np.float32]:
    """The rank, and the factor of b · a."""
    config.choice("peft_type", ("LORA",))
    config.choice("bias", ("none",), "none")
    for name, value in fields.items():
        if value and name not in (*READ, *ASIDE):
            raise config.error(name, "none", value, "an adapter of a kind that isn't supported")
    initial = fields.get("init_lora_weights")
    if initial not in (None, True, False, "gaussian", "orthogonal", "eva"):
        raise config.error("init_lora_weights", "one that leaves the model's weights as they are", initial)
    rank = config.integer("r", 1, MOST)
    root = math.sqrt(rank) if config.flag("use_rslora", False) else rank
    return rank, np.float32(config.number("lora_alpha", -GREATEST, GREATEST) / root)


def _values(file: SafetensorsFiles, name: str, scale: np.float32 | float = 1.0) -> Floats:
    """A tensor's numbers times the scale. Raises FormatError unless all are finite."""
    info = file.tensor(name)
    with np.errstate(over="ignore", invalid="ignore"):
        values = dequantise(file.raw(name), info.dtype, info.shape) * np.float32(scale)
    if not np.isfinite(values).all():
        raise FormatError("a weight that isn't finite", place=f"{file.path} › tensor {quoted(name)}")
    return values


def _ordered(b: Floats, name: str, model: Decoder) -> Floats:
    """Rows in the model's order: where queries and keys rotate neighbours, those were halves before."""
    heads = {"attn_q": model.heads, "attn_k": model.kv_heads}.get(name.split(".")[2])
    if heads is None or all(rope is None or rope.pairing == "halves" for rope in model.ropes):
        return b
    return b.reshape(heads, 2, -1, b.shape[1]).swapaxes(1, 2).reshape(b.shape)
