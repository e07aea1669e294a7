"""LoRA adapters as PEFT writes them, and what they make of a model's tensors: NumPy alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
RANK, ALPHA = 5, 12.0


def linear(name: str) -> bool:
    """Whether a tensor of a published model is a linear map of a block."""
    return (".layers." in name or ".h." in name) and name.endswith(".weight") and not _norm(name)


def _norm(name: str) -> bool:
    return "norm" in name or ".ln_" in name


def turned(name: str) -> bool:
    """Whether the tensor is [in, out], as gpt2's are."""
    return ".h." in name


def maps(
    tensors: Mapping[str, Floats], seed: int = 0, wanted: Callable[[str], bool] = linear
) -> dict[str, tuple[Floats, Floats]]:
    """A[RANK, in] and B[out, RANK] of these linear maps."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, weight in tensors.items():
        if linear(name) and wanted(name):
            out, into = weight.shape[::-1] if turned(name) else weight.shape
            a, b = rng.normal(0, into**-0.5, (RANK, into)), rng.normal(0, 0.1, (out, RANK))
            found[name] = a.astype(np.float32), b.astype(np.float32)
    return found


def merged(
    tensors: Mapping[str, Floats], adapter: Mapping[str, tuple[Floats, Floats]], scale: float = ALPHA / RANK
) -> dict[str, Floats]:
    """The tensors with the adapter in them: W + scale · B · A."""
    found = dict(tensors)
    for name, (a, b) in adapter.items():
        delta = scale * (b.astype(np.float64) @ a.astype(np.float64))
        found[name] = (tensors[name] + (delta.T if turned(name) else delta)).astype(np.float32)
    return found


def config(**changes: object) -> dict[str, object]:
    """An adapter_config.json as a recent PEFT writes it."""
    return {
        "alpha_pattern": {}, "auto_mapping": None, "base_model_name_or_path": "some/model", "bias": "none",
        "corda_config": None, "eva_config": None, "exclude_modules": None, "fan_in_fan_out": False,
        "inference_mode": True, "init_lora_weights": True, "layer_replication": None, "layers_pattern": None,
        "layers_to_transform": None, "loftq_config": {}, "lora_alpha": ALPHA, "lora_bias": False,
        "lora_dropout": 0.05, "megatron_config": None, "megatron_core": "megatron.core",
        "modules_to_save": None, "peft_type": "LORA", "qalora_group_size": 16, "r": RANK, "rank_pattern": {},
        "revision": None, "target_modules": "all-linear", "target_parameters": None,
        "task_type": "CAUSAL_LM", "trainable_token_indices": None, "use_dora": False, "use_qalora": False,
        "use_rslora": False, **changes,
    }  # fmt: skip


def named(adapter: Mapping[str, tuple[Floats, Floats]]) -> dict[str, Floats]:
    """The tensors of adapter_model.safetensors."""
    found = {}
    for name, (a, b) in adapter.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        found |= {f"{stem}.lora_A.weight": a, f"{stem}.lora_B.weight": b}
    return found


def write(folder: Path, tensors: Mapping[str, Floats], fields: Mapping[str, object] | None = None) -> Path:
    """The adapter's folder, of `named` tensors."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config() if fields is None else fields))
    safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def safetensors(path: Path, tensors: Mapping[str, Floats]) -> None:
    """A file of float32 tensors."""
    table, place = {}, 0
    for name, array in tensors.items():
        table[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(
        len(head).to_bytes(8, "little") + head + b"".join(map(np.ndarray.tobytes, tensors.values()))
    )
