"""A gateway's view of its workers: what they are asked when they come, go, stall or refuse."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from assay.gateway import backend as module
from assay.gateway.backend import Backend, Mailbox
from assay.gateway.errors import Refusal
from assay.llm.request import Sampling
from assay.serving.log import Log
from assay.serving.messages import VERSION, Encode, Hello, Piece, Submit, Tokens
from gateway.gate import CHAT, Gate, chat, gated


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    try:
        yield made
    finally:
        for name in list(made.processes):
            made.kill(name)


@asynccontextmanager
async def backend(workers: Gate, *names: str) -> AsyncIterator[Backend]:
    for name in names:
        workers.start(name)
    made = Backend(workers.config, Hello(VERSION, "gateway", "g", os.getpid()), Log("g"))
    try:
        while made.tokenizers.there < sum(name in ("t0", "t1") for name in names) or not all(
            made.engines[name].ready for name in names if name in made.engines
        ):
            await asyncio.sleep(0.01)
        yield made
    finally:
        await made.close()


async def timed(made: Backend, text: str) -> float:
    began = time.monotonic()
    answer = await made.tokenizers.ask(Encode("", "stub", text))
    assert isinstance(answer, Tokens) and answer.tokens == [*map(ord, text)]
    return time.monotonic() - began


def test_a_worker_that_hangs_is_left_within_800_ms(workers: Gate) -> None:
    async def run() -> list[float]:
        async with backend(workers, "t0", "t1") as made:
            await timed(made, "x")
            workers.processes["t0"].send_signal(signal.SIGSTOP)
            found = await asyncio.gather(*(timed(made, f"{n}") for n in range(5)))
            return [*found, await timed(made, "y")]

    *found, after = asyncio.run(run())
    assert max(found) < 0.8 and after < 0.2


def test_a_text_that_takes_long_holds_no_other_up(workers: Gate) -> None:
    """Neither those behind it, nor those that come when it has moved to the other worker."""

    async def run() -> tuple[float, list[float]]:
        async with backend(workers, "t0", "t1") as made:
            slow = asyncio.create_task(timed(made, "stall=1.2|"))
            quick = []
            for number in range(12):
                await asyncio.sleep(0.05)
                quick.append(asyncio.create_task(timed(made, f"{number}")))
            return await slow, await asyncio.gather(*quick)

    slow, quick = asyncio.run(run())
    assert slow < 2.5 and sorted(quick)[len(quick) // 2] < 0.6


def test_what_a_dead_worker_had_is_asked_of_the_other(workers: Gate) -> None:
    async def run() -> float:
        async with backend(workers, "t0", "t1") as made:
            asked = asyncio.create_task(timed(made, "stall@t0=5|x"))
            await asyncio.sleep(0.05)
            workers.kill("t0")
            return await asked

    assert asyncio.run(run()) < 0.5


def test_questions_wait_for_a_worker(workers: Gate) -> None:
    async def run() -> None:
        async with backend(workers) as made:
            asked = asyncio.create_task(timed(made, "x"))
            await asyncio.sleep(0.05)
            workers.start("t1")
            await asked

    asyncio.run(run())


def test_an_engine_that_never_came_is_given_up(workers: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GONE", 0.2)

    async def run() -> None:
        async with backend(workers) as made:
            box = Mailbox()
            engine = made.engines["stub"]
            engine.ask(Submit("a", [1], Sampling(seed=1)), box)
            await asyncio.sleep(0.3)
            engine.expire()
            with pytest.raises(Refusal) as refused:
                await box.next(1)
            assert refused.value.status == 503 and refused.value.retry

    asyncio.run(run())


def test_an_engine_that_comes_back_is_told_what_is_known(workers: Gate) -> None:
    async def run() -> None:
        async with backend(workers, "stub") as made:
            box = Mailbox()
            text = "each=1,tick=0.05|" + "x" * 12 + "y" * 12
            call = made.engines["stub"].ask(Submit("a", [*map(ord, text)], Sampling(seed=1)), box)
            pieces, killed = list[Piece](), False
            while not (pieces and pieces[-1].reason):
                pieces += [event for _, event in await box.next(5) if isinstance(event, Piece)]
                if len(pieces) == 5 and not killed:
                    killed = True
                    workers.kill("stub")
                    workers.start("stub")
            assert "".join(piece.text for piece in pieces) == "x" * 12 + "y" * 12
            assert [piece.at for piece in pieces] == [*range(1, 25)]
            call.close()
            assert not made.engines["stub"]._calls

    asyncio.run(run())


def test_a_background_response_is_had_by_an_engine_before_that_is_said(tmp_path: Path) -> None:
    with gated(tmp_path, without="stub") as gate:
        asked = {"model": "stub", "input": "|done", "background": True}
        gate.until(lambda: gate.post(chat("x", model="second"))[0] == 200)
        found = list[tuple[int, dict[str, object]]]()
        thread = threading.Thread(target=lambda: found.append(gate.post(asked, "/v1/responses")))
        thread.start()
        thread.join(1.5)
        assert not found
        gate.start("stub")
        thread.join(10)
        status, body = found[0]
        assert status == 200
        gate.until(lambda: gate.ask("GET", f"/v1/responses/{body['id']}")[0] == 200)


def test_a_stream_of_one_engine_goes_on_while_another_is_away(tmp_path: Path) -> None:
    with gated(tmp_path) as gate:
        _, data, _ = gate.ask("POST", CHAT, chat("|Hello", model="second", stream=True))
        last = data.decode().split("id: ")[1].split("\n")[0]
        gate.kill("stub")
        gate.until(lambda: b'"stub":false' in gate.ask("GET", "/ready")[1])
        began = time.monotonic()
        status, rest, _ = gate.ask("GET", f"/v1/streams/{last.split(':')[0]}")
        assert status == 200 and b"Hello" in rest and time.monotonic() - began < 2
