"""The process of one model's engine: `python -m assay.serving.engine_worker CONFIG`, in JSON."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from assay.errors import AssayError, RequestError
from assay.llm.embedding_model import EmbeddingModel
from assay.llm.identity import NUMERICS
from assay.llm.language_model import LanguageModel
from assay.load import load
from assay.serving.config import EngineConfig, told
from assay.serving.journal import Journal, open_journal
from assay.serving.log import Log
from assay.serving.messages import VERSION, Hello, ToEngine
from assay.serving.server import Server
from assay.serving.text_engine import TextEngine
from assay.serving.vector_engine import VectorEngine
from assay.serving.worker import Worker

About = dict[str, str | int | float | bool]


def prepared(config: EngineConfig, log: Log) -> tuple[TextEngine | VectorEngine, Journal | None, About]:
    """The model, loaded, its journal, and what gateways want to know of it. Raises AssayError."""
    model = load(
        config.model,
        threads=config.threads,
        context=config.context,
        cache_tokens=config.cache_tokens,
        adapters=config.adapters,
        quantize=config.quantize,
    )
    if isinstance(model, EmbeddingModel):
        return (
            VectorEngine(model, config.name, config.queue),
            None,
            {"kind": "vectors", "context": model.longest},
        )
    if not isinstance(model, LanguageModel):
        want = "a language model or an embedder"
        raise RequestError("graphs are not served yet", place=config.model, want=want)
    model.engine.budget, model.engine.slice_seconds = config.max_batch_tokens, config.slice_ms / 1000
    digest, root = model.identity.digest(), model.identity.root.hex()
    journal = open_journal(config.journal, config.name, f"{digest}-{root}", NUMERICS, log)
    about: About = {
        "kind": "text",
        "digest": digest,
        "numerics": NUMERICS,
        "context": model.context,
        "vocabulary": model.tokenizer.vocabulary_size,
        "chat": model.template is not None,
    }
    return TextEngine(model, config.name, config.queue, journal, log), journal, about


def main() -> int:
    """Run the worker that the command line describes; 1 where it can't begin."""
    config = told(sys.argv[1], EngineConfig)
    log = Log(f"engine-{config.name}", Path(config.log) if config.log else None)
    log.catch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive, began = Path(config.alive), time.monotonic()
    try:
        work, journal, about = prepared(config, log)
        recovered = work.recover() if isinstance(work, TextEngine) else 0
        hello = Hello(VERSION, "engine", config.name, os.getpid(), about)
        server = Server(Path(config.socket), hello, msgspec.msgpack.Decoder(ToEngine))
    except AssayError as error:
        log("can't begin", error=type(error).__name__, text=str(error))
        return 1
    gc.freeze()  # what is loaded stays: nobody looks among it for garbage
    log("ready", model=config.model, seconds=round(time.monotonic() - began, 2), recovered=recovered)
    Worker(work, server, alive, config.drain_seconds, log).run()
    if journal:
        journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
