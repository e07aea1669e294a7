"""Dimensions: integers, and polynomials over named symbols such as `T` or `seq + past`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Dim:
    """A sum of monomials with integer coefficients, in canonical order; an integer has only the empty one."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: int | str | Dim) -> Dim:
        """An integer, an expression's text (`"2*T + 1"`) or a Dim, as a Dim. Raises ValueError."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, int):
            return Dim((((), value),) if value else ())
        return _parse(value)

    @property
    def constant(self) -> int | None:
        """The integer, or None when a symbol is left."""
        if len(self.terms) > 1 or (self.terms and self.terms[0][0]):
            return None
        return self.terms[0][1] if self.terms else 0

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(symbol for monomial, _ in self.terms for symbol in monomial)

    def at(self, binding: Mapping[str, int]) -> int:
        """The value under `binding`. Raises KeyError for a symbol that it lacks."""
        if len(self.terms) == 1 and len(self.terms[0][0]) == 1:
            (((symbol,), coefficient),) = self.terms
            return coefficient * binding[symbol]
        return sum(
            coefficient * prod(binding[symbol] for symbol in monomial) for monomial, coefficient in self.terms
        )

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """Each symbol replaced by its value, all at once. Raises KeyError for one that `values` lacks."""
        total = Dim(())
        for monomial, coefficient in self.terms:
            total += prod((values[symbol] for symbol in monomial), start=Dim.of(coefficient))
        return total

    def __add__(self, other: int | Dim) -> Dim:
        total = dict(self.terms)
        for monomial, coefficient in Dim.of(other).terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return _canonical(total)

    def __mul__(self, other: int | Dim) -> Dim:
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in Dim.of(other).terms:
                monomial = tuple(sorted(left + right))
                total[monomial] = total.get(monomial, 0) + a * b
        return _canonical(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            factors = [] if coefficient == 1 and monomial else [str(coefficient)]
            parts.append("*".join([*factors, *monomial]))
        return " + ".join(parts).replace("+ -", "- ") or "0"


def _canonical(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), term[0]))
    return Dim(tuple(kept))


_FACTOR = r"(?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*)"
_TERM = re.compile(rf"\s*([+-]?)\s*({_FACTOR}(?:\s*\*\s*{_FACTOR})*)\s*")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Dim:
    total = Dim(())
    position = 0
    while position < len(text) or not position:
        match = _TERM.match(text, position)
        if match is None or (position and not match[1]):
            raise ValueError(f"not a dimension: {text!r}")
        position = match.end()
        factors = map(str.strip, match[2].split("*"))
        known = (Dim.of(int(each)) if each.isdigit() else Dim((((each,), 1),)) for each in factors)
        total += prod(known, start=Dim.of(-1 if match[1] == "-" else 1))
    return total
