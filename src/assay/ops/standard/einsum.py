"""Einsum: sums of products over named axes, two inputs at a time, each pair as a product of matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from math import prod
from typing import NamedTuple

from assay.graph.dim import Dim
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.linear import ORDER, PRODUCT
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site
from assay.tensor.dtype import BF16, F16, F32, F64, I32, I64, U32, U64

_TERM = re.compile(r"[A-Za-z]*(\.\.\.[A-Za-z]*)?")
AS_THEY_ARE = (F16, BF16, F32, F64, I32, I64, U32, U64)
"""Types of which there are products of matrices; the other integers go by way of int64."""


def _parts(equation: str) -> tuple[list[str], str]:
    """The inputs' terms, and the output's, which without `->` has the letters that occur once, sorted."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." * ("..." in left) + "".join(sorted({c for c in letters if letters.count(c) == 1}))
    return terms, right


def _labels(term: str, wide: int) -> str:
    """A term's axes, a character each; those of `...` are digits, counted from its last axis."""
    return term.replace("...", "".join(map(str, range(wide)[::-1])))


def _rule(site: Site) -> Sequence[Made]:
    terms, result = _parts(site.text("equation"))
    given = [index for index in range(len(site.types)) if site.has(index)]
    good = all(_TERM.fullmatch(term) for term in (*terms, result)) and len(set(result) - {"."}) == len(
        result.replace(".", "")
    )
    rule, want = "attribute equation: not a sum of products", "terms of letters and at most one ..., then ->"
    if not site.require(good, rule, want=want, got=site.text("equation")) or not site.require(
        len(terms) == len(given), "terms and inputs disagree", want=f"{len(terms)} inputs", got=len(given)
    ):
        return [None]
    sizes: dict[str, Dim] = {}
    widest = 0
    for index, term in zip(given, terms, strict=True):
        rank, letters = site.rank(index), len(term.replace(".", ""))
        if not site.want_rank(index, letters, -1 if "." in term else letters):
            return [None]
        widest = max(widest, rank - letters)
        for label, dim in zip(_labels(term, rank - letters), site.shape(index), strict=True):
            before = sizes.setdefault(label, dim)
            if label.isdigit():
                sizes[label] = site.broadcast((before,), (dim,), first=index - 1)[0]
            else:
                sizes[label] = site.agree(before, dim, f"sizes of {label}", index)
    rule, good = "attribute equation: ... is missing in the output", widest == 0 or "." in result
    site.require(good, rule, want="... behind ->, as before it", got=result)
    missing = [c for c in result if c != "." and c not in sizes]
    rule = "attribute equation: letters that no input has"
    site.require(not missing, rule, want="letters of the inputs", got=missing)
    if site.problems:
        return [None]
    return [tuple(sizes[label] for label in _labels(result, widest))]


class Term(NamedTuple):
    """A value, and the label and size of each of its axes."""

    name: Name
    labels: str
    sizes: tuple[int, ...]

    def size(self, labels: str) -> int:
        return prod(self.sizes[self.labels.index(label)] for label in labels if label in self.labels)

    def extents(self, labels: str) -> list[int]:
        """A size for each label; 1 for one that isn't here."""
        return [self.size(label) for label in labels]


def _ordered(f: Function, term: Term, labels: str) -> Name:
    return f.moved(term.name, [term.labels.index(label) for label in labels if label in term.labels])


def _diagonal(f: Function, term: Term) -> Term:
    """Without repeated labels: of axes with the same one only equal places stay."""
    while twice := [label for label in dict.fromkeys(term.labels) if term.labels.count(label) > 1]:
        first = term.labels.index(twice[0])
        second = term.labels.index(twice[0], first + 1)
        rest = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
        n, others = term.sizes[first], [term.sizes[axis] for axis in rest]
        flat = f.reshape(f.moved(term.name, [*rest, first, second]), *others, n * n)
        name = f.slice(flat, len(rest), 0, n * n, n + 1)
        term = Term(name, "".join(term.labels[axis] for axis in rest) + twice[0], (*others, n))
    return term


def _summed(f: Function, term: Term, kept: str) -> Term:
    """Summed over labels that aren't kept."""
    gone = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not gone:
        return term
    labels = "".join(label for label in term.labels if label in kept)
    return Term(f("ReduceSum", term.name, f.number(gone), keepdims=0), labels, tuple(term.extents(labels)))


def _product(f: Function, a: Term, b: Term, kept: str) -> Term:
    """The product of two, summed over labels that aren't kept."""
    a, b = _summed(f, a, kept + b.labels), _summed(f, b, kept + a.labels)
    common = [label for label in a.labels if label in b.labels]
    batch = "".join(sorted((label for label in common if label in kept), key=lambda c: (not c.isdigit(), c)))
    inner = "".join(label for label in common if label not in kept)
    left, right = ("".join(c for c in x.labels if c not in common) for x in (a, b))
    m, n, k = a.size(left), b.size(right), a.size(inner)
    x, y = _ordered(f, a, batch + left + inner), _ordered(f, b, batch + inner + right)
    if inner:
        x, y = f.reshape(x, *a.extents(batch), m, k), f.reshape(y, *b.extents(batch), k, n)
    else:
        x, y = f.reshape(x, *a.extents(batch), m, 1), f.reshape(y, *b.extents(batch), 1, n)
    sizes = [max(pair) if min(pair) else 0 for pair in zip(a.extents(batch), b.extents(batch), strict=True)]
    whole = (*sizes, *a.extents(left), *b.extents(right))
    return Term(f.reshape(f("MatMul" if inner else "Mul", x, y), *whole), batch + left + right, whole)


def _write(f: Function) -> Sequence[Name]:
    terms, result = _parts(f.site.text("equation"))
    dtype = f.site.dtype(0)
    values: list[Term] = []
    widest = 0
    for index, term in zip(count(), terms):
        sizes = f.site.sizes(index)
        wide = len(sizes) - len(term.replace(".", ""))
        widest = max(widest, wide)
        name = f.input(index) if dtype in AS_THEY_ARE else f.cast(f.input(index), I64)
        values.append(_diagonal(f, Term(name, _labels(term, wide), sizes)))
    output = _labels(result, widest)
    total, *others = values
    for at, other in enumerate(others, start=1):
        total = _product(f, total, other, output + "".join(each.labels for each in others[at:]))
    total = _summed(f, total, output)
    found = _ordered(f, total, output)
    return [found if dtype in AS_THEY_ARE else f.cast(found, dtype)]


define(
    "Einsum", _rule, function=written(_write), exactness=PRODUCT,
    formula="Output[the labels behind ->] = Σ Input1[term 1] · Input2[term 2] · …, over all other labels",
    shapes="The sizes of the output's labels; those of ... are broadcast.",
    numerics=("Inputs are multiplied in order, each pair rounded to the element type.", ORDER),
    kernels=(("matmul.<type>, reduce.<type> and elementwise.chain", "always"),),
)  # fmt: skip
