"""The gateways' end of connections, with real processes at the other."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import uvloop

from assay.serving.link import Link
from assay.serving.log import Log
from assay.serving.messages import VERSION, Encode, FromTokenizer, Hello, Message, Text, ToTokenizer
from assay.serving.server import Server

HELLO = Hello(VERSION, "gateway", "test", 1)
ECHO = Path(__file__).with_name("echo.py")


@contextmanager
def echo(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, str(ECHO), str(path)]) as process:
        try:
            yield process
        finally:
            process.kill()


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


class Heard:
    """A link, and what it tells."""

    def __init__(self, folder: Path) -> None:
        self.got: list[Message] = []
        self.ups: list[Hello] = []
        self.downs = 0
        log, decoder = Log("test", folder / "log"), msgspec.msgpack.Decoder(FromTokenizer)
        self.link = Link(str(folder / "s"), HELLO, decoder, self.got.append, self.changed, log)

    def changed(self, hello: Hello | None) -> None:
        if hello is None:
            self.downs += 1
        else:
            self.ups.append(hello)


def listening(folder: Path, name: str, version: int = VERSION) -> Server:
    decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(ToTokenizer)
    return Server(folder / "s", Hello(version, "tokenizer", name, 5), decoder)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_thousand_messages_a_second_arrive_in_order(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def work() -> None:
        heard = Heard(tmp_path)
        link = heard.link
        assert link.peer is None and not link.send(Encode("a", "m", "x"))
        await until(lambda: link.peer is not None)
        start = time.monotonic()
        for number in range(1500):
            assert link.send(Encode(str(number), "m", "text " * 20))
            await asyncio.sleep(max(0.0, start + number / 1000 - time.monotonic()))
        await until(lambda: len(heard.got) == 1500)
        assert heard.got == [Text(str(number), "text " * 20) for number in range(1500)]
        await link.close()
        assert link.peer is None and not link.send(Encode("a", "m", "x"))

    with echo(tmp_path / "s"):
        run(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_killed_worker_is_connected_to_again_when_it_is_back(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def work() -> None:
        heard = Heard(tmp_path)
        for life in range(3):
            with echo(tmp_path / "s") as process:
                await until(lambda life=life: len(heard.ups) > life)  # type: ignore[misc]
                assert heard.ups[-1].pid == process.pid
                assert heard.link.send(Encode(str(life), "m", "x"))
                await until(lambda life=life: len(heard.got) > life)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                await until(lambda life=life: heard.downs > life, 2)  # type: ignore[misc]
                assert heard.link.peer is None and not heard.link.send(Encode("a", "m", "x"))
        assert len(heard.ups) == heard.downs == 3
        # The worker's start isn't the link's: from its listening on, 200 ms are left.
        server = listening(tmp_path, "back")
        start = time.monotonic()
        while len(heard.ups) == 3 and time.monotonic() < start + 5:
            server.poll(0)
            await asyncio.sleep(0.001)
        assert time.monotonic() - start < 0.2 and heard.ups[-1].name == "back"
        await heard.link.close()
        server.close()

    run(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_another_version_is_told_once_and_asked_seldom(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def work() -> None:
        heard, met = Heard(tmp_path), 0
        other = listening(tmp_path, "next", VERSION + 1)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            met += sum(message == HELLO for _, message in other.poll(0))
            await asyncio.sleep(0.002)
        assert 2 <= met <= 20 and not heard.ups and not heard.downs
        other.close()
        server = listening(tmp_path, "same")
        await_up = time.monotonic() + 5
        while not heard.ups and time.monotonic() < await_up:
            server.poll(0)
            await asyncio.sleep(0.001)
        assert heard.ups[0].name == "same"
        await heard.link.close()
        server.close()
        assert (tmp_path / "log").read_text().count("another version") == 1

    run(loop, work())


def test_a_worker_that_does_not_read_gets_no_more(tmp_path: Path) -> None:
    async def work() -> None:
        heard, server = Heard(tmp_path), listening(tmp_path, "slow")
        while not heard.ups:
            server.poll(0)
            await asyncio.sleep(0.001)
        count, end = 0, time.monotonic() + 20
        while heard.link.send(Encode(str(count), "m", "x" * 1_000_000)) and count < 100:
            count += 1
        assert 30 < count < 40
        found = list[Message]()
        while len(found) < count and time.monotonic() < end:
            found += [message for _, message in server.poll(0) if isinstance(message, Encode)]
            await asyncio.sleep(0)
        assert [getattr(each, "id", "") for each in found] == [str(number) for number in range(count)]
        assert heard.link.send(Encode("a", "m", "x"))
        await heard.link.close()
        server.close()

    run(asyncio.new_event_loop, work())
