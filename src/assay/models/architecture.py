"""The architectures that are known: each a module of this folder with an ARCHITECTURE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from assay.errors import FormatError
from assay.models.config import Config
from assay.models.decoder import Decoder
from assay.models.parts import Part

NAMES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3", "gpt2")


@dataclass(frozen=True)
class Architecture:
    """How a Hugging Face folder says a model's shape and names its weights.

    `parts` gives for a model where each weight lies; `ignored` are the ends of names of tensors that hold
    nothing the model reads.
    """

    from_config: Callable[[Config, str], Decoder]
    parts: Callable[[Decoder], dict[str, Part]]
    ignored: tuple[str, ...] = (".rotary_emb.inv_freq",)


def find(name: str, place: str) -> Architecture:
    """The architecture that a config calls by this name. Raises FormatError with near names."""
    module = name.removesuffix("_text")
    if module not in NAMES:
        near = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        want = ", ".join(NAMES)
        rule, got = "an architecture that isn't known", repr(name)[:80]
        raise FormatError(rule, place=place, want=want, got=got, hint=hint)
    found: Architecture = import_module(f"assay.models.{module}").ARCHITECTURE
    return found
