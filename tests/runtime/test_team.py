"""Teams of threads: every thread runs every entry once, whoever forks, closes or runs beside them."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from assay.errors import HardwareFault, RequestError
from assay.runtime.team import Team
from runtime.tapes import Entry, HandTape

COUNT, GATHER = "runtime.counting_kernels:count", "runtime.counting_kernels:gather"


@pytest.fixture(params=[1, 2, 3, 4])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    made = Team(request.param)
    yield made
    made.close()


class Counting:
    """A tape that counts on each thread and then, behind a barrier, adds up: wrong where a barrier fails."""

    def __init__(self, nthreads: int, rounds: int = 3) -> None:
        self.counts = np.zeros(nthreads, np.int64)
        self.sums = np.zeros(rounds, np.int64)
        entries = []
        for index in range(rounds):
            entries.append(Entry(COUNT, [self.counts.ctypes.data]))
            entries.append(Entry(GATHER, [self.counts.ctypes.data, self.sums.ctypes.data + 8 * index]))
        self.rounds = rounds
        self.tape = HandTape(entries)

    def check(self, team: Team) -> None:
        self.counts[:], self.sums[:] = 0, 0
        assert self.tape.run(team) == 0
        assert self.counts.tolist() == [self.rounds] * team.nthreads
        assert self.sums.tolist() == [team.nthreads * (index + 1) for index in range(self.rounds)]


def test_each_thread_runs_each_entry_once(team: Team) -> None:
    counting = Counting(team.nthreads)
    for _ in range(50):
        counting.check(team)


@pytest.mark.parametrize("few", [False, True])
def test_threads_that_part_ways_may_still_run_wherever_they_might(few: bool) -> None:
    allowed = os.sched_getaffinity(0)
    mine = {min(allowed)} if few else allowed
    os.sched_setaffinity(0, mine)
    team = Team(3)
    try:
        counting, before = Counting(3), set(threading.enumerate())
        for _ in range(20):
            counting.check(team)
            time.sleep(0.005)  # they fall asleep
        started = {each for each in threading.enumerate() if each.name.startswith("assay-")} - before
        assert len(started) == 2
        for thread in (threading.current_thread(), *started):
            assert thread.native_id and os.sched_getaffinity(thread.native_id) == mine
    finally:
        team.close()
        os.sched_setaffinity(0, allowed)


def test_closing_ends_the_threads_and_the_next_run_starts_new_ones(team: Team) -> None:
    counting = Counting(team.nthreads)
    before = threading.active_count()
    for _ in range(3):
        counting.check(team)
        assert threading.active_count() == before + team.nthreads - 1
        team.close()
        assert threading.active_count() == before
        team.close()


def test_closing_at_any_moment_ends_the_threads() -> None:
    """Also while a worker is on its way to its first sleep, or back to it."""
    tape = HandTape([])
    for _ in range(1_500):
        team = Team(4)
        tape.run(team)
        team.close()


def test_a_team_that_nobody_holds_ends_its_threads() -> None:
    before = threading.active_count()
    team = Team(3)
    Counting(3).check(team)
    gone = weakref.ref(team)
    del team
    gc.collect()
    assert gone() is None and threading.active_count() == before


def test_ten_thousand_short_runs_on_more_threads_than_cores() -> None:
    team = Team(4)
    counting = Counting(4, rounds=2)
    for _ in range(10_000):
        counting.check(team)
    team.close()


def test_runs_after_sleep() -> None:
    """Waiters that have gone to sleep wake up."""
    team = Team(4)
    counting = Counting(4)
    for pause in (0.0, 0.02, 0.1, 0.0):
        time.sleep(pause)
        counting.check(team)
    team.close()


def test_two_teams_at_once() -> None:
    teams = [Team(3), Team(2)]
    failures: list[BaseException] = []

    def work(team: Team) -> None:
        try:
            counting = Counting(team.nthreads)
            for _ in range(300):
                counting.check(team)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=work, args=(team,)) for team in teams]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures
    for team in teams:
        team.close()


def test_callers_of_one_team_wait_for_each_other() -> None:
    team = Team(3)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            counting = Counting(3)
            for _ in range(200):
                counting.check(team)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=work) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures
    team.close()


def forked(counting: Counting, team: Team) -> int:
    """The exit status of a forked child that runs the tape."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for _ in range(20):
                counting.check(team)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_after_threads_exist() -> None:
    """The child starts threads of its own; the parent's go on."""
    team = Team(3)
    counting = Counting(3)
    counting.check(team)
    assert forked(counting, team) == 0
    counting.check(team)
    team.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_another_thread_runs_the_team() -> None:
    team = Team(2)
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            counting = Counting(2)
            while not stop.is_set():
                counting.check(team)
        except BaseException as error:
            failures.append(error)

    caller = threading.Thread(target=work)
    caller.start()
    try:
        mine = Counting(2)
        assert [forked(mine, team) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        caller.join()
    assert not failures
    team.close()


def test_the_first_fault_is_reported() -> None:
    team = Team(2)
    counts = np.zeros(2, np.int64)
    count = Entry(COUNT, [counts.ctypes.data])
    fail = Entry("runtime.counting_kernels:fail", [])
    assert HandTape([count, fail, count, fail]).run(team) == 2
    assert HandTape([count, count]).run(team) == 0
    assert counts.tolist() == [4, 4], "a fault stops nothing: the executor decides"
    team.close()


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_a_team_needs_a_thread(threads: int) -> None:
    with pytest.raises(RequestError, match="a team of so many threads"):
        Team(threads)


def test_a_thread_that_cannot_start_is_an_error_and_the_team_starts_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team, counting = Team(3), Counting(3)
    start, started = threading.Thread.start, []

    def second_fails(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", second_fails)
        with pytest.raises(HardwareFault, match="a thread can't be started"):
            counting.tape.run(team)
    assert threading.active_count() == before
    counting.check(team)
    team.close()
