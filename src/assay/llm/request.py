"""What a caller asks for: with the model, how it was loaded and the prompt, this decides the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from assay.llm.fields import integer, number
from assay.llm.stops import StopStrings

SEEDS = 2**63


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Raises RequestError, naming the field, for values out of range.

    `temperature` 0 takes the likeliest token. `top_k` 0 and `top_p` 1 keep all candidates. `seed` None is
    drawn when the request is admitted. `max_tokens` None goes on to the end of the context. `stop` is one
    string or several.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop: str | Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            integer("max_tokens", self.max_tokens, 1, 2**31 - 1)
        number("temperature", self.temperature, 0.0, 100.0)
        integer("top_k", self.top_k, 0, 2**31 - 1)
        number("top_p", self.top_p, 0.0, 1.0, above=True)
        if self.seed is not None:
            integer("seed", self.seed, 0, SEEDS - 1)
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else self.stop)
        StopStrings(self.stop)


class SamplingFields(TypedDict, total=False):
    """The fields of `Sampling` as keywords."""

    max_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    seed: int | None
    stop: str | Sequence[str]
