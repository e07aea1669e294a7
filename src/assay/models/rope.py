"""Rotary position embedding's frequencies, correctly rounded without the system's mathematics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

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
    exact = [_frequency(rope, pair) for pair in range(rope.pairs)]
    return np.array([np.float32(float(value)) for value in exact], np.float32)


def divided(rope: Rope) -> Rope:
    """The same rotation, with divisors in float32, as GGUF has them, in place of llama 3.1's rule."""
    plain = replace(rope, llama3=None)
    if rope.llama3 is None:
        return plain
    pairs = ((_frequency(plain, pair), _frequency(rope, pair)) for pair in range(rope.pairs))
    divisors = (float(np.float32(float(_DIGITS.divide(before, after)))) for before, after in pairs)
    return replace(plain, divisors=tuple(divisors))


def lengthened(factor: float, trained: int) -> float:
    """√(1 + ln factor / ln trained): by how much LongRoPE lengthens what is rotated, for a context so many
    times the one that the model was trained on.
    """
    share = _DIGITS.divide(_DIGITS.ln(Decimal(factor)), _DIGITS.ln(Decimal(trained)))
    return float(_DIGITS.sqrt(_DIGITS.add(Decimal(1), share)))


def _frequency(rope: Rope, pair: int) -> Decimal:
    exponent = _DIGITS.divide(Decimal(-pair), Decimal(rope.pairs))
    plain = _DIGITS.power(Decimal(rope.base), exponent)
    if rope.divisors:
        plain = _DIGITS.divide(plain, Decimal(rope.divisors[pair]))
    plain = _DIGITS.divide(plain, Decimal(rope.linear))
    return _stretched(rope.llama3, plain) if rope.llama3 else plain


def _stretched(rule: Llama3, frequency: Decimal) -> Decimal:
    """Frequencies whose wave fits the original context `high` times stay, those below `low` times are divided
    by the factor, between them it is mixed.
    """
    whole = _DIGITS.multiply(Decimal(rule.original), frequency)
    turns = _DIGITS.divide(whole, _DIGITS.multiply(Decimal(2), _PI))
    divided = _DIGITS.divide(frequency, Decimal(rule.factor))
    if turns > Decimal(rule.high):
        return frequency
    if turns < Decimal(rule.low):
        return divided
    share = _DIGITS.divide(
        _DIGITS.subtract(turns, Decimal(rule.low)), _DIGITS.subtract(Decimal(rule.high), Decimal(rule.low))
    )
    rest = _DIGITS.subtract(Decimal(1), share)
    return _DIGITS.add(_DIGITS.multiply(rest, divided), _DIGITS.multiply(share, frequency))
