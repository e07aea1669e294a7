"""Whatever is killed, every stream ends with exactly the text that it would have had."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.service import Service, Stream, serving

WORDS = (
    "the",
    "fox",
    "ran",
    "over",
    "a",
    "hill",
    "and",
    "saw",
    "many",
    "small",
    "birds",
    "near",
    "an",
    "old",
)
KILLS = 50
CLIENTS = 6


@pytest.fixture
def service(tmp_path: Path, smollm2_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "run", f"smollm2={smollm2_path}", "--threads", "2") as made:
        yield made


def asked(number: int) -> dict[str, object]:
    rng = random.Random(number)
    return {
        "model": "smollm2",
        "messages": [{"role": "user", "content": " ".join(rng.choices(WORDS, k=rng.choice([5, 20, 200])))}],
        "max_tokens": rng.choice([20, 60, 120]),
        "temperature": 0.8,
        "seed": number,
        "n": rng.choice([1, 1, 2]),
    }


def test_no_token_is_lost_or_told_twice_whoever_is_killed(service: Service) -> None:
    rng = random.Random(5)
    wanted = {}
    for number in range(8):
        undisturbed = Stream(service, "/v1/chat/completions", asked(number))
        undisturbed.run()
        wanted[number] = undisturbed.texts, undisturbed.ends
    finished: list[tuple[int, Stream]] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def client(seed: int) -> None:
        mine = random.Random(seed)
        try:
            while not over.is_set():
                number = mine.randrange(8)
                stream = Stream(service, "/v1/chat/completions", asked(number))
                stream.run()
                finished.append((number, stream))
        except BaseException as error:
            failures.append(error)

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for each in clients:
        each.start()
    kills = Counter[str]()
    while kills.total() < KILLS and not failures:
        time.sleep(rng.uniform(0.05, 0.9))
        children = service.children()
        name = rng.choice([*children, "supervisor"])
        if name == "supervisor":
            assert service.process
            service.process.kill()
            service.process.wait()
            time.sleep(rng.uniform(0, 0.3))
            service.start()
        else:
            try:
                os.kill(children[name], signal.SIGKILL)
            except ProcessLookupError:
                continue
        kills[name] += 1
    over.set()
    for each in clients:
        each.join()
    assert not failures, failures
    for number, stream in finished:
        assert (stream.texts, stream.ends) == wanted[number], (number, stream.id, stream.ids)
    assert kills.total() == KILLS and len(kills) == 5
    assert len(finished) > CLIENTS and sum(stream.resumed for _, stream in finished) > 0
    service.wait()
    assert service.stop() == 0


def test_an_engine_that_died_tells_its_next_token_within_three_seconds(service: Service) -> None:
    stream = Stream(service, "/v1/chat/completions", {**asked(3), "max_tokens": 400, "n": 1, "seed": 11})
    times: list[float] = []
    take = stream._take

    def noted(data: dict[str, object], event: str) -> None:
        times.append(time.monotonic())
        take(data, event)

    stream._take = noted  # type: ignore[method-assign]
    reader = threading.Thread(target=stream.run)
    reader.start()
    while len(times) < 30:
        time.sleep(0.005)
    killed = time.monotonic()
    os.kill(service.children()["engine-smollm2"], signal.SIGKILL)
    reader.join()
    after = min(at for at in times if at > killed + 0.1)
    assert after - killed < 3.0
    assert stream.resumed == 0, "the gateway held the client's connection"


def test_a_gateway_is_back_within_two_seconds(service: Service) -> None:
    os.kill(service.children()["gateway-0"], signal.SIGKILL)
    killed = time.monotonic()
    while service.get("/health")[0] != 200:
        assert time.monotonic() - killed < 2.0
        time.sleep(0.01)
    service.wait()


def test_the_standby_takes_over_within_800_milliseconds(service: Service) -> None:
    for name in ("tokenizer-0", "tokenizer-1"):
        end = time.monotonic() + 20
        while b'"tokenizers":2' not in service.get("/ready")[1]:
            assert time.monotonic() < end
            time.sleep(0.02)
        pid = service.children()[name]
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        status, _ = service.post("/tokenize", {"model": "smollm2", "prompt": "a b c"})
        assert status == 200 and time.monotonic() - killed < 0.8
        while service.children()[name] == pid:  # it takes the system a while to end a process
            assert time.monotonic() < end
            time.sleep(0.02)


def test_the_next_supervisor_takes_the_children_over(service: Service) -> None:
    before = service.children()
    assert service.process
    service.process.kill()
    service.process.wait()
    assert service.post("/tokenize", {"model": "smollm2", "prompt": "a"})[0] == 200
    service.start()
    service.wait()
    assert service.children() == before
    assert service.stop() == 0
    for pid in before.values():
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()


def test_running_answers_end_before_a_service_does(service: Service) -> None:
    stream = Stream(service, "/v1/chat/completions", {**asked(1), "max_tokens": 200, "n": 1})
    reader = threading.Thread(target=stream.run)
    reader.start()
    while len(stream.ids) < 3:
        time.sleep(0.005)
    assert service.process
    service.process.send_signal(signal.SIGTERM)
    seen = set()
    while service.process.poll() is None:
        seen.add(service.post("/v1/chat/completions", asked(2))[0])
        time.sleep(0.02)
    reader.join()
    assert service.process.returncode == 0
    assert stream.ends and stream.resumed == 0
    assert 503 in seen and seen <= {503, 0, 200}
