"""Policy without a model: what a step holds, who goes first, and that nobody starves."""

from __future__ import annotations

import random
import time
from bisect import insort

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.kernels.sizes import PAGE
from assay.llm.request import Sampling
from assay.llm.scheduler import LEAST, Schedule, due, due_at, schedule
from assay.llm.sequence import Sequence


def sequence(number: int, length: int, computed: int = 0, when: float | None = None) -> Sequence:
    made = Sequence(number, [1] * length, Sampling(), 0, 100, 4096)
    made.computed = computed
    made.pages = list(range(-(-computed // PAGE)))
    made.due = float(number) if when is None else when
    return made


def test_those_that_decode_come_first_and_prompts_take_the_rest() -> None:
    running = [sequence(1, 100, 99), sequence(2, 500, 10), sequence(3, 40, 39)]
    plan = schedule(running, [sequence(4, 1000)], 1000, 300, 64)
    assert [(s.sequence.number, s.count, s.rows) for s in plan.shares] == [(1, 1, 1), (3, 1, 1), (2, 298, 0)]


def test_what_is_due_first_goes_first() -> None:
    waiting: list[Sequence] = []
    now = 100.0
    for number, (length, priority, age) in enumerate(
        [(4000, 0, 0), (10, 0, 0), (10, 1, 0), (2000, 0, 30), (10, -1, 0)]
    ):
        insort(waiting, sequence(number, length, when=due(now - age, priority, length)), key=due_at)
    assert [each.number for each in waiting] == [3, 4, 1, 0, 2]


def test_nobody_starves() -> None:
    """One long prompt of low priority, while short ones never end to come."""
    now, waiting = 0.0, [sequence(0, 4000, when=due(0.0, 2, 4000))]
    for number in range(1, 10**6):
        insort(waiting, sequence(number, 50, when=due(now, 0, 50)), key=due_at)
        plan = schedule([], waiting, 10000, 50, 64)
        first = plan.shares[0].sequence
        if first.number == 0:
            break
        waiting.remove(first)
        now += 0.05
    assert first.number == 0 and now < 26


def test_a_time_slice_cuts_prompts_but_always_leaves_a_little() -> None:
    def fitting(tokens: int, pairs: int, context: int) -> int:
        return max(0, 100 - tokens)

    running = [sequence(n, 50, 49) for n in range(10)]
    plan = schedule(running, [sequence(99, 1000)], 1000, 4096, 64, fitting=fitting)
    assert plan.shares[-1].count == 90 and sum(share.count for share in plan.shares) == 100
    running = [sequence(n, 50, 49) for n in range(60)]
    none = schedule(running, [sequence(99, 1000)], 1000, 4096, 64, fitting=lambda *_: 0)
    assert none.shares[-1].count == LEAST and len(none.shares) == 61


def _check(plan: Schedule, running: list[Sequence], free: int, budget: int, most: int) -> None:
    assert sum(share.count for share in plan.shares) <= budget
    assert sum(share.rows for share in plan.shares) <= most and len(plan.shares) <= most
    held = {share.sequence for share in plan.shares}
    assert len(held) == len(plan.shares) and not held & {*plan.preempted}
    ends = [(share.sequence, share.sequence.computed + share.count) for share in plan.shares]
    needed = sum(-(-end // PAGE) - len(each.pages) for each, end in ends)
    assert needed <= free + sum(len(each.pages) for each in plan.preempted)


@settings(max_examples=200)
@given(st.integers(0, 10**9))
def test_budget_rows_and_pages_are_never_passed_and_the_same_gives_the_same(seed: int) -> None:
    rng = random.Random(seed)
    running = []
    for number in range(rng.randrange(20)):
        length = rng.randrange(1, 600)
        computed = rng.choice([length - 1, rng.randrange(length)])
        running.append(sequence(number, length, computed, rng.uniform(0, 9)))
    waiting = [sequence(100 + n, rng.randrange(1, 3000), when=rng.uniform(0, 9)) for n in range(5)]
    waiting.sort(key=due_at)
    free, budget, most = rng.randrange(0, 200), rng.randrange(1, 600), rng.randrange(1, 65)
    fits = rng.choice([None, lambda tokens, pairs, context: max(0, 60 - tokens)])
    plan = schedule(running, waiting, free, budget, most, fitting=fits)
    _check(plan, running, free, budget, most)
    again = schedule(running, waiting, free, budget, most, fitting=fits)
    assert again == plan
    if free > 200 // PAGE and budget > len(running) and (running or waiting):
        assert plan.shares


def test_a_step_is_planned_quickly() -> None:
    running = [sequence(n, 500, 499) for n in range(64)]
    waiting = [sequence(100 + n, 500) for n in range(200)]
    times = []
    for _ in range(50):
        began = time.perf_counter()
        schedule(running, waiting, 10000, 4096, 64)
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 4] < 1e-3
