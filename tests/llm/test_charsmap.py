"""SentencePiece's tables of characters, against naive search; and tables that mean harm."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import NormalizedString

from assay.llm.charsmap import LONGEST, Charsmap
from llm.tries import table

LETTERS = st.text("abé́ﬁ▁ 0", min_size=1, max_size=4)
TABLES = st.dictionaries(LETTERS, st.text("xyé ▁", max_size=6), min_size=1, max_size=12)


def replaced(charsmap: Charsmap, text: str) -> str:
    held = NormalizedString(text)
    charsmap.normalize(held)
    return held.normalized


def naive(replacements: dict[str, str], text: str) -> str:
    found = ""
    while text:
        keys = [key for key in replacements if text.startswith(key)]
        key = max(keys, key=len, default=text[0])
        found, text = found + replacements.get(key, key), text[len(key) :]
    return found


@settings(deadline=None)
@given(replacements=TABLES, text=st.text("abé́ﬁ▁ 0cd🙂\0", max_size=30))
def test_the_longest_key_is_replaced(replacements: dict[str, str], text: str) -> None:
    raw = table({key.encode(): new.encode() for key, new in replacements.items()})
    assert replaced(Charsmap(raw), text) == naive(replacements, text)


GOOD = table({b"a": b"b", b"ab": b"", "é".encode(): b"e"})


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\0\0\0\0", b"\0\0\0\0\0", GOOD[:-1], GOOD[:500], GOOD[:4], b"\xff" * 4 + GOOD[4:],
        b"\4\0\0\0" + GOOD[4:], table({b"a": b"b" * (LONGEST + 1)}), GOOD + b"x",
        GOOD[:7] + b"\x80" + GOOD[8:],
    ],
)  # fmt: skip
def test_damaged_tables_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"wanted|itself|isn't there"):
        Charsmap(raw)


@settings(deadline=None)
@given(data=st.data())
def test_any_table_is_refused_or_ends_soon(data: st.DataObject) -> None:
    raw = bytearray(GOOD)
    size = int.from_bytes(raw[:4], "little")
    used = [at for at in range(0, len(raw), 4) if any(raw[at : at + 4])]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.sampled_from(used) | st.integers(0, len(raw) - 4))
        raw[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    began = time.process_time()
    try:
        charsmap = Charsmap(bytes(raw[: 4 + size + 20]))
    except ValueError:
        return
    for text in ("ab é" * 50, "".join(map(chr, range(1, 0x250)))):
        assert len(replaced(charsmap, text)) <= LONGEST * len(text)
    assert time.process_time() - began < 2  # seconds
