"""Against the naive search: grow the text by a character at a time and see which stop string ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import RequestError
from assay.llm.stops import LONGEST, MOST, StopStrings

WORDS = st.text("ab", min_size=1, max_size=4)


def naive(text: str, stops: list[str]) -> tuple[str, bool]:
    for end in range(1, len(text) + 1):
        lengths = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if lengths:
            return text[: end - max(lengths)], True
    return text, False


@given(pieces=st.lists(st.text("abc", max_size=5), max_size=12), stops=st.lists(WORDS, max_size=4))
def test_any_cutting_gives_what_naive_search_gives(pieces: list[str], stops: list[str]) -> None:
    matcher = StopStrings(stops)
    want, stopped = naive("".join(pieces), stops)
    shown = ""
    for number, piece in enumerate(pieces):
        emitted, done = matcher.push(piece)
        shown += emitted
        so_far = "".join(pieces[: number + 1])
        assert done == naive(so_far, stops)[1]
        assert want.startswith(shown)
        if not done:  # nothing is held back without need
            held = so_far[len(shown) :]
            assert not held or any(stop.startswith(held) for stop in stops)
    assert shown + matcher.finish() == want
    assert matcher.stopped == stopped


def test_across_token_borders() -> None:
    matcher = StopStrings(["</s>"])
    assert matcher.push("Hi <") == ("Hi ", False)
    assert matcher.push("/") == ("", False)
    assert matcher.push("b") == ("</b", False)
    assert matcher.push("</s") == ("", False)
    assert matcher.push("> more") == ("", True)
    assert matcher.push("after") == ("", True)
    assert matcher.finish() == ""


def test_the_first_to_end_counts() -> None:
    assert StopStrings(["abcd", "bc"]).push("xabcd") == ("xa", True)
    assert StopStrings(["bc", "abc"]).push("xabcd") == ("x", True)


@pytest.mark.parametrize(
    ("stops", "place"),
    [
        ("abc", "stop"),
        (["a"] * (MOST + 1), "stop"),
        (["a", ""], "stop[1]"),
        (["a" * (LONGEST + 1)], "stop[0]"),
        (["a", 7], "stop[1]"),
        (["a", "b\udcff"], "stop[1][1]"),
    ],
)
def test_bad_stop_strings(stops: list[str], place: str) -> None:
    with pytest.raises(RequestError) as caught:
        StopStrings(stops)
    assert caught.value.place == place
    assert caught.value.hint == ("stop=['abc']" if stops == "abc" else "")
