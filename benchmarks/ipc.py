"""Round trips between two processes over a Unix socket: a thousand messages a second, none lost.

python -m benchmarks.ipc --seconds 10 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from assay.serving.link import Link
from assay.serving.log import Log
from assay.serving.messages import VERSION, FromEngine, Hello, Ping, Pong
from assay.serving.server import Server


def worker(path: Path) -> None:
    """Answers every Ping."""
    hello = Hello(VERSION, "engine", "ipc", os.getpid())
    server = Server(path, hello, msgspec.msgpack.Decoder(Hello | Ping))
    while True:
        server.poll(0.1)


async def measure(seconds: float, rate: float) -> dict[str, object]:
    """All figures."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "ipc.sock"
        child = subprocess.Popen([sys.executable, "-m", "benchmarks.ipc", "--worker", str(path)])
        sent: dict[int, float] = {}
        trips: list[float] = []
        order: list[int] = []

        def came(message: FromEngine) -> None:
            if isinstance(message, Pong):
                trips.append(time.perf_counter() - sent[message.number])
                order.append(message.number)

        hello = Hello(VERSION, "gateway", "ipc", os.getpid())
        log = Log("ipc")
        link = Link[FromEngine](
            str(path), hello, msgspec.msgpack.Decoder(FromEngine), came, lambda _: None, log
        )
        while link.peer is None:
            await asyncio.sleep(0.01)
        began, number = time.perf_counter(), 0
        while (now := time.perf_counter()) - began < seconds:
            while number < (now - began) * rate:
                sent[number] = time.perf_counter()
                link.send(Ping(number))
                number += 1
            await asyncio.sleep(0.0005)
        await asyncio.sleep(0.5)
        await link.close()
        child.kill()
        child.wait()
    trips.sort()
    return {
        "messages_per_second": round(number / seconds), "sent": number, "lost": number - len(trips),
        "in_order": order == sorted(order), "p50_ms": round(1e3 * trips[len(trips) // 2], 3),
        "p99_ms": round(1e3 * trips[int(0.99 * len(trips))], 3), "most_ms": round(1e3 * trips[-1], 3),
    }  # fmt: skip


def main() -> None:
    """Print the figures."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(Path(given.worker))
    found = uvloop.run(measure(given.seconds, given.rate))
    print(
        json.dumps(found) if given.json else "\n".join(f"{name:20} {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
