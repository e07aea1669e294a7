"""A gateway in a process of its own, between a test and the workers of stub.py."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from assay.gateway.config import GatewayConfig, Limits, ModelConfig, Route
from assay.settings import child_environment
from serving.service import free_port

CHAT = "/v1/chat/completions"


def chat(text: str, **more: object) -> dict[str, object]:
    """A body whose answer is what `text` says."""
    return {"model": "stub", "messages": [{"role": "user", "content": text}], **more}


class Gate:
    """The processes, and a client."""

    def __init__(self, folder: Path, limits: Limits | None = None, **more: object) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "routes").write_bytes(msgspec.json.encode([Route("either", {"stub": 1.0, "second": 1.0})]))
        (folder / "logs").mkdir()
        kinds = {"stub": "text", "second": "text", "vectors": "vectors"}
        given = {
            "name": "gateway", "host": "127.0.0.1", "port": self.port, "alive": str(folder / "alive"),
            "models": [ModelConfig(n, kind, str(folder / f"{n}.sock"), 7) for n, kind in kinds.items()],
            "tokenizers": [str(folder / "t0.sock"), str(folder / "t1.sock")], "heartbeat": 0.1,
            "limits": limits or Limits(), "log": str(folder / "logs" / "gateway.jsonl"),
            "logs": str(folder / "logs"), "routes": str(folder / "routes"), "drain_seconds": 5.0,
        }  # fmt: skip
        self.config = GatewayConfig(**(given | more))
        self.workers = {"stub": "engine", "second": "engine", "vectors": "engine", "t0": "tokenizer",
                        "t1": "tokenizer"}  # fmt: skip
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """One of the processes: the gateway, or a worker."""
        if name == "gateway":
            (self.folder / "gateway.json").write_bytes(msgspec.json.encode(self.config))
            command = ["-m", "assay.gateway.main", str(self.folder / "gateway.json")]
        else:
            command = ["-m", "gateway.stub", self.workers[name], str(self.folder / f"{name}.sock")]
        with (self.folder / f"{name}.err").open("ab") as err:
            environment = child_environment("PROMETHEUS_", {"PYTHONPATH": os.pathsep.join(sys.path)})
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command], stderr=err, env=environment, stdin=subprocess.DEVNULL
            )

    def kill(self, name: str) -> None:
        """End one at once."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def until(self, what: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait until it is so."""
        end = time.monotonic() + seconds
        while not what():  # type: ignore[operator]
            assert time.monotonic() < end, self.told()
            time.sleep(0.01)

    def told(self) -> str:
        """What the gateway said."""
        found = [self.folder / "gateway.err", self.folder / "logs" / "gateway.jsonl"]
        return "\n".join(path.read_text()[-3000:] for path in found if path.exists())

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
        except (OSError, http.client.HTTPException):
            return 0, b"", {}
        finally:
            connection.close()

    def post(self, body: object, path: str = CHAT, headers: dict[str, str] | None = None) -> tuple[int, dict]:
        """Status, and the body as JSON."""
        status, data, _ = self.ask("POST", path, body, headers)
        return status, json.loads(data) if data else {}

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"assay_{name}"))


@contextmanager
def gated(folder: Path, limits: Limits | None = None, without: str = "", **more: object) -> Iterator[Gate]:
    """One that is ready, and gone afterwards."""
    made = Gate(folder, limits, **more)
    try:
        for name in [*made.workers, "gateway"]:
            if name != without:
                made.start(name)
        wanted = 503 if without else 200
        made.until(lambda: made.ask("GET", "/ready")[0] == wanted)
        yield made
    finally:
        for name in list(made.processes):
            with suppress(OSError):
                made.kill(name)
