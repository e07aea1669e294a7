"""The process that turns texts into tokens: `python -m assay.serving.tokenizer_worker CONFIG`, in JSON.

It holds the tokenizers and templates of all models, not their weights. Two of them run: while one is at a
text that takes long, the other answers.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from assay.errors import AssayError, RequestError, near
from assay.llm import conversation
from assay.llm.source import open_source
from assay.llm.template import ChatTemplate
from assay.llm.tokenizer import Tokenizer
from assay.llm.tool_messages import checked_tools
from assay.serving.config import TokenizerConfig, told
from assay.serving.log import Log
from assay.serving.messages import (
    VERSION,
    Beat,
    Decode,
    Encode,
    Failed,
    Grammar,
    Hello,
    Message,
    Render,
    Text,
    Tokens,
    ToTokenizer,
)
from assay.serving.server import Peer, Server
from assay.serving.text_engine import failed
from assay.serving.worker import Worker


class Texts:
    """Answers at once: it has no steps."""

    busy = False

    def __init__(self, models: dict[str, Path]) -> None:
        """Read the models' tokenizers. Raises AssayError."""
        self.draining = False
        self._tokenizers = dict[str, Tokenizer]()
        self._templates = dict[str, ChatTemplate | None]()
        for name, path in models.items():
            with open_source(path) as source:
                tokenizer = self._tokenizers[name] = source.tokenizer()
                self._templates[name] = None if source.model.embeds else source.template(tokenizer)
                if tokenizer.end_ids and not source.model.embeds:
                    _ = tokenizer.grammars  # takes longer than an answer may

    def handle(self, peer: Peer, message: Message) -> None:
        """Answer."""
        id = getattr(message, "id", "")
        try:
            peer.send(self._answer(message))
        except AssayError as error:
            peer.send(failed(id, error))
        except Exception as error:  # of a template or a text that nobody foresaw: only this request fails
            peer.send(Failed(id, type(error).__name__, "the text can't be read", got=str(error)[:200]))

    def gone(self, peer: Peer) -> None:
        """Nothing is kept for a peer."""

    def step(self) -> None:
        """There are none."""

    def beat(self) -> Beat:
        """A sign of life."""
        return Beat(0, 0, 0, ready=not self.draining)

    def _answer(self, message: Message) -> Message:
        match message:
            case Encode(id, model, text, special, most, ends):
                tokenizer = self._named(model)
                bos, eos = ends and tokenizer.adds_bos, ends and tokenizer.adds_eos
                return Tokens(id, tokenizer.encode(text, bos=bos, eos=eos, special=special, most=most))
            case Render(id, model, messages, tools, most):
                tokenizer, template = self._named(model), self._templates[model]
                if template is None:
                    rule, hint = "this model has no chat template", "give it a prompt instead"
                    raise RequestError(rule, place="messages", hint=hint)
                given = msgspec.json.decode(messages)
                told = checked_tools(msgspec.json.decode(tools)) if tools else []
                return Tokens(id, conversation.encode(given, template, tokenizer, most, told))
            case Decode(id, model, tokens):
                return Text(id, self._named(model).decode(tokens))
            case Grammar(id, model, kind, text):
                self._named(model).grammars.matcher(kind, text)
                return Text(id, "")
        raise RequestError("no such question", got=type(message).__name__)

    def _named(self, model: str) -> Tokenizer:
        if model not in self._tokenizers:
            want, hint = ", ".join(self._tokenizers), near(model, self._tokenizers)
            raise RequestError("no such model", place="model", want=want, got=model[:80], hint=hint)
        return self._tokenizers[model]


def main() -> int:
    """Run the worker that the command line describes; 1 where it can't begin."""
    config = told(sys.argv[1], TokenizerConfig)
    log = Log(config.name, Path(config.log) if config.log else None)
    log.catch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive, began = Path(config.alive), time.monotonic()
    try:
        texts = Texts({name: Path(path) for name, path in config.models.items()})
        hello = Hello(VERSION, "tokenizer", config.name, os.getpid())
        server = Server(Path(config.socket), hello, msgspec.msgpack.Decoder(ToTokenizer))
    except AssayError as error:
        log("can't begin", error=type(error).__name__, text=str(error))
        return 1
    log("ready", seconds=round(time.monotonic() - began, 2))
    Worker(texts, server, alive, 1.0, log).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
