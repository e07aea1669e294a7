"""The architectures that are known: each a module of this folder with an ARCHITECTURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module

from assay.errors import FormatError
from assay.formats.fields import Config
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Part

NAMES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2", "bert")
GGUF_NAMES = tuple(name for name in NAMES if name != "mistral")
"""Of mistral GGUF files say that they are llama; no file says that it has a window."""
QKV = ("attn_q", "attn_k", "attn_v")


@dataclass(frozen=True)
class Architecture:
    """How a Hugging Face folder and a GGUF file say a model's shape and name its weights.

    `parts` gives for a model where each weight of a folder lies; `ignored` are the ends of names of tensors
    that hold nothing the model reads. `fused` are tensors of a GGUF file's layers in which several maps lie,
    where the file has them. `prefix` begins the names of all tensors of a folder but the output map's, unless
    it holds a model without one.
    """

    from_config: Callable[[Config, str], Decoder]
    parts: Callable[[Decoder], dict[str, Part]]
    from_gguf: Callable[[Hyperparameters], Decoder]
    ignored: tuple[str, ...] = (".rotary_emb.inv_freq",)
    prefix: str = "model."
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"attn_qkv": QKV})


def find(name: str, place: str, names: tuple[str, ...] = NAMES) -> Architecture:
    """The architecture of this name. Raises FormatError with near names."""
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        rule, got = "an architecture that isn't known", repr(name)[:80]
        raise FormatError(rule, place=place, want=", ".join(names), got=got, hint=hint)
    found: Architecture = import_module(f"assay.models.{name}").ARCHITECTURE
    return found
