"""Places in the arena: what lives at once never overlaps."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.compiler.place import ALIGNMENT, Interval, place

intervals = st.lists(
    st.builds(
        lambda begin, length, nbytes: (begin, begin + length, nbytes),
        st.integers(-1, 12),
        st.integers(0, 6),
        st.integers(0, 5000),
    ),
    max_size=25,
).map(lambda rows: [Interval(f"v{index}", *row) for index, row in enumerate(rows)])


@settings(max_examples=100)
@given(intervals, st.sampled_from((0, 1, 64, 200)))
def test_values_alive_together_lie_apart(values: list[Interval], gap: int) -> None:
    offsets, total = place(values, gap)
    assert set(offsets) == {value.name for value in values}
    for value in values:
        assert offsets[value.name] >= 0 and offsets[value.name] % ALIGNMENT == 0
        assert offsets[value.name] + value.nbytes + gap <= total
    for one, other in combinations(values, 2):
        if one.begin <= other.end and other.begin <= one.end:
            first, second = sorted((one, other), key=lambda value: offsets[value.name])
            if first.nbytes and second.nbytes:
                assert offsets[first.name] + first.nbytes + gap <= offsets[second.name], (first, second)


@given(intervals)
def test_the_order_of_the_list_decides_nothing(values: list[Interval]) -> None:
    assert place(values) == place(values[::-1])


def test_memory_is_used_again() -> None:
    """A chain of values, each dead when the next but one begins, takes the room of two."""
    chain = [Interval(f"v{index}", index, index + 1, 4096) for index in range(20)]
    assert place(chain)[1] == 2 * 4096
    apart = [Interval(f"v{index}", index, index, 4096) for index in range(20)]
    assert place(apart)[1] == 4096


def test_holes_are_joined_and_the_smallest_that_fits_is_taken() -> None:
    small = [Interval(f"s{index}", 0, index // 2, 64) for index in range(6)]
    # Two neighbours end after phase 0: their joined hole holds what neither held alone.
    offsets, total = place([*small, Interval("joined", 1, 9, 128)])
    assert total == 6 * 64 and offsets["joined"] == min(offsets["s0"], offsets["s1"])
    rows = [
        Interval("a", 0, 0, 256),
        Interval("b", 0, 9, 192),
        Interval("c", 0, 0, 128),
        Interval("d", 0, 9, 64),
    ]
    offsets, _ = place([*rows, Interval("late", 1, 9, 128)])
    assert offsets["late"] == offsets["c"]


def test_the_arena_grows_at_a_hole_at_its_end() -> None:
    offsets, total = place([Interval("a", 0, 9, 64), Interval("b", 0, 0, 64), Interval("c", 1, 9, 640)])
    assert offsets["c"] == 64 and total == 64 + 640
