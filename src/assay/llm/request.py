"""What a caller asks for: with the model, how it was loaded and the prompt, this decides the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from assay.kernels.sizes import MOST_TOP
from assay.llm.fields import flag, integer, number, refused, text
from assay.llm.stops import LONGEST, StopStrings

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

    The answer has none of `bad_words`: texts, however they are spelled, or lists of tokens. It doesn't end
    before `min_tokens`; with `ignore_eos` no token ends it. One of `json_schema`, `regex` and `grammar`
    (Lark's) constrains it: where it ends by itself, all of it is such a text. `top_logprobs` is how many
    alternatives to each token are told, by the model's own logits. `n` is the number of answers: one more is
    drawn for each, from the same prompt.
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
    bad_words: Sequence[str | Sequence[int]] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    json_schema: str | Mapping[str, object] | None = None
    regex: str | None = None
    grammar: str | None = None
    top_logprobs: int = 0
    n: int = 1

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            integer("max_tokens", self.max_tokens, 1, 2**31 - 1)
        integer("top_k", self.top_k, 0, 2**31 - 1)
        integer("min_tokens", self.min_tokens, 0, self.max_tokens or 2**31 - 1)
        integer("top_logprobs", self.top_logprobs, 0, MOST_TOP)
        integer("n", self.n, 1, MOST_CHOICES)
        flag("ignore_eos", self.ignore_eos)
        for name, (low, high, above) in RANGES.items():
            number(name, getattr(self, name), low, high, above=above)
        if self.seed is not None:
            integer("seed", self.seed, 0, SEEDS - 1)
        if not isinstance(self.logit_bias, Mapping):
            raise refused("logit_bias", "token ids to numbers", self.logit_bias)
        for token, bias in self.logit_bias.items():
            integer("logit_bias", token, 0, 2**31 - 1)
            number(f"logit_bias[{token}]", bias, -BIAS, BIAS)
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else self.stop)
        StopStrings(self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "bad_words", _bad_words(self.bad_words))
        if isinstance(self.json_schema, Mapping):
            object.__setattr__(self, "json_schema", _written(self.json_schema))
        given = [name for name in CONSTRAINTS if getattr(self, name) is not None]
        for name in given:
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise refused(name, "a text", getattr(self, name))
        others = [name for name in ("bad_words", "min_tokens", "ignore_eos") if getattr(self, name)]
        if len(given) > bool(given) or (given and others):
            want = f"nothing beside {given[0]}: together they may leave no token"
            raise refused([*given, *others][1], want, "both")

    @property
    def constraint(self) -> tuple[str, str] | None:
        """The field that constrains the answer, and its text."""
        given = ((name, getattr(self, name)) for name in CONSTRAINTS)
        return next((pair for pair in given if pair[1] is not None), None)

    @property
    def adjusts(self) -> bool:
        """Whether it changes logits before a token is chosen."""
        penalties = self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty
        return bool(penalties or self.logit_bias or self.bad_words or self.min_tokens or self.constraint)


def _written(schema: Mapping[str, object]) -> str:
    try:
        return json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise refused("json_schema", "what JSON can hold", str(error)) from None


def _bad_words(words: object) -> tuple[str | tuple[int, ...], ...]:
    want = f"at most {MOST_WORDS} texts, or lists of tokens"
    if not isinstance(words, list | tuple) or len(words) > MOST_WORDS:
        raise refused("bad_words", want, words)
    for index, word in enumerate(words):
        whole = isinstance(word, list | tuple) and all(type(token) is int for token in word)
        if not word or not (isinstance(word, str) or whole) or len(word) > LONGEST:
            raise refused("bad_words", want, word)
        if isinstance(word, str):
            text(f"bad_words[{index}]", word)
    return tuple(word if isinstance(word, str) else tuple(word) for word in words)


CONSTRAINTS = ("json_schema", "regex", "grammar")
MOST_CHOICES, MOST_WORDS = 64, 256
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
    bad_words: Sequence[str | Sequence[int]]
    min_tokens: int
    ignore_eos: bool
    json_schema: str | Mapping[str, object] | None
    regex: str | None
    grammar: str | None
    top_logprobs: int
    n: int
