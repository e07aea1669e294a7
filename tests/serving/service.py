"""A real service in processes of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assay.settings import child_environment


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


class Service:
    """`assay serve`, in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port, self.folder = free_port(), folder
        self.arguments = arguments
        self._out, self._said = folder.with_suffix(".out"), 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start a supervisor, or another one for the processes that the last one left."""
        command = (
            sys.executable,
            "-m",
            "assay",
            "serve",
            *self.arguments,
            "--json",
            "--port",
            str(self.port),
        )
        with self._out.open("ab") as out:
            self._said = out.tell()
            self.process = subprocess.Popen(
                [*command, "--run-dir", str(self.folder)],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=child_environment("PROMETHEUS_", {}),
            )

    def wait(self, seconds: float = 120.0) -> None:
        """Until it is ready, and the supervisor knows."""
        end = time.monotonic() + seconds
        while self.get("/ready")[0] != 200 or b'"event": "ready"' not in self._out.read_bytes()[self._said :]:
            assert time.monotonic() < end, self.told()
            assert self.process is None or self.process.poll() is None, self.told()
            time.sleep(0.02)

    def told(self) -> str:
        """What it said."""
        out = self._out.read_text()
        logs = [path.read_text()[-2000:] for path in self.folder.glob("log/*.jsonl")]
        return "\n".join([out[-2000:], *logs])

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        return self.ask("POST", path, body, headers)

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def children(self) -> dict[str, int]:
        """The processes by name."""
        found = {}
        for path in (self.folder / "children").glob("*.json"):
            found[path.stem] = int(json.loads(path.read_text())["pid"])
        return found

    def stop(self) -> int:
        """End it as its user would; its exit code."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """End all of it at once: the supervisor first, it would start the others again."""
        if self.process:
            self.process.kill()
            self.process.wait()
        for pid in self.children().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Service]:
    """One that is ready, and gone afterwards."""
    made = Service(folder, *arguments)
    made.start()
    try:
        made.wait()
        yield made
    finally:
        made.kill()


class Lost(Exception):
    """A stream broke off."""


class Stream:
    """A client of a stream that goes on with `Last-Event-ID` wherever it breaks off."""

    def __init__(self, service: Service, path: str, body: dict[str, object]) -> None:
        self.service, self.path, self.body = service, path, {**body, "stream": True}
        self.texts: dict[int, str] = {}
        self.ends: dict[int, str] = {}
        self.id = self.last = ""
        self.resumed = 0
        self.ids: list[str] = []

    def run(self, seconds: float = 120.0, most: int = 1 << 30) -> None:
        """Read to the end, or `most` events."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._read(most)
                return
            except (OSError, http.client.HTTPException, Lost, ValueError) as error:
                assert time.monotonic() < end, f"{error!r} {self.service.told()}"
                time.sleep(0.02)

    def _read(self, most: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
        held: http.client.HTTPResponse | None = None
        try:
            if self.last:
                self.resumed += 1
                connection.request("GET", f"/v1/streams/{self.id}", headers={"Last-Event-ID": self.last})
            else:
                connection.request("POST", self.path, json.dumps(self.body))
            answer = held = connection.getresponse()
            if answer.status != 200:
                text = answer.read().decode()
                assert answer.status in (429, 503, 504), f"{answer.status} {text}"
                raise Lost(text)
            event = ""
            while most:
                line = answer.readline().decode()
                if not line:
                    raise Lost("end of file")
                name, _, value = line.rstrip("\n").partition(": ")
                if name == "id":
                    event = value
                elif name == "data":
                    if value == "[DONE]":
                        return
                    most -= 1
                    self._take(json.loads(value), event)
        finally:
            if held:
                held.close()
            connection.close()

    def _take(self, data: dict[str, object], event: str) -> None:
        if "error" in data:
            raise Lost(str(data))
        self.id = str(data["id"])
        for choice in data["choices"]:  # type: ignore[attr-defined]
            index = choice["index"]
            text = choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
            self.texts[index] = self.texts.get(index, "") + text
            if choice["finish_reason"]:
                self.ends[index] = choice["finish_reason"]
        if event:
            self.last = event
            self.ids.append(event)
