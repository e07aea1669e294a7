"""The process that turns texts into tokens, asked over its socket."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from assay.llm.source import open_source
from assay.llm.tokenizer import Tokenizer
from assay.serving.frames import Frames, packed
from assay.serving.messages import (
    VERSION,
    Beat,
    Decode,
    Encode,
    Failed,
    FromTokenizer,
    Grammar,
    Hello,
    Message,
    Ping,
    Pong,
    Render,
    Text,
    Tokens,
)

Ask = Callable[..., list[Message]]
LONG = json.dumps([{"role": "user", "content": "ab " * 10**6}]).encode()
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CHILD = """
import sys
from assay.serving import tokenizer_worker
code = tokenizer_worker.main()
bad = [name for name in ("numba", "llvmlite") if name in sys.modules]
sys.exit(f"imported: {bad}" if bad else code)
"""


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    with open_source(smollm2_path) as source:
        return source.tokenizer()


@pytest.fixture(scope="module")
def ask(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    folder = tmp_path_factory.mktemp("tokenizer")
    config = {
        "name": "tokenizer-0",
        "models": {"m": str(smollm2_path)},
        "socket": str(folder / "s"),
        "alive": str(folder / "alive"),
        "log": str(folder / "log"),
    }
    worker = subprocess.Popen([sys.executable, "-c", CHILD, json.dumps(config)], stderr=subprocess.PIPE)
    client, frames = socket.socket(socket.AF_UNIX), Frames(msgspec.msgpack.Decoder(FromTokenizer))
    client.settimeout(20)
    end = time.monotonic() + 30
    while client.connect_ex(str(folder / "s")):
        assert time.monotonic() < end and worker.poll() is None
        time.sleep(0.01)
    client.sendall(packed(Hello(VERSION, "gateway", "test", 1)))

    def asked(*questions: Message) -> list[Message]:
        client.sendall(b"".join(map(packed, questions)))
        found: list[Message] = []
        while len(found) < len(questions):
            messages = frames.feed(client.recv(1 << 16))
            found += [message for message in messages if not isinstance(message, Hello | Beat)]
        return found

    yield asked
    client.close()
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 0, errors
    log = (folder / "log").read_text()
    assert "ready" in log and "weather" not in log and "secret" not in log


def test_texts_become_tokens_and_back(ask: Ask, tokenizer: Tokenizer) -> None:
    text = "Hello, secret world — 42 <|im_end|>"
    plain, special = ask(Encode("1", "m", text), Encode("2", "m", text, special=True))
    assert plain == Tokens("1", tokenizer.encode(text))
    assert special == Tokens("2", tokenizer.encode(text, special=True)) and plain != special
    assert ask(Ping(7)) == [Pong(7)]
    assert ask(Decode("3", "m", tokenizer.encode(text))) == [Text("3", text)]


def test_conversations_with_and_without_tools(ask: Ask, tokenizer: Tokenizer) -> None:
    talk = [{"role": "user", "content": "secret <|im_start|>"}]
    plain, tools = ask(
        Render("1", "m", json.dumps(talk).encode()),
        Render("2", "m", json.dumps(talk).encode(), json.dumps(TOOLS).encode()),
    )
    assert isinstance(plain, Tokens) and isinstance(tools, Tokens)
    assert tokenizer.decode(plain.tokens).count("secret <|im_start|>") == 1
    assert "weather" in tokenizer.decode(tools.tokens)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        (Encode("1", "n", "x"), "model"),
        (Encode("1", "m", "ab " * 10**6, most=100), "text"),
        (Render("1", "m", b"[]"), "messages"),
        (Render("1", "m", b'[{"role": "user"}]'), "messages[0].content"),
        (Render("1", "m", b'[{"role": "user", "content": "x"}]', b"{}"), "tools"),
        (Render("1", "m", LONG, most=100), "messages › text"),
        (Grammar("1", "m", "json_schema", '{"not": {}}'), "json_schema.not"),
        (Grammar("1", "m", "regex", "("), "regex"),
        (Decode("1", "m", [2**31]), "tokens"),
    ],
)
def test_what_can_not_be_answered_names_the_field(ask: Ask, question: Message, place: str) -> None:
    (failed,) = ask(question)
    assert isinstance(failed, Failed) and (failed.id, failed.kind) == ("1", "RequestError")
    assert failed.place.startswith(place)


@pytest.mark.parametrize("messages", [b"[" * 10**5, b"\xff", b""])
def test_what_nobody_foresaw_fails_alone(ask: Ask, messages: bytes) -> None:
    failed, answered = ask(Render("1", "m", messages), Encode("2", "m", "x"))
    assert isinstance(failed, Failed) and failed.id == "1"
    assert isinstance(answered, Tokens)


def test_no_first_question_takes_long(ask: Ask) -> None:
    start = time.monotonic()
    assert ask(Grammar("1", "m", "json_schema", '{"type": "object"}')) == [Text("1", "")]
    assert time.monotonic() - start < 0.25
