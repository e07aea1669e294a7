"""Counters and histograms: exact counts from many threads, quantiles against a sorted list."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ContractError
from assay.metrics import Counter, Histogram, Registry


def test_a_counter_counts_from_many_threads() -> None:
    counter = Registry().counter("steps_total", "steps")
    threads = [threading.Thread(target=lambda: [counter.add() for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 20_000
    counter.add(0.5)
    assert counter.value == 20_000.5


@pytest.mark.parametrize("n", [-1, math.inf, math.nan])
def test_a_counter_only_grows(n: float) -> None:
    counter = Counter("steps_total", "steps")
    with pytest.raises(ContractError) as error:
        counter.add(n)
    assert error.value.place == "steps_total"
    assert counter.value == 0


def test_bounds_belong_to_the_bucket_below() -> None:
    histogram = Histogram("wait_ms", "waiting", [1, 2, 5])
    for x in (0.5, 1, 1.5, 5, 5.1, math.inf):
        histogram.observe(x)
    assert histogram.read() == ((2, 1, 1, 2), math.inf)
    assert histogram.count == 6


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(values: list[float], q: float) -> None:
    bounds = [10.0 * i for i in range(1, 11)]
    histogram = Histogram("wait_ms", "waiting", bounds)
    for x in values:
        histogram.observe(x)
    # The true quantile: the value of rank ceil(q n), counted from 1. The estimate lies in the same bucket.
    true = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
    high = next(bound for bound in bounds if true <= bound)
    assert high - 10 <= histogram.quantile(q) <= high
    assert histogram.count == len(values)


def test_quantiles_are_linear_inside_a_bucket() -> None:
    histogram = Histogram("wait_ms", "waiting", [10, 20])
    assert math.isnan(histogram.quantile(0.5))
    for x in (11, 12, 13, 14):
        histogram.observe(x)
    assert [histogram.quantile(q) for q in (0, 0.25, 0.5, 1)] == [10, 12.5, 15, 20]
    histogram.observe(1000)
    assert histogram.quantile(1) == 20


def test_bad_histograms_and_values_are_refused() -> None:
    for buckets in ([], [1, 1], [2, 1], [1, math.inf], [math.nan]):
        with pytest.raises(ContractError):
            Histogram("wait_ms", "waiting", buckets)
    histogram = Histogram("wait_ms", "waiting", [1])
    with pytest.raises(ContractError):
        histogram.observe(math.nan)
    with pytest.raises(ContractError):
        histogram.quantile(1.5)


def test_a_name_means_one_metric() -> None:
    registry = Registry()
    counter = registry.counter("a_total", "a")
    histogram = registry.histogram("b_ms", "b", [1, 2])
    assert registry.counter("a_total", "a") is counter
    assert registry.histogram("b_ms", "b", (1.0, 2.0)) is histogram
    assert list(registry) == [counter, histogram]
    for clash in (
        lambda: registry.counter("a_total", "something else"),
        lambda: registry.counter("b_ms", "b"),
        lambda: registry.histogram("a_total", "a", [1]),
        lambda: registry.histogram("b_ms", "b", [1, 3]),
        lambda: registry.counter("Bad Name", "c"),
    ):
        with pytest.raises(ContractError):
            clash()
