"""What a caller asks for: with the model, how it was loaded and the prompt, this decides the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from assay.errors import RequestError
from assay.llm.fields import integer, number
from assay.llm.stops import StopStrings

SEEDS = 2**63


BIAS = 100.0
"""The greatest bias, up or down."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Raises RequestError, naming the field, for values out of range.

    `temperature` 0 takes the likeliest token. `top_k` 0, `min_p` 0, `typical_p` 1 and `top_p` 1 keep all
    candidates. `seed` None is drawn when the request is admitted. `max_tokens` None goes on to the end of the
    context. `stop` is one string or several. `adapter` is one of those that the model was loaded with.

    Logits x are changed before any token is chosen, greedily too: `repetition_penalty` divides x > 0 of a
    token that is in the prompt or the output, and multiplies any other such x; `frequency_penalty` is taken
    off for each time that it is in the output, `presence_penalty` once; `logit_bias` (token id to −100 … 100)
    is added. Then come `temperature`, `top_k`, `min_p`, `typical_p`, `top_p` and the draw, in this order;
    the operator `sample` says how others do it (`assay contract sample`).
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    seed: int | None = None
    stop: str | Sequence[str] = field(default=())
    adapter: str | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            integer("max_tokens", self.max_tokens, 1, 2**31 - 1)
        integer("top_k", self.top_k, 0, 2**31 - 1)
        for name, (low, high, above) in RANGES.items():
            number(name, getattr(self, name), low, high, above=above)
        if self.seed is not None:
            integer("seed", self.seed, 0, SEEDS - 1)
        if not isinstance(self.logit_bias, Mapping):
            got = repr(self.logit_bias)[:80]
            raise RequestError("no biases", place="logit_bias", want="token ids to numbers", got=got)
        for token, bias in self.logit_bias.items():
            integer("logit_bias", token, 0, 2**31 - 1)
            number(f"logit_bias[{token}]", bias, -BIAS, BIAS)
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else self.stop)
        StopStrings(self.stop)


RANGES = {
    "temperature": (0.0, 100.0, False),
    "min_p": (0.0, 1.0, False),
    "typical_p": (0.0, 1.0, True),
    "top_p": (0.0, 1.0, True),
    "repetition_penalty": (0.0, 100.0, True),
    "presence_penalty": (-2.0, 2.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
}
"""The least and the greatest number of a field, and whether it must be above the least."""


class SamplingFields(TypedDict, total=False):
    """The fields of `Sampling` as keywords."""

    max_tokens: int | None
    temperature: float
    top_k: int
    min_p: float
    typical_p: float
    top_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int | None
    stop: str | Sequence[str]
    adapter: str | None
