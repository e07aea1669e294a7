"""Barriers stand where data flows between threads, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from assay.compiler.barriers import Rows, Touched, barriers
from assay.graph.dim import Dim

T, R = Dim.of("T"), Dim.of("R")
ROWS = (None, T, R)


launch_choices = st.lists(
    st.tuples(
        st.lists(st.sampled_from((*ROWS, "unread")), min_size=8, max_size=8),
        st.sampled_from((0, 1, 2)),
        st.sampled_from(ROWS),
    ),
    min_size=1,
    max_size=10,
)
"""For each launch: how it reads each of the newest values, which state it changes if any, how it writes."""


def launches_of(
    choices: Sequence[tuple[Sequence[Dim | str | None], int, Dim | None]],
) -> tuple[list[Touched], dict[str, str]]:
    """Launches over a few values and two states, which some of them change in place."""
    aliases: dict[str, str] = {}
    current = {"state1": "state1", "state2": "state2"}
    values = ["x0", "x1"]
    launches = []
    for index, (ways, changes, rows) in enumerate(choices):
        readable = [*current.values(), *values[-3:]]
        reads = {name: way for name, way in zip(readable, ways, strict=False) if not isinstance(way, str)}
        name = f"v{index}"
        if changes:
            state = f"state{changes}"
            reads[current[state]] = rows
            aliases[name], current[state] = state, name
        else:
            values.append(name)
        launches.append(Touched(reads, {name: rows}))
    return launches, aliases


def races(
    launches: Sequence[Touched], waits: Sequence[bool], aliases: Mapping[str, str]
) -> Iterator[tuple[int, int]]:
    """Pairs of launches that some interleaving of the threads runs in the wrong order.

    Between two barriers each thread runs its shares of the launches in order, at any speed. So two launches
    without a barrier between are ordered only where one thread does both: on the same rows, divided alike.
    """

    def clash(one: Rows, other: Rows) -> bool:
        return any(
            aliases.get(name, name) == aliases.get(also, also) and (rows is None or rows != others)
            for name, rows in one.items()
            for also, others in other.items()
        )

    for later, other in enumerate(launches):
        for earlier, one in enumerate(launches[:later]):
            if not any(waits[earlier + 1 : later + 1]) and (
                clash(one.writes, other.reads)
                or clash(one.writes, other.writes)
                or clash(one.reads, other.writes)
            ):
                yield earlier, later


@given(launch_choices)
def test_no_interleaving_breaks_a_dependency(
    choices: list[tuple[list[Dim | str | None], int, Dim | None]],
) -> None:
    launches, aliases = launches_of(choices)
    waits = barriers(launches, aliases)
    assert list(races(launches, waits, aliases)) == []


@given(launch_choices)
def test_barriers_are_needed(choices: list[tuple[list[Dim | str | None], int, Dim | None]]) -> None:
    """Without any one of them there is a race: waiting costs time."""
    launches, aliases = launches_of(choices)
    waits = barriers(launches, aliases)
    for index, barrier in enumerate(waits):
        if barrier:
            fewer = [*waits[:index], False, *waits[index + 1 :]]
            assert list(races(launches, fewer, aliases)), index


def test_barriers_by_hand() -> None:
    launches = [
        Touched({"x": T}, {"a": T}),
        Touched({"a": T}, {"b": T}),  # the same rows as a's
        Touched({"b": None}, {"c": None}),  # any thread reads any row of b
        Touched({"b": None, "a": T}, {"d": None}),  # nothing new
        Touched({"c": T}, {"e": T}),  # c is written by any thread
        Touched({"state": None}, {"f": None}),
        Touched({"e": R}, {"g": R}),  # other rows than e's
        Touched({"state": T}, {"h": T}),
        Touched({"x": T, "state": T}, {"state'1": T}),
        Touched({"h": T, "state'1": None}, {"i": T}),  # the rows of one, all of the other
    ]
    waits = barriers(launches, {"state'1": "state"})
    assert waits == [False, False, True, False, True, False, True, False, False, True]


def test_reading_one_value_in_two_ways_is_reading_it_whole() -> None:
    launches = [
        Touched({"state": T}, {"a": T}),
        Touched({"state": None}, {"b": T}),
        Touched({"state": T}, {"state'1": T}),
    ]
    assert barriers(launches, {"state'1": "state"}) == [False, False, True]
