"""How to run a model: what `assay.load` takes beside the model's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.errors import RequestError, shown
from assay.formats.rounding import QUANTISERS
from assay.kernels.sizes import POSITIONS
from assay.llm.fields import flag, integer
from assay.settings import MOST_THREADS

ACTIVATIONS = ("int8", "float32")
MOST_CACHED = (1 << 31) - (1 << 16)
"""Tokens whose slots of the cache int32 can count."""
MOST_TOKENS = 4096
"""The most tokens of one step."""
QUANTIZE = tuple(dtype.name for dtype in QUANTISERS)
"""Types that matrices can be rounded to."""


@dataclass(frozen=True)
class Options:
    """See `assay.load`. Raises RequestError, naming the field, for values out of range."""

    activations: str = "int8"
    context: int | None = None
    cache_tokens: int | None = None
    budget: int | None = None
    threads: int = 1
    guesses: bool = True
    prefix_cache: bool = True
    adapters: Mapping[str, str | Path] = field(default_factory=dict)
    quantize: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.activations, str) or self.activations not in ACTIVATIONS:
            want = " or ".join(ACTIVATIONS)
            raise RequestError("no such mode", place="activations", want=want, got=shown(self.activations))
        if not isinstance(self.quantize, str | None) or self.quantize not in (None, *QUANTIZE):
            want = " or ".join(QUANTIZE)
            raise RequestError("no such type", place="quantize", want=want, got=shown(self.quantize))
        # A context holds a token and the one that is drawn after it.
        for name, low, high in (
            ("context", 2, POSITIONS),
            ("cache_tokens", 1, MOST_CACHED),
            ("budget", 1, MOST_TOKENS),
        ):
            value = getattr(self, name)
            if value is not None:
                integer(name, value, low, high)
        integer("threads", self.threads, 1, MOST_THREADS)
        named = isinstance(self.adapters, Mapping) and all(type(name) is str for name in self.adapters)
        if not named:
            want = "names, each with its folder"
            raise RequestError("no adapters", place="adapters", want=want, got=shown(self.adapters))
        for name in ("guesses", "prefix_cache"):
            flag(name, getattr(self, name))
