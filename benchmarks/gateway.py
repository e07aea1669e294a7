"""A gateway alone: requests and streamed events a second of one worker on one core, with workers that answer
at once.

    python -m benchmarks.gateway --seconds 5 --json

The gateway is bound to one processor, the stub that stands for engine and tokenisers and this client to
others. Goals: 2,000 requests and 20,000 events a second.
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

from assay.gateway.config import GatewayConfig, Limits, ModelConfig
from assay.serving.messages import VERSION, Beat, Hello, Piece, Pieces, Render, Started, Submit, Tokens
from assay.serving.server import Peer, Server

EVENTS = 64
"""Tokens of an answer."""
PORT = 18321


def stub(folder: Path) -> None:
    """Stands for an engine and a tokeniser."""
    about: dict[str, str | int | float | bool] = {
        "kind": "text",
        "context": 8192,
        "digest": "stub",
        "numerics": 1,
    }
    decoder = msgspec.msgpack.Decoder(Hello | Submit | Render)
    hello = Hello(VERSION, "engine", "stub", os.getpid(), about)
    servers = [Server(folder / name, hello, decoder) for name in ("engine.sock", "tokenizer.sock")]
    live: dict[tuple[Peer, str], tuple[int, int]] = {}
    beaten = 0.0
    while True:
        for server in servers:
            for peer, message in server.poll(0.0 if live else 0.0005):
                if isinstance(message, Render):
                    peer.send(Tokens(message.id, [1, 2, 3]))
                elif isinstance(message, Submit):
                    peer.send(Started(message.key))
                    live[peer, message.key] = 0, message.sampling.max_tokens or 1
        if time.monotonic() - beaten > 0.25:
            beaten = time.monotonic()
            for server in servers:
                for peer in server.peers:
                    peer.send(Beat(1, 0, 0))
        told: dict[Peer, list[Piece]] = {}
        for (peer, key), (at, most) in list(live.items()):
            if peer.gone:
                del live[peer, key]
            elif peer.waiting < 1 << 16:
                at += 1
                told.setdefault(peer, []).append(
                    Piece(key, 0, at, [at], " token", "length" if at == most else "")
                )
                live[peer, key] = at, most
                if at == most:
                    del live[peer, key]
        for peer, items in told.items():
            peer.send(Pieces(items))


class Client(asyncio.Protocol):
    """One connection that asks again and again."""

    def __init__(self, request: bytes, end: bytes) -> None:
        self.request, self.end = request, end
        self.answers = self.events = 0
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        """One more request."""
        self.transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.events += data.count(b'"delta":{"content"')
        data = self._tail + data
        self._tail = data[-len(self.end) + 1 :]
        if self.end in data:
            self._tail = b""
            self.answers += 1
            self.ask()


async def load(stream: bool, clients: int, seconds: float) -> tuple[float, float]:
    """Answers and events a second."""
    said = [{"role": "user", "content": "x"}]
    body = json.dumps(
        {"model": "stub", "messages": said, "max_tokens": EVENTS if stream else 1, "stream": stream}
    )
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    )
    end = b"0\r\n\r\n" if stream else b'"object":"chat.completion"}'
    loop, made = asyncio.get_running_loop(), list[Client]()
    for _ in range(clients):
        _, client = await loop.create_connection(lambda: Client(request, end), "127.0.0.1", PORT)
        made.append(client)
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    before = sum(client.answers for client in made), sum(client.events for client in made)
    await asyncio.sleep(seconds)
    spent = time.perf_counter() - began
    after = sum(client.answers for client in made), sum(client.events for client in made)
    for client in made:
        client.transport.abort()  # type: ignore[attr-defined]
    return (after[0] - before[0]) / spent, (after[1] - before[1]) / spent


def measure(seconds: float, clients: int) -> dict[str, object]:
    """All figures."""
    with tempfile.TemporaryDirectory() as name:
        sockets = [f"{name}/tokenizer.sock"]
        processors = sorted(os.sched_getaffinity(0))
        config = GatewayConfig(
            name="gateway", host="127.0.0.1", port=PORT, alive=f"{name}/alive", log=f"{name}/log",
            models=[ModelConfig("stub", "text", f"{name}/engine.sock")], tokenizers=sockets,
            limits=Limits(in_flight=10**6),
        )  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.gateway", "--stub", name]
        worker = subprocess.Popen(command)
        told = Path(name) / "gateway.json"
        told.write_bytes(msgspec.json.encode(config))
        gateway = subprocess.Popen([sys.executable, "-m", "assay.gateway.main", str(told)])
        os.sched_setaffinity(gateway.pid, {processors[0]})
        for pid in (worker.pid, 0):
            os.sched_setaffinity(pid, set(processors[1:]) or {processors[0]})
        try:
            time.sleep(3.0)
            answers, _ = asyncio.run(load(False, clients, seconds))
            streams, events = asyncio.run(load(True, clients, seconds))
        finally:
            for process in (gateway, worker):
                process.kill()
                process.wait()
    return {
        "clients": clients, "requests_per_second": round(answers), "events_per_second": round(events),
        "streams_per_second": round(streams),
    }  # fmt: skip


def main() -> None:
    """Print the figures."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stub", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stub:
        stub(Path(given.stub))
    found = measure(given.seconds, given.clients)
    print(
        json.dumps(found) if given.json else "\n".join(f"{name:20} {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
