"""Dimensions: integers, and polynomials over named symbols such as `T` or `seq + past`, and over `floor`,
`min` and `max` of such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from math import gcd, prod
from typing import TypeAlias


@dataclass(frozen=True)
class Function:
    """`floor(a / b)`, `min(a, b)` or `max(a, b)` as a factor of a monomial."""

    name: str
    left: Dim
    right: Dim
    weight: int = field(default=1, compare=False)
    """Symbols and functions in it."""

    def __str__(self) -> str:
        if self.name != "floor":
            return f"{self.name}({self.left}, {self.right})"
        left, right = (f"({side})" if len(side.terms) > 1 else str(side) for side in (self.left, self.right))
        return f"floor({left} / {right})"


Factor: TypeAlias = "str | Function"
Monomial = tuple[Factor, ...]
HEAVIEST, DEEPEST = 1024, 128
"""Symbols and functions in an expression, and in a function: files could make them grow without end."""
LARGEST = 1 << 256


@dataclass(frozen=True)
class Dim:
    """A sum of monomials with integer coefficients, in canonical order; an integer has only the empty one.

    Symbols stand for sizes: integers of at least 0. Arithmetic that would make an expression too long raises
    OverflowError.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: int | str | Dim) -> Dim:
        """An integer, an expression's text (`"2*T + 1"`) or a Dim, as a Dim. Raises ValueError."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            return _parse(value)
        return Dim((((), int(value)),) if value else ())

    @property
    def constant(self) -> int | None:
        """The integer, or None when a symbol is left."""
        if len(self.terms) > 1 or (self.terms and self.terms[0][0]):
            return None
        return self.terms[0][1] if self.terms else 0

    @property
    def symbol(self) -> str:
        """The symbol that it is, or nothing."""
        return str(self) if self.terms == (((str(self),), 1),) else ""

    @property
    def symbols(self) -> frozenset[str]:
        factors = (factor for monomial, _ in self.terms for factor in monomial)
        each = ({f} if isinstance(f, str) else f.left.symbols | f.right.symbols for f in factors)
        return frozenset().union(*each)

    def at(self, binding: Mapping[str, int]) -> int:
        """The value under `binding`. Raises KeyError for a symbol that it lacks."""
        if len(self.terms) == 1 and len(self.terms[0][0]) == 1:
            (((symbol,), coefficient),) = self.terms
            if isinstance(symbol, str):
                return coefficient * binding[symbol]
        total = 0
        for monomial, coefficient in self.terms:
            for each in monomial:
                coefficient *= binding[each] if isinstance(each, str) else _value(each, binding)
            total += coefficient
        return total

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """Each symbol replaced by its value, all at once. Raises KeyError for one that `values` lacks."""

        def value(factor: Factor) -> Dim:
            if isinstance(factor, str):
                return values[factor]
            return FUNCTIONS[factor.name](factor.left.substitute(values), factor.right.substitute(values))

        total = Dim(())
        for monomial, coefficient in self.terms:
            total += prod(map(value, monomial), start=Dim.of(coefficient))
        return total

    @property
    def sign(self) -> int | None:
        """−1, 0 or 1 where that is so for all sizes, else None."""
        if not self.terms:
            return 0
        # Symbols are at least 0, and so is what floor makes of numbers that are.
        if any(not _natural(factor) for monomial, _ in self.terms for factor in monomial):
            return None
        constant = next((count for monomial, count in self.terms if not monomial), 0)
        signs = {1 if count > 0 else -1 for _, count in self.terms}
        return signs.pop() if constant and len(signs) == 1 else None

    def equals(self, other: int | Dim) -> bool | None:
        """Whether the two are equal: for all sizes, for none, or None where it depends on them."""
        apart = self - other
        constant = next((count for monomial, count in apart.terms if not monomial), 0)
        if constant and constant % (gcd(*(count for monomial, count in apart.terms if monomial)) or 1):
            return False
        return None if apart.sign is None else apart.sign == 0

    def differs(self, other: int | Dim) -> bool:
        """Whether the two are unequal wherever no size is 0, as 4 n and 6 n; one that is 0 may be any."""
        equal, apart = self.equals(other), (self - other).terms
        if equal is not None or Dim.of(0) in (self, Dim.of(other)):
            return equal is False
        alike = len({count > 0 for _, count in apart}) == 1
        whole = all(_natural(factor) for monomial, _ in apart for factor in monomial)
        return alike and whole and any(all(isinstance(f, str) for f in monomial) for monomial, _ in apart)

    def __add__(self, other: int | Dim) -> Dim:
        total = dict(self.terms)
        for monomial, coefficient in Dim.of(other).terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return _canonical(total)

    def __mul__(self, other: int | Dim) -> Dim:
        total: dict[Monomial, int] = {}
        if len(self.terms) * len(Dim.of(other).terms) > HEAVIEST:
            raise OverflowError(f"an expression of sizes with more than {HEAVIEST} terms")
        for left, a in self.terms:
            for right, b in Dim.of(other).terms:
                monomial = tuple(sorted(left + right, key=str)) if left and right else left + right
                total[monomial] = total.get(monomial, 0) + a * b
        return _canonical(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: int | Dim) -> Dim:
        return self + Dim.of(other) * -1

    def __rsub__(self, other: int | Dim) -> Dim:
        return -self + other

    def __floordiv__(self, other: int | Dim) -> Dim:
        """The greatest integer not above the quotient. Raises ZeroDivisionError."""
        return _floor(self, Dim.of(other))

    def __rfloordiv__(self, other: int | Dim) -> Dim:
        return _floor(Dim.of(other), self)

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            factors = [] if coefficient == 1 and monomial else [str(coefficient)]
            parts.append("*".join([*factors, *map(str, monomial)]))
        return " + ".join(parts).replace("+ -", "- ") or "0"


def _canonical(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if _weight(kept) > HEAVIEST or any(abs(coefficient) > LARGEST for _, coefficient in kept):
        raise OverflowError(f"an expression of sizes with more than {HEAVIEST} symbols, or 77 digits")
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), tuple(map(str, term[0]))))
    return Dim(tuple(kept))


def _weight(terms: Iterable[tuple[Monomial, int]]) -> int:
    return sum(1 if isinstance(f, str) else f.weight for monomial, _ in terms for f in monomial)


def _natural(factor: Factor) -> bool:
    """Whether a factor is known to be at least 0."""
    if isinstance(factor, str):
        return True
    known = [side.sign in (0, 1) or _sum_of_naturals(side) for side in (factor.left, factor.right)]
    return any(known) if factor.name == "max" else all(known)


def _sum_of_naturals(dim: Dim) -> bool:
    return all(count > 0 and all(map(_natural, monomial)) for monomial, count in dim.terms)


def _floor(left: Dim, right: Dim) -> Dim:
    divisor = right.constant
    if divisor is None:
        exact = _exact_quotient(left, right)
        return exact if exact is not None else _applied("floor", left, right)
    if divisor < 0:
        return _floor(-left, -right)
    whole = {monomial: count // divisor for monomial, count in left.terms}
    remainder = _canonical({monomial: count % divisor for monomial, count in left.terms})
    if remainder.constant is not None:
        return _canonical(whole)  # less than the divisor, and not below 0
    return _canonical(whole) + _applied("floor", remainder, right)


def _exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """The quotient by one monomial that every term holds; symbols that are 0 don't matter: 0 / 0 is any."""
    if len(right.terms) != 1:
        return Dim.of(1) if left == right else None
    ((divisor, count),) = right.terms
    total: dict[Monomial, int] = {}
    for monomial, coefficient in left.terms:
        rest = list(monomial)
        for factor in divisor:
            if factor not in rest:
                return None
            rest.remove(factor)
        if coefficient % count:
            return None
        total[tuple(rest)] = coefficient // count
    return _canonical(total)


