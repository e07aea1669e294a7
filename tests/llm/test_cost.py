"""What steps cost, learnt: never nonsense, and near the truth where there is one."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.llm.cost import Cost

steps = st.tuples(st.integers(1, 4096), st.integers(0, 10**8), st.floats(1e-5, 100))


def truth(tokens: int, pairs: int) -> float:
    return 6.7e-3 + 4e-4 * tokens + 4e-7 * pairs


@settings(max_examples=50)
@given(st.lists(steps, max_size=100), st.integers(1, 4000), st.integers(0, 10**7))
def test_it_is_never_nonsense(seen: list[tuple[int, int, float]], tokens: int, pairs: int) -> None:
    cost = Cost()
    for step in seen:
        cost.learn(*step)
    now = cost.seconds(tokens, pairs)
    assert 0 < now <= cost.seconds(tokens + 1, pairs) <= cost.seconds(tokens + 1, pairs + 1000)
    fits = [cost.fitting(tokens, pairs, 100, seconds) for seconds in (0.0, 0.01, 0.1, 1.0)]
    assert fits == sorted(fits) and fits[0] == 0


def test_a_machine_is_learnt_and_learnt_again_when_it_changes() -> None:
    rng, cost = random.Random(1), Cost()
    for factor in (1.0, 3.0, 0.5):
        for _ in range(800):
            tokens = rng.randrange(1, 200)
            pairs = tokens * rng.randrange(1, 2000)
            cost.learn(tokens, pairs, factor * truth(tokens, pairs) * rng.uniform(0.9, 1.1))
        for tokens, pairs in ((1, 500), (32, 30000), (128, 60000)):
            assert 0.7 < cost.seconds(tokens, pairs) / (factor * truth(tokens, pairs)) < 1.3


def test_a_mishap_is_no_lesson() -> None:
    cost = Cost()
    for _ in range(200):
        cost.learn(32, 10000, truth(32, 10000))
    cost.learn(32, 10000, 60.0)
    assert cost.seconds(32, 10000) < 1.1 * truth(32, 10000)


def test_prompts_are_cut_to_the_slice() -> None:
    rng, cost = random.Random(2), Cost()
    for _ in range(500):
        tokens = rng.randrange(1, 200)
        pairs = tokens * rng.randrange(1, 2000)
        cost.learn(tokens, pairs, truth(tokens, pairs))
    for context in (0, 1000, 8000):
        count = cost.fitting(16, 8000, context, 0.05)
        spent = truth(16 + count, 8000 + count * (context + count // 2))
        assert 0.04 < spent < 0.055
