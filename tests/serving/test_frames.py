"""Messages as bytes: however they arrive, and whatever else arrives."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ProtocolError
from assay.llm.request import Sampling
from assay.serving.frames import HEAD, MOST, Frames, packed
from assay.serving.messages import Cancel, Hello, Message, Ping, Submit, ToEngine

DECODER = msgspec.msgpack.Decoder(ToEngine)
ids = st.text(max_size=30)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ping, st.integers(0, 2**40)),
    st.builds(Cancel, ids),
    st.builds(Hello, st.integers(0, 9), ids, ids, st.integers(1, 2**20)),
    st.builds(
        Submit,
        ids,
        st.lists(st.integers(0, 2**31 - 1), max_size=50),
        st.builds(Sampling, seed=st.integers(0, 2**63 - 1), temperature=st.floats(0, 100)),
        drawn=st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=3),
    ),
)


@given(st.lists(messages, max_size=8), st.lists(st.integers(0, 4000), max_size=8))
def test_messages_arrive_however_their_bytes_are_cut(sent: list[Message], cuts: list[int]) -> None:
    data = b"".join(map(packed, sent))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    frames, found = Frames(DECODER), []
    for begin, end in pairwise(places):
        found += frames.feed(data[begin:end])
    assert found == sent


@given(st.lists(messages, min_size=1, max_size=3), st.integers(0, 10**6), st.integers(0, 255))
def test_damage_is_a_typed_error_or_another_message(sent: list[Message], at: int, byte: int) -> None:
    data = bytearray(b"".join(map(packed, sent)))
    data[at % len(data)] = byte
    with suppress(ProtocolError):
        Frames(DECODER).feed(bytes(data))


@given(st.binary(max_size=300))
def test_noise_is_a_typed_error(noise: bytes) -> None:
    with suppress(ProtocolError):
        Frames(DECODER).feed(noise)


def test_a_claim_of_more_than_a_frame_holds_is_refused_at_once() -> None:
    with pytest.raises(ProtocolError):
        Frames(DECODER).feed((MOST + 1).to_bytes(HEAD, "big"))


def test_a_request_that_is_out_of_range_is_refused() -> None:
    data = bytearray(packed(Submit("a", [1], Sampling(seed=1, top_p=0.5))))
    where = data.index(b"top_p") + 5
    data[where : where + 9] = b"\xcb" + b"\xc0" * 8  # a negative double
    with pytest.raises(ProtocolError):
        Frames(DECODER).feed(bytes(data))


@pytest.mark.parametrize("message", [Cancel("\ud800"), Ping(2**64), Cancel("x" * MOST)])
def test_what_no_frame_can_hold_is_a_typed_error(message: Message) -> None:
    with pytest.raises(ProtocolError):
        packed(message)


def test_a_claimed_length_takes_no_memory() -> None:
    tracemalloc.start()
    frames = Frames(DECODER)
    assert frames.feed(MOST.to_bytes(HEAD, "big") + b"\xc6\x03\xff\xff\xff") == []
    for body in (b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 10**5):
        data = b"\x83\xa4type\xa6Submit\xa2id\xa1a\xa6prompt" + body
        with pytest.raises(ProtocolError):
            Frames(DECODER).feed(len(data).to_bytes(HEAD, "big") + data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
