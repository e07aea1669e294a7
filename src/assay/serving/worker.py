"""A worker's life: messages, steps, signs of life, until it is told to end.

One thread takes messages between steps: nothing needs a lock, and a sign of life means that steps go on.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Protocol

from assay import metrics
from assay.serving.log import Log
from assay.serving.messages import Beat, Hello, Message
from assay.serving.server import Peer, Server

BEAT = 0.25
"""Seconds from one sign of life to the next."""


class Work(Protocol):
    """What a worker does. `draining`: it takes nothing new."""

    draining: bool

    @property
    def busy(self) -> bool:
        """Whether there is a step to be run."""

    def handle(self, peer: Peer, message: Message) -> None:
        """Do what a peer asks."""

    def gone(self, peer: Peer) -> None:
        """A peer's connection is closed."""

    def step(self) -> None:
        """One step."""

    def beat(self) -> Beat:
        """The state of things."""


class Worker:
    """Serves until SIGTERM, and then as long as there is work, but no longer than `drain_seconds`."""

    def __init__(self, work: Work, server: Server, alive: Path, drain_seconds: float, log: Log) -> None:
        """`alive` is a file that is touched at each sign of life."""
        self._work, self._server, self._alive, self._log = work, server, alive, log
        self._drain_seconds = drain_seconds
        self._beaten = 0.0

    def run(self) -> None:
        """Returns when it has drained."""
        signal.signal(signal.SIGTERM, self._drain)
        end, work = float("inf"), self._work
        while not work.draining or (work.busy and time.monotonic() < end):
            self._messages(0.0 if work.busy else BEAT / 2)
            if work.busy:
                work.step()
            now = time.monotonic()
            if now - self._beaten >= BEAT:
                self._beaten = now
                self._beat()
            if work.draining:
                end = min(end, now + self._drain_seconds)
        self._log("drained", left=work.busy)
        self._server.close()

    def _messages(self, timeout: float) -> None:
        for peer, message in self._server.poll(timeout):
            if message is None:
                self._work.gone(peer)
            elif not isinstance(message, Hello):
                self._work.handle(peer, message)

    def _beat(self) -> None:
        self._alive.touch(0o600)
        metrics.HEARTBEAT.labels(self._log.process).set(time.time())
        beat = self._work.beat()
        for peer in list(self._server.peers):
            if peer.hello:
                peer.send(beat)

    def _drain(self, number: int, frame: object) -> None:
        self._work.draining = True
