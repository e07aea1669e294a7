"""Counters and histograms as plain numbers: anyone may count, and whoever publishes reads.

    ROWS = metrics.counter("engine_rows_total", "rows computed")
    ROWS.add(32)
    for metric in metrics.REGISTRY: ...

Names are unique within a registry: asking again for the same metric gives the same object.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TypeVar

from assay.errors import ContractError

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Counter:
    """A number that only grows."""

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help
        self.value: int | float = 0
        self._lock = Lock()

    def add(self, n: int | float = 1) -> None:
        """Add `n`, which must be finite and not negative (ContractError)."""
        if not 0 <= n < math.inf:
            raise ContractError("a counter only grows", place=self.name, want="0 ≤ n < ∞", got=str(n))
        with self._lock:
            self.value += n


class Histogram:
    """How often values fell into (…, buckets[0]], (buckets[0], buckets[1]], …, (buckets[-1], ∞)."""

    def __init__(self, name: str, help: str, buckets: Sequence[float]) -> None:
        self.name = name
        self.help = help
        self.buckets = tuple(float(bound) for bound in buckets)
        ascending = all(low < high for low, high in zip(self.buckets, self.buckets[1:], strict=False))
        if not self.buckets or not ascending or not all(map(math.isfinite, self.buckets)):
            want = "finite upper bounds in ascending order, at least one"
            raise ContractError("bad buckets", place=name, want=want, got=str(self.buckets))
        self._counts = [0] * (len(self.buckets) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def observe(self, x: float) -> None:
        """Count `x`, which must not be NaN (ContractError)."""
        if math.isnan(x):
            raise ContractError("a histogram can't place NaN", place=self.name, want="a number", got="nan")
        with self._lock:
            self._counts[bisect_left(self.buckets, x)] += 1
            self._sum += x

    def read(self) -> tuple[tuple[int, ...], float]:
        """(observations in each bucket, the one above the last bound included; sum of all values)."""
        with self._lock:
            return tuple(self._counts), self._sum

    @property
    def count(self) -> int:
        return sum(self.read()[0])

    @property
    def sum(self) -> float:
        return self.read()[1]

    def quantile(self, q: float) -> float:
        """The estimated `q` quantile, 0 ≤ q ≤ 1: linear inside a bucket, as Prometheus estimates it.

        The first bucket starts at 0, or at its bound where that is negative. Values above the last bound
        count as that bound. NaN when nothing was observed.
        """
        if not 0 <= q <= 1:
            raise ContractError("a quantile out of range", place=self.name, want="0 ≤ q ≤ 1", got=str(q))
        counts, _ = self.read()
        rank = q * sum(counts)
        if not any(counts):
            return math.nan
        below = 0
        low = min(0.0, self.buckets[0])
        for bound, count in zip(self.buckets, counts, strict=False):
            if count and below + count >= rank:
                return low + (bound - low) * (rank - below) / count
            below += count
            low = bound
        return self.buckets[-1]


M = TypeVar("M", Counter, Histogram)


class Registry:
    """Metrics by name, in the order in which they were made."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Histogram] = {}
        self._lock = Lock()

    def counter(self, name: str, help: str) -> Counter:
        """The counter of that name. Raises ContractError when the name means another metric."""
        return self._add(Counter(name, help))

    def histogram(self, name: str, help: str, buckets: Sequence[float]) -> Histogram:
        """The histogram of that name. Raises ContractError when the name means another metric."""
        return self._add(Histogram(name, help, buckets))

    def __iter__(self) -> Iterator[Counter | Histogram]:
        with self._lock:
            return iter(tuple(self._metrics.values()))

    def _add(self, metric: M) -> M:
        if not _NAME.fullmatch(metric.name):
            raise ContractError("bad metric name", want=_NAME.pattern, got=repr(metric.name))
        with self._lock:
            known = self._metrics.setdefault(metric.name, metric)
        if not isinstance(known, type(metric)) or _meaning(known) != _meaning(metric):
            want, got = (
                f"{type(known).__name__} {_meaning(known)}",
                f"{type(metric).__name__} {_meaning(metric)}",
            )
            raise ContractError("one name for two metrics", place=metric.name, want=want, got=got)
        return known


def _meaning(metric: Counter | Histogram) -> tuple[object, ...]:
    return (metric.help, metric.buckets) if isinstance(metric, Histogram) else (metric.help,)


REGISTRY = Registry()
counter = REGISTRY.counter
histogram = REGISTRY.histogram
