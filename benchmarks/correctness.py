"""Do the engines compute the same model? Checked before anything is timed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.audit.evaluation import kullback_leibler, log_softmax
from benchmarks.engines import Process

PREFIXES = 16
"""Places of the text where the next tokens are compared."""
BOUND = 0.01
"""Most that an engine's mean divergence may be: about three times what 8-bit activations cost."""


@dataclass(frozen=True)
class Agreement:
    """One engine against float32 arithmetic on the same file.

    `mean` and `max` of the divergence over the text's positions, None for an engine that keeps its logits to
    itself; at how many of PREFIXES places the next token is float32's likeliest.
    """

    mean: float | None
    max: float | None
    same_tokens: int

    @property
    def good(self) -> bool:
        """Whether this is the same computation."""
        return self.same_tokens >= PREFIXES - 2 and (self.mean is None or self.mean <= BOUND)


def check(assay: Process, engines: Sequence[Process], tokens: list[int]) -> dict[str, Agreement]:
    """Every engine's agreement with float32 on this text, `assay` computing the reference."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "logits.npy")
        assay.call("exact", tokens=tokens, path=path)
        exact = np.load(path)
        ends = np.linspace(len(tokens) // PREFIXES, len(tokens), PREFIXES).astype(int).tolist()
        wanted = [int(exact[end - 1].argmax()) for end in ends]
        for engine in engines:
            configure(engine)
            mean = most = None
            if engine.call("logits", tokens=tokens, path=path):
                logits = np.load(path)
                divergence = kullback_leibler(log_softmax(exact), log_softmax(logits))
                mean, most = float(divergence.mean()), float(divergence.max())
                likeliest = [int(logits[end - 1].argmax()) for end in ends]
            else:
                likeliest = [_next(engine, tokens[:end]) for end in ends]
            same = sum(ours == token for ours, token in zip(likeliest, wanted, strict=True))
            found[engine.name] = Agreement(mean, most, same)
    return found


def configure(engine: Process) -> None:
    """Make an engine ready for prompts, in the first of its ways."""
    variants = engine.call("variants", figure="prefill")
    assert isinstance(variants, list)
    engine.call("configure", figure="prefill", variant=variants[0])


def _next(engine: Process, tokens: list[int]) -> int:
    answer = engine.call("greedy", tokens=tokens, count=1)
    assert isinstance(answer, list)
    return int(answer[0])
