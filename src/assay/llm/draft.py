"""Guesses by a smaller model."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

from assay.errors import RequestError
from assay.llm.engine import Engine
from assay.llm.sequence import Sequence


class Draft:
    """What the engine of a model with the same tokens draws next, with the sequence's own sampling and seed.

    Its cache finds again what it computed for earlier guesses, so each costs it the new tokens alone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def guess(self, sequence: Sequence, most: int) -> Items[int]:
        least = min(most, max(0, sequence.sampling.min_tokens - sequence.drawn))
        own = {"max_tokens": most, "min_tokens": least, "seed": sequence.seed, "adapter": None}
        sampling = replace(sequence.sampling, **own, n=1, top_logprobs=0)  # type: ignore[arg-type]
        try:
            drafted = self._engine.add(sequence.tokens, sampling)
        except RequestError:  # longer than the smaller model's context
            return ()
        drafted.draw["choice"] = sequence.draw["choice"]
        while self._engine.busy:
            self._engine.step()
        return drafted.tokens[drafted.prompt_length :]
