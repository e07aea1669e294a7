"""Rotary position embedding's frequencies, correctly rounded without the system's mathematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from assay.formats.fields import rounded

_DIGITS = Context(prec=40)
_PI = Decimal("3.141592653589793238462643383279502884197")


@dataclass(frozen=True)
class Llama3:
    """Llama 3.1's stretching of low frequencies, for contexts longer than `original`."""

    factor: float
    low: float
    high: float
    original: int


@dataclass(frozen=True)
class Rope:
    """How queries and keys are rotated: pair i by position · base^(−i / pairs), stretched.

    `pairing` says which elements of a head are a pair: "neighbours" or "halves". `linear` divides all
    frequencies; `divisors`, where a file has them, each its own. What is rotated becomes `magnitude` times as
    long.
    """

    base: float
    pairs: int
    pairing: str
    linear: float = 1.0
    llama3: Llama3 | None = None
    divisors: tuple[float, ...] = ()
    magnitude: float = 1.0


def frequencies(rope: Rope) -> NDArray[np.float32]:
    """float32 [pairs], to nearest. 40 decimal digits decide the rounding, so every machine agrees."""
    with localcontext(_DIGITS):
        return np.array([float(_frequency(rope, pair)) for pair in range(rope.pairs)]).astype(np.float32)


def divided(rope: Rope) -> Rope:
    """The same rotation, with divisors in float32, as GGUF has them, in place of llama 3.1's rule."""
    plain = replace(rope, llama3=None)
    if rope.llama3 is None:
        return plain
    with localcontext(_DIGITS):
        divisors = [float(_frequency(plain, pair) / _frequency(rope, pair)) for pair in range(rope.pairs)]
    return replace(plain, divisors=tuple(map(rounded, divisors)))


def lengthened(factor: float, trained: int) -> float:
    """√(1 + ln factor / ln trained): by how much LongRoPE lengthens what is rotated, for a context so many
    times the one that the model was trained on.
    """
    with localcontext(_DIGITS):
        return float((1 + Decimal(factor).ln() / Decimal(trained).ln()).sqrt())


def _frequency(rope: Rope, pair: int) -> Decimal:
    plain = Decimal(rope.base) ** (Decimal(-pair) / rope.pairs)
    if rope.divisors:
        plain /= Decimal(rope.divisors[pair])
    plain /= Decimal(rope.linear)
    return _stretched(rope.llama3, plain) if rope.llama3 else plain


def _stretched(rule: Llama3, frequency: Decimal) -> Decimal:
    """Frequencies whose wave fits the original context `high` times stay, those below `low` times are divided
    by the factor, between them it is mixed.
    """
    factor, low, high = Decimal(rule.factor), Decimal(rule.low), Decimal(rule.high)
    turns = rule.original * frequency / (2 * _PI)
    if turns > high:
        return frequency
    if turns < low:
        return frequency / factor
    share = (turns - low) / (high - low)
    return (1 - share) * (frequency / factor) + share * frequency
