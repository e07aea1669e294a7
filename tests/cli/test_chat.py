"""`assay chat`: the conversation, its orders, and Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.errors import RequestError
from assay.llm.answer import Completion, Timings, Usage


class Scripted:
    """A stream that says what it heard, and may be interrupted after its first piece."""

    def __init__(self, heard: list[str], interrupt: bool) -> None:
        self.pieces = iter(["heard ", *heard])
        self.interrupt = interrupt
        self.said: list[str] = []
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces:
            self.said.append(piece)
            if self.interrupt:
                os.kill(os.getpid(), signal.SIGINT)
            yield piece

    def close(self) -> None:
        self.ended = True

    @property
    def completion(self) -> Completion:
        reason = "cancelled" if self.interrupt else "stop"
        count = len(self.said)
        return Completion("".join(self.said), (1,) * count, reason, Usage(1, count), Timings(0.5, 1.5), 0, ())


class Model:
    """Records the conversations that it is asked to go on with."""

    def __init__(self) -> None:
        self.conversations: list[list[tuple[str, str]]] = []
        self.streams: list[Scripted] = []
        self.interrupt = False
        self.refuse = ""

    def stream(self, messages: list[dict[str, str]], **sampling: object) -> Scripted:
        if messages[-1]["content"] == self.refuse:
            raise RequestError("the context is too long", place="prompt")
        self.conversations.append([(message["role"], message["content"]) for message in messages])
        heard = [message["content"] for message in messages if message["role"] == "user"]
        self.streams.append(Scripted(heard, self.interrupt))
        return self.streams[-1]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    monkeypatch.setattr("assay.cli.model.resolve", lambda name, progress: Path(name))
    monkeypatch.setattr("assay.cli.model.load", lambda name, **options: made)
    return made


def test_each_turn_goes_on_with_the_conversation(cli, model: Model) -> None:
    outcome = cli("chat", "smollm2", "--system", "Be brief.", stdin=b"one\n\n  two  \n")
    assert outcome.code == 0
    assert outcome.out == "heard one\nheard onetwo\n"
    system = ("system", "Be brief.")
    assert model.conversations == [
        [system, ("user", "one")],
        [system, ("user", "one"), ("assistant", "heard one"), ("user", "two")],
    ]


def test_each_answer_ends_with_its_speed(cli, model: Model) -> None:
    outcome = cli("chat", "smollm2", stdin=b"one\n")
    assert outcome.err == "[2 tokens, 1.0 tokens/s, first after 0.50 s]\n"


def test_a_seed_that_is_drawn_is_told_where_it_matters(cli, model: Model) -> None:
    drawn = cli("chat", "smollm2", "--temperature", "0.5", stdin=b"one\n")
    assert drawn.err == "[2 tokens, 1.0 tokens/s, first after 0.50 s, seed 0]\n"
    given = cli("chat", "smollm2", "--temperature", "0.5", "--seed", "0", stdin=b"one\n")
    assert given.err == "[2 tokens, 1.0 tokens/s, first after 0.50 s]\n"


def test_reset_forgets_all_but_the_system_message(cli, model: Model) -> None:
    outcome = cli("chat", "smollm2", "--system", "S", stdin=b"one\n/reset\ntwo\n")
    assert model.conversations[-1] == [("system", "S"), ("user", "two")]
    assert "The conversation is forgotten." in outcome.err


def test_exit_leaves_and_nothing_after_it_is_read(cli, model: Model) -> None:
    assert cli("chat", "smollm2", stdin=b"/exit\none\n").code == 0
    assert model.conversations == []


def test_help_and_near_misses_of_orders(cli, model: Model) -> None:
    outcome = cli("chat", "smollm2", stdin=b"/help\n/rest\n")
    assert all(order in outcome.out for order in ("/help", "/reset", "/exit"))
    assert "no such order: /rest; did you mean /reset or /exit?; /help lists them" in outcome.err
    assert model.conversations == []


def test_ctrl_c_stops_the_answer_and_keeps_the_conversation(cli, model: Model) -> None:
    before = signal.getsignal(signal.SIGINT)
    model.interrupt = True
    outcome = cli("chat", "smollm2", stdin=b"one\ntwo\n")
    assert outcome.code == 0
    assert model.streams[0].ended and model.streams[0].said == ["heard "]
    assert ", stopped]" in outcome.err
    assert model.conversations[1][:2] == [("user", "one"), ("assistant", "heard ")]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_refused_turn_is_left_out(cli, model: Model) -> None:
    model.refuse = "long"
    outcome = cli("chat", "smollm2", stdin=b"one\nlong\ntwo\n")
    assert outcome.code == 0
    assert "the context is too long" in outcome.err and "/reset" in outcome.err
    assert [text for _, text in model.conversations[-1]] == ["one", "heard one", "two"]


def test_a_stopped_answer_of_the_real_model_leaves_the_engine_sound(loaded) -> None:
    stream = loaded.stream([{"role": "user", "content": "Tell me a story."}], max_tokens=40)
    next(stream)
    stream.close()
    assert stream.completion.finish_reason == "cancelled"
    assert 0 < len(stream.completion.tokens) < 40
    assert list(stream) == [] and not loaded.engine.busy
    loaded.engine.check_integrity()


def test_a_stream_that_is_dropped_unread_is_cancelled(loaded) -> None:
    loaded.stream("Hello", max_tokens=4)
    assert not loaded.engine.busy