def _extreme(name: str, left: Dim, right: Dim) -> Dim:
    sign = (left - right).sign
    return _applied(name, left, right) if sign is None else left if (sign < 0) == (name == "min") else right


def _applied(name: str, left: Dim, right: Dim) -> Dim:
    if name != "floor" and str(right) < str(left):
        left, right = right, left
    weight = 1 + _weight(left.terms) + _weight(right.terms)
    if weight > DEEPEST:
        raise OverflowError(f"a function of sizes with more than {DEEPEST} symbols")
    return Dim((((Function(name, left, right, weight),), 1),))


LEAST, GREATEST = partial(_extreme, "min"), partial(_extreme, "max")
FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {"floor": _floor, "min": LEAST, "max": GREATEST}


def least(*dims: int | Dim) -> Dim:
    """The smallest of several."""
    return reduce(LEAST, map(Dim.of, dims))


def greatest(*dims: int | Dim) -> Dim:
    """The greatest of several."""
    return reduce(GREATEST, map(Dim.of, dims))


def _value(factor: Function, binding: Mapping[str, int]) -> int:
    left, right = factor.left.at(binding), factor.right.at(binding)
    if factor.name == "floor":
        return left // right
    return min(left, right) if factor.name == "min" else max(left, right)


_WORD = re.compile(r"\s*([0-9]+|\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[-+*/(),])\s*")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Dim:
    dim, end = read(text, 0)
    if end != len(text):
        raise ValueError(f"not a dimension: {text!r}")
    return dim


def read(text: str, at: int) -> tuple[Dim, int]:
    """The dimension that stands at a place of a text, and the place behind it. Raises ValueError."""
    words = _Words(text, at)
    return words.sum(), words.at


class _Words:
    """A cursor over the words of a dimension's text."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.deep = 0

    def accept(self, *marks: str) -> str:
        match = _WORD.match(self.text, self.at)
        if match is None or (marks and match[1] not in marks):
            return ""
        self.at = match.end()
        return match[1]

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise ValueError(f"not a dimension: {self.text!r}")

    def sum(self) -> Dim:
        negative = self.accept("+", "-") == "-"
        total = self.product() * (-1 if negative else 1)
        while sign := self.accept("+", "-"):
            total += self.product() * (1 if sign == "+" else -1)
        return total

    def product(self) -> Dim:
        total = self.factor()
        while self.accept("*"):
            total *= self.factor()
        return total

    def factor(self) -> Dim:
        word = self.accept()
        if word.isdigit():
            return Dim.of(int(word))
        self.deep += 1
        if self.deep > 50 or word in ("", *"-+*/),"):
            raise ValueError(f"not a dimension: {self.text!r}")
        if word == "(" or self.accept("("):
            found = self.sum()
            if word in FUNCTIONS:
                self.expect("/" if word == "floor" else ",")
                found = FUNCTIONS[word](found, self.sum())
            elif word != "(":
                raise ValueError(f"not a function of dimensions: {word}")
            self.expect(")")
        else:
            found = Dim((((word,), 1),))
        self.deep -= 1
        return found


ANY = Dim(((("...",), 1),))
"""Stands alone in the shape of a value whose rank isn't known."""
