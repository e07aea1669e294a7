"""Operators on strings, and on encoded images. The host runs them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import re2

from assay.graph.dim import Dim
from assay.ops.standard.definition import FLAG, NATURAL, POSITIVE, Range, one_of
from assay.ops.standard.pointwise import stretched
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Site

define(
    "StringConcat", stretched, formula="Z = X followed by Y", shapes="X and Y are broadcast together.",
    reference=lambda X, Y: np.asarray(np.add(X, Y, dtype=object), object),
)  # fmt: skip


def _normalized(site: Site) -> Sequence[Made]:
    shape = site.shape(0)
    if not site.want_rank(0, 1, 2):
        return [None]
    if len(shape) == 2:
        site.require(shape[0].equals(1), "more than one row", want="[C] or [1, C]", got=site.type(0), input=0)
    return [(*shape[:-1], site.unknown("kept") if site["stopwords"] else shape[-1])]


def _run_normalizer(
    X: Array,
    *,
    case_change_action: str,
    is_case_sensitive: int,
    locale: str | None,
    stopwords: Sequence[str] | None,
) -> Array:
    fold = str if is_case_sensitive else str.lower
    stops = set(map(fold, stopwords or ()))
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    kept = [change(each) for each in X.reshape(-1).tolist() if fold(each) not in stops]
    if stops:
        kept = kept or [""]
    return np.array(kept, object).reshape((*X.shape[:-1], len(kept)))


define(
    "StringNormalizer", _normalized, reference=_run_normalizer,
    ranges={"case_change_action": one_of("NONE", "LOWER", "UPPER"), "is_case_sensitive": FLAG},
    formula="Y = X without stopwords, and in lower or upper case; one empty string where nothing is left",
    shapes="X's, with the number of strings kept; X is [C] or [1, C].",
    numerics=("Unicode's own mapping of case, whatever the locale.",),
)  # fmt: skip


def _parts(site: Site) -> Sequence[Made]:
    return [(*site.shape(0), site.unknown("parts")), site.shape(0)]


def _run_split(X: Array, *, delimiter: str | None, maxsplit: int | None) -> tuple[Array, Array]:
    most = -1 if maxsplit is None else maxsplit
    parts = [each.split(delimiter or None, most) if each else [] for each in X.reshape(-1).tolist()]
    width = max(map(len, parts), default=0)
    found = np.array([[*part, *[""] * (width - len(part))] for part in parts], object)
    return found.reshape((*X.shape, width)), np.array(list(map(len, parts)), np.int64).reshape(X.shape)


define(
    "StringSplit", _parts, ranges={"maxsplit": NATURAL}, reference=_run_split,
    formula="Y[i] = the parts of X[i] between delimiters (by default: white space), Z[i] = their number",
    shapes="Y: X's and the most parts of any, the rest filled with empty strings; Z: X's.",
)  # fmt: skip


def _pattern(text: str) -> re2._Regexp:
    """RE2's own, as the standard says: its time is linear, whatever a file's pattern is."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(text, options)


def _matched(site: Site) -> Sequence[Made]:
    if site.require(
        site["pattern"] is not None, "attribute pattern missing", want="a pattern", got="nothing"
    ):
        try:
            _pattern(site.text("pattern"))
        except re2.error as error:
            site.refuse("attribute pattern: no regular expression", want="one of RE2", got=str(error))
    return [site.shape(0)]


define(
    "RegexFullMatch", _matched, formula="Y = whether pattern matches all of X", shapes="X's.",
    reference=lambda X, pattern: np.array(
        [_pattern(pattern).fullmatch(each) is not None for each in X.reshape(-1)], np.bool_
    ).reshape(X.shape),
)  # fmt: skip


def _grams(site: Site) -> Sequence[Made]:
    low, high = site.integer("min_gram_length"), site.integer("max_gram_length")
    site.require(low <= high, "min_gram_length above max_gram_length", want=f"at most {high}", got=low)
    strings = site.dtype(0).kind == "string"
    want, other = ("pool_strings", "pool_int64s") if strings else ("pool_int64s", "pool_strings")
    pool, given = site.attributes[want], site.attributes[other]
    site.require(
        pool is not None and given is None, "pool of another type", want=f"{want}, as X has it", got=other
    )
    counts, indexes, weights = (site.attributes[key] for key in ("ngram_counts", "ngram_indexes", "weights"))
    assert isinstance(counts, tuple) and isinstance(indexes, tuple)
    size, starts = len(pool) if isinstance(pool, tuple) else 0, (0, *counts)
    rising = all(a <= b for a, b in zip(starts, (*counts, size), strict=True))
    site.require(rising, "attribute ngram_counts out of range", want=f"0 rising to {size}", got=list(counts))
    short = len(counts) >= high
    site.require(short, "attribute ngram_counts too short", want=f"{high} or more", got=len(counts))
    good = weights is None or (isinstance(weights, tuple) and len(weights) == len(indexes))
    site.require(good, "numbers of weights and of n-grams disagree", want=len(indexes), got=weights)
    site.natural(-1, [Dim.of(int(each)) for each in indexes])  # type: ignore[arg-type]
    width = Dim.of(max((int(each) for each in indexes), default=-1) + 1)  # type: ignore[arg-type]
    return [(*site.shape(0)[:-1], width)] if site.want_rank(0, 1, 2) else [None]


define(
    "TfIdfVectorizer", _grams,
    ranges={"min_gram_length": POSITIVE, "max_gram_length": POSITIVE, "mode": one_of("TF", "IDF", "TFIDF"),
            "max_skip_count": Range(low=0, high=1 << 16)},
    formula="Y[ngram_indexes[g]] = how often n-gram g of the pool is in X (TF), its weight where it is "
    "(IDF), or the product", shapes="[the greatest of ngram_indexes + 1], for each row of X.",
)  # fmt: skip


def _image(site: Site) -> Sequence[Made]:
    site.want_rank(0, 1)
    channels = Dim.of(1 if site["pixel_format"] == "Grayscale" else 3)
    return [(site.unknown("height"), site.unknown("width"), channels)]


define(
    "ImageDecoder", _image, ranges={"pixel_format": one_of("RGB", "BGR", "Grayscale")},
    formula="image = the picture in encoded_stream", shapes="[height, width, 3], or 1 for Grayscale.",
)  # fmt: skip
