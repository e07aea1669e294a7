"""Load is shed when too much fails, and taken again when it doesn't."""

from __future__ import annotations

import pytest

from assay.gateway import breaker
from assay.gateway.breaker import FEWEST, PAUSE, WINDOW, Breaker


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(breaker, "time", made)
    return made


def test_it_stays_closed_while_little_fails(clock: Clock) -> None:
    made = Breaker()
    for number in range(20000):
        made.note(number % 1500 == 1499)
        clock.now += 0.001
        assert made.admits()


def test_it_opens_and_tries_one_request_after_a_pause(clock: Clock) -> None:
    made = Breaker()
    for number in range(1000):
        made.note(number % (1000 // (FEWEST + 1)) == 0)
    assert not made.admits()
    clock.now += PAUSE
    assert made.admits() and not made.admits()
    made.note(True)
    assert not made.admits()
    clock.now += PAUSE
    assert made.admits()
    made.note(False)
    assert made.admits() and made.admits()


def test_a_try_that_is_never_answered_is_not_the_last(clock: Clock) -> None:
    made = Breaker()
    for _ in range(FEWEST):
        made.note(True)
    for _ in range(3):
        assert not made.admits()
        clock.now += PAUSE
        assert made.admits()
    made.note(False)
    assert made.admits() and made.admits()


def test_old_failures_are_forgotten(clock: Clock) -> None:
    made = Breaker()
    for _ in range(FEWEST - 1):
        made.note(True)
    clock.now += WINDOW + 2
    made.note(True)
    assert made.admits()
