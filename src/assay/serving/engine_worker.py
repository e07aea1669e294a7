"""The process of one model's engine: `python -m assay.serving.engine_worker CONFIG`, in JSON.

One thread takes messages between steps: nothing needs a lock, and a sign of life means that steps go on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from assay import metrics
from assay.errors import AssayError, RequestError
from assay.llm.embedding_model import EmbeddingModel
from assay.llm.identity import NUMERICS
from assay.llm.language_model import LanguageModel
from assay.load import load
from assay.serving.journal import Journal, open_journal
from assay.serving.log import Log
from assay.serving.messages import VERSION, Hello, Message, ToEngine
from assay.serving.server import Peer, Server
from assay.serving.text_engine import TextEngine
from assay.serving.vector_engine import VectorEngine

BEAT = 0.25
"""Seconds from one sign of life to the next."""


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a supervisor says: `model` as `assay.load` takes it, `socket` and `alive` files, the latter
    touched at each sign of life; `journal` a URL or a path. The others are flags of `assay serve`.
    """

    name: str
    model: str
    socket: str
    alive: str
    threads: int
    log: str | None = None
    journal: str | None = None
    queue: int = 256
    slice_ms: float = 50.0
    max_batch_tokens: int = 4096
    context: int | None = None
    cache_tokens: int | None = None
    drain_seconds: float = 30.0
    adapters: dict[str, str] = {}
    quantize: str | None = None


class Worker:
    """Messages, steps, signs of life, until SIGTERM."""

    def __init__(self, config: EngineConfig, log: Log) -> None:
        """Load the model and take up what the journal has. Raises AssayError."""
        self.config, self.log = config, log
        self.journal: Journal | None = None
        began = time.monotonic()
        model = load(
            config.model,
            threads=config.threads,
            context=config.context,
            cache_tokens=config.cache_tokens,
            adapters=config.adapters,
            quantize=config.quantize,
        )
        about: dict[str, str | int | float | bool] = {"numerics": NUMERICS, "model": config.model}
        self.engine: TextEngine | VectorEngine
        if isinstance(model, LanguageModel):
            digest = model.identity.digest()
            mine = f"{digest}-{model.identity.root.hex()}"
            self.journal = open_journal(config.journal, config.name, mine, NUMERICS, log)
            model.engine.budget = config.max_batch_tokens
            self.engine = TextEngine(model, config.name, config.queue, self.journal, log)
            about |= {"kind": "text", "digest": digest, "context": model.context}
            about["vocabulary"] = model.tokenizer.vocabulary_size
        elif isinstance(model, EmbeddingModel):
            self.engine = VectorEngine(model, config.name, config.queue)
            about |= {"kind": "vectors", "context": model.longest}
        else:
            raise RequestError(
                "graphs are not served yet", place=config.model, want="a language model or an embedder"
            )
        recovered = self.engine.recover() if isinstance(self.engine, TextEngine) else 0
        hello = Hello(VERSION, "engine", config.name, os.getpid(), about)
        self.server = Server(Path(config.socket), hello, msgspec.msgpack.Decoder(ToEngine))
        self._peers: set[Peer] = set()
        self._beaten = 0.0
        log("ready", model=config.model, seconds=round(time.monotonic() - began, 2), recovered=recovered)

    def run(self) -> None:
        """Serve until SIGTERM, and then as long as there is work, but no longer than `drain_seconds`."""
        signal.signal(signal.SIGTERM, self._drain)
        end = float("inf")
        while True:
            self._messages(0.0 if self.engine.busy else BEAT / 2)
            if self.engine.busy:
                self.engine.step()
            now = time.monotonic()
            if now - self._beaten >= BEAT:
                self._beaten = now
                self._beat()
            if self.engine.draining:
                end = min(end, now + self.config.drain_seconds)
                if not self.engine.busy or now > end:
                    break
        self.log("drained", left=self.engine.busy)
        self.server.close()
        if self.journal:
            self.journal.close()

    def _messages(self, timeout: float) -> None:
        for peer, message in self.server.poll(timeout):
            if message is None:
                self._peers.discard(peer)
                self.engine.gone(peer)
            elif isinstance(message, Hello):
                self._peers.add(peer)
            elif isinstance(message, Message):
                self.engine.handle(peer, message)

    def _beat(self) -> None:
        os.utime(self.config.alive)
        metrics.HEARTBEAT.labels(f"engine-{self.config.name}").set(time.time())
        beat = self.engine.beat()
        for peer in list(self._peers):
            peer.send(beat)

    def _drain(self, number: int, frame: object) -> None:
        self.engine.draining = True


def main() -> int:
    """Run the worker that the command line describes; 1 where it can't begin."""
    config = msgspec.json.decode(sys.argv[1], type=EngineConfig)
    log = Log(f"engine-{config.name}", Path(config.log) if config.log else None)
    log.catch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(config.alive).touch(0o600)
    try:
        worker = Worker(config, log)
    except AssayError as error:
        log("can't begin", error=type(error).__name__, text=str(error))
        return 1
    worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
