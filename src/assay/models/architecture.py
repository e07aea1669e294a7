"""The architectures that are known: each one of the ARCHITECTURES of its family's module here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain

from assay.errors import FormatError, near
from assay.formats.fields import Config
from assay.models.decoder import Decoder
from assay.models.hyperparameters import Hyperparameters
from assay.models.parts import Layout

FAMILIES = {
    "llama": ("llama", "mistral", "qwen2", "qwen3", "phi3"),
    "gemma": ("gemma2", "gemma3"),
    "learned": ("gpt2", "bert"),
}
NAMES = tuple(chain.from_iterable(FAMILIES.values()))
GGUF_NAMES = tuple(name for name in NAMES if name != "mistral")
"""Of mistral GGUF files say that they are llama; no file says that it has a window."""
QKV = ("attn_q", "attn_k", "attn_v")


@dataclass(frozen=True)
class Architecture:
    """How a Hugging Face folder and a GGUF file say a model's shape and name its weights.

    `layout` is a folder's; `ignored` are the ends of names of tensors that hold nothing the model reads.
    `fused` are tensors of a GGUF file's layers in which several maps lie, where the file has them. `prefix`
    begins the names of all tensors of a folder but the output map's, unless it holds a model without one.
    `images` begin those of a folder's parts for images, which are left out.
    """

    from_config: Callable[[Config, str], Decoder]
    layout: Layout
    from_gguf: Callable[[Hyperparameters], Decoder]
    ignored: tuple[str, ...] = (".rotary_emb.inv_freq",)
    prefix: str = "model."
    images: tuple[str, ...] = ()
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"attn_qkv": QKV})


def find(name: str, place: str, names: tuple[str, ...] = NAMES) -> Architecture:
    """The architecture of this name. Raises FormatError with near names."""
    if name not in names:
        rule, got = "an architecture that isn't known", repr(name)[:80]
        raise FormatError(rule, place=place, want=", ".join(names), got=got, hint=near(name, names))
    family = next(family for family, members in FAMILIES.items() if name in members)
    found: Architecture = import_module(f"assay.models.{family}").ARCHITECTURES[name]
    return found
