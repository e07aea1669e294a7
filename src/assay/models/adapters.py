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

from assay.errors import FormatError, PrecisionOverflow
from assay.formats.fields import GREATEST, Config
from assay.formats.files import TensorFiles, member
from assay.formats.quant import dequantise, quantise
from assay.formats.safetensors import open_safetensors
from assay.formats.strict_json import JsonValue, read_json
from assay.formats.tensors import TensorFile, Wanted, hold, quoted
from assay.models.decoder import VECTORS, Decoder, weights
from assay.models.parts import Part, neighbours
from assay.models.shape import MOST
from assay.tensor.dtype import RARE

Floats = NDArray[np.float32]
CONFIG, WEIGHTS, PREFIX = "adapter_config.json", "adapter_model.safetensors", "base_model.model."
CONFIG_LIMIT = 1 << 20
KNOWN = (
    "auto_mapping", "base_model_name_or_path", "bias", "exclude_modules", "fan_in_fan_out", "inference_mode",
    "init_lora_weights", "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout",
    "megatron_core", "peft_type", "peft_version", "qalora_group_size", "r", "revision", "target_modules",
    "task_type", "use_rslora",
)  # fmt: skip
"""Keys that are read, or are of training, or say what the tensors' names say. Any other one must be empty."""


@dataclass(frozen=True)
class Adapter:
    """What is added to linear maps, by the weight's name: b · a of float32 a[R, K] and b[N, R], which has the
    scale in it.
    """

    maps: Mapping[str, tuple[Floats, Floats]]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        named = [(name, each) for name, maps in self.maps.items() for each in maps]
        return sha256(b"".join(f"{name} {a.shape}".encode() + a.tobytes() for name, a in named)).digest()


def read_adapter(folder: Path, model: Decoder, modules: Mapping[str, Part]) -> Adapter:
    """The adapter in a folder, for a model whose weights lie so in a folder of Hugging Face's. Raises
    FormatError for what isn't a plain LoRA of linear maps in the model's blocks.
    """
    fields = read_json(member(folder, CONFIG), CONFIG_LIMIT)
    config, place = Config(fields, f"{folder} › {CONFIG}"), f"{folder} › {WEIGHTS}"
    rank, scale = _settings(config, fields)
    shapes = {name: want.shape for name, want in weights(model).items() if name.startswith("blk.")}
    wanted, maps = dict[str, Wanted](), dict[str, tuple[Floats, Floats]]()
    with open_safetensors(member(folder, WEIGHTS)) as file:
        pairs = {}
        for name, (n, k) in ((name, shape) for name, shape in shapes.items() if len(shape) == 2):
            stem = PREFIX + modules[name].source.removesuffix(".weight")
            pair = f"{stem}.lora_A.weight", f"{stem}.lora_B.weight"
            if not file.tensors.keys().isdisjoint(pair):
                pairs[name] = pair
                wanted[pair[0]] = Wanted((rank, k), VECTORS)
                wanted[pair[1]] = Wanted((modules[name].total or n, rank), VECTORS)
        hold(file.tensors, wanted, place)
        if not wanted:
            raise FormatError("an adapter that changes nothing", place=place)
        targets = fields.get("target_modules")
        for target in targets if isinstance(targets, list) else ():
            if not any(key.endswith(f".{target}.lora_A.weight") for key in wanted):
                raise config.error("target_modules", "names of modules that there are tensors for", target)
        halves = all(rope is None or rope.pairing == "halves" for rope in model.ropes)
        for name, (a, b) in pairs.items():
            first = modules[name].first
            up = _values(file, b, scale)[first : first + shapes[name][0]]
            if not halves:
                up = neighbours(up, name, model)
            maps[name] = _values(file, a), np.ascontiguousarray(up)
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


def merged(adapter: Adapter, file: TensorFile, parts: Mapping[str, Part], name: str) -> NDArray[np.uint8]:
    """The bytes of a model's tensor with the adapter in it: sums in float64, rounded to the tensor's type."""
    info, raw = file.tensors[name], file.raw(name)
    inside = [weight for weight in adapter.maps if parts[weight].source == name]
    if not inside:
        return raw
    values = dequantise(raw, info.dtype, info.shape).astype(np.float64)
    for weight in inside:
        part, (a, b) = parts[weight], adapter.maps[weight]
        rows = values.T if part.turned else values
        rows[part.first : part.first + len(b)] += b.astype(np.float64) @ a
    place = f"tensor {quoted(name)}"
    if info.dtype in RARE:
        raise FormatError("a type that numbers can't be rounded to", place=place, got=str(info.dtype))
    with np.errstate(over="ignore"):
        raw = quantise(values.astype(np.float32), info.dtype)
    if not np.isfinite(dequantise(raw, info.dtype, info.shape)).all():
        raise PrecisionOverflow("a sum leaves the tensor's type", place=place, got=str(info.dtype))
    return raw


def _settings(config: Config, fields: Mapping[str, JsonValue]) -> tuple[int, np.float32]:
    """The rank, and the factor of b · a."""
    config.choice("peft_type", ("LORA",))
    config.choice("bias", ("none",), "none")
    for name, value in fields.items():
        if value and name not in KNOWN:
            raise config.error(name, "none", value, "an adapter of a kind that isn't supported")
    initial = fields.get("init_lora_weights")
    if initial not in (None, True, False, "gaussian", "orthogonal", "eva"):
        raise config.error("init_lora_weights", "one that leaves the model's weights as they are", initial)
    rank = config.integer("r", 1, MOST)
    root = math.sqrt(rank) if config.flag("use_rslora", False) else rank
    return rank, np.float32(config.number("lora_alpha", -GREATEST, GREATEST) / root)


def _values(file: TensorFiles, name: str, scale: np.float32 | float = 1.0) -> Floats:
    """A tensor's numbers times the scale. Raises FormatError unless all are finite."""
    info = file.tensor(name)
    with np.errstate(over="ignore", invalid="ignore"):
        values = dequantise(file.raw(name), info.dtype, info.shape) * np.float32(scale)
    if not np.isfinite(values).all():
        raise FormatError("a weight that isn't finite", place=f"{file.path} › tensor {quoted(name)}")
    return values
