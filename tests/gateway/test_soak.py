"""A minute of random load with clients that leave: nothing grows.

`python tests/gateway/test_soak.py 1200` takes twenty minutes.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from serving.service import Service, serving

SECONDS, CLIENTS = 70.0, 8
LATE, GROWTH = 16e6, 3e6
"""Bytes by which a process may grow in the second half: plans for sizes of steps that come late, some 100 kB
each, of which there are a hundred or so; and beyond ten minutes, where all have come, the noise of allocators
in a minute. A leak of one request's tokens and texts, some 20 kB, would be five times that.
"""


def memory(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def client(service: Service, seed: int, over: threading.Event, done: list[str]) -> None:
    rng = random.Random(seed)
    while not over.is_set():
        words = " ".join(str(rng.randrange(100)) for _ in range(rng.choice([3, 30, 200])))
        body = {
            "model": "smollm2",
            "messages": [{"role": "user", "content": words}],
            "max_tokens": rng.choice([1, 20, 80]),
            "stream": rng.random() < 0.8,
            "n": rng.choice([1, 1, 3]),
        }
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            if rng.random() < 0.4:  # leaves, at any stage
                time.sleep(rng.uniform(0, 0.3))
                done.append("left")
            else:
                with connection.getresponse() as answer:
                    answer.read()
                    done.append(str(answer.status))
        finally:
            connection.close()


def soak(service: Service, seconds: float) -> None:
    over, done = threading.Event(), list[str]()
    threads = [threading.Thread(target=client, args=(service, n, over, done)) for n in range(CLIENTS)]
    for each in threads:
        each.start()
    children = service.children()
    began, seen = time.monotonic(), []
    while time.monotonic() - began < seconds:
        time.sleep(1.0)
        seen.append([time.monotonic() - began, *map(memory, children.values())])
    over.set()
    for each in threads:
        each.join()
    assert service.children() == children, "a process was started again"
    assert set(done) <= {"left", "200", "429"} and done.count("200") > seconds / 2
    times, *sizes = np.array(seen)[len(seen) // 2 :].T
    for name, size in zip(children, sizes, strict=True):
        slope = np.polyfit(times, size, 1)[0] * 60
        print(f"{name}: {size[-1] / 1e6:.1f} MB, {slope / 1e3:+.0f} kB a minute")
        assert size[-1] - size[0] < LATE, (name, size[-1] - size[0])
        assert seconds < 600 or slope < GROWTH, (name, slope)
    end = time.monotonic() + 10
    while True:
        lines = service.get("/metrics")[1].decode().splitlines()
        found = [line for line in lines if line.startswith("assay_kv_blocks")]
        blocks = {line.split("{")[0]: float(line.split()[-1]) for line in found}
        if blocks["assay_kv_blocks"] == blocks["assay_kv_blocks_free"]:
            break
        assert time.monotonic() < end, blocks
        time.sleep(0.1)
    few = {name: descriptors(pid) for name, pid in children.items()}
    assert max(few.values()) < 40, few


def test_nothing_grows(tmp_path: Path, smollm2_path: Path) -> None:
    run(tmp_path, str(smollm2_path), SECONDS)


def run(folder: Path, model: str, seconds: float) -> None:
    flags = (f"smollm2={model}", "--threads", "2", "--context", "1024", "--cache-tokens", "4096")
    with serving(folder / "run", *flags) as service:
        soak(service, seconds)
        assert service.stop() == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        run(Path(made), "smollm2", float(sys.argv[1]))
