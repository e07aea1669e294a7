"""The workers as a gateway sees them: requests go out, and what comes back finds who waits for it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from assay import metrics
from assay.errors import FormatError
from assay.gateway.config import GatewayConfig, ModelConfig, Route
from assay.gateway.errors import Gone, Refusal
from assay.serving.link import Link
from assay.serving.log import Log
from assay.serving.messages import (
    Attach,
    Beat,
    Cancel,
    Embed,
    Failed,
    FromEngine,
    FromTokenizer,
    Hello,
    Known,
    Leave,
    Piece,
    Pieces,
    Progress,
    Question,
    Started,
    Submit,
    Text,
    Tokens,
    Vectors,
)

Event = Started | Piece | Progress | Known | Vectors | Failed
GONE = 60.0
"""Seconds that a request waits for an engine that is gone."""
STALLED = 0.25
"""Seconds after which the other tokeniser worker is asked, too."""
SLOWEST = 20.0
"""Seconds that a text may take."""
MOST_UNREAD = 4096
"""Events that nobody reads: a slower client is let go, it can come back to its stream."""


class Mailbox:
    """What came of one client's requests, until it is read."""

    def __init__(self) -> None:
        self.events: list[tuple[Call, Event]] = []
        self.on_slow: Callable[[], object] = lambda: None
        """Called when too much lies here unread."""
        self._waiter: asyncio.Future[None] | None = None
        self._gone = False

    def put(self, call: Call, event: Event) -> None:
        """Something came."""
        self.events.append((call, event))
        if len(self.events) == MOST_UNREAD:
            metrics.SHED.labels("slow").inc()
            self.on_slow()
        self._wake()

    def close(self) -> None:
        """Nobody is there to read."""
        self._gone = True
        self._wake()

    async def next(self, timeout: float | None = None) -> list[tuple[Call, Event]]:
        """What came since the last call: at least one thing, or nothing after `timeout` seconds. Raises
        Refusal for what an engine refused, Gone when the box is closed.
        """
        if not self.events and not self._gone:
            self._waiter = asyncio.get_running_loop().create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._waiter
        if self._gone:
            raise Gone
        found, self.events = self.events, []
        for call, event in found:
            if isinstance(event, Failed):
                call.ended = True
                raise Refusal.failed(event)
        return found

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Call:
    """A request at an engine; what comes of it goes into `box`."""

    def __init__(self, engine: Engine, question: Submit | Attach | Embed, box: Mailbox) -> None:
        self.engine, self.question, self.box = engine, question, box
        self.key = question.key
        """What the engine calls what comes of it."""
        self.drawn: list[list[int]] = []
        self.ended = False

    def put(self, event: Event) -> None:
        """Something came."""
        if isinstance(event, Piece):
            while len(self.drawn) <= event.choice:
                self.drawn.append([])
            self.drawn[event.choice] += event.tokens
        self.box.put(self, event)

    def again(self) -> Submit | Attach | Embed:
        """The question, for an engine that may know nothing of it."""
        if isinstance(self.question, Submit):
            return replace(self.question, drawn=self.drawn)
        if isinstance(self.question, Attach):
            before = [*self.question.at, *[0] * (len(self.drawn) - len(self.question.at))]
            more = [*map(len, self.drawn), *[0] * (len(before) - len(self.drawn))]
            return replace(self.question, at=[a + b for a, b in zip(before, more, strict=True)])
        return self.question

    def leave(self) -> None:
        """The client is gone: the engine is to stop, unless the answer is at its end."""
        self.engine.forget(self)
        if not self.ended:
            self.engine.link.send(Leave(self.question.id, self.key))

    def close(self) -> None:
        """All was read."""
        self.ended = True
        self.engine.forget(self)


class Engine:
    """One model's engine."""

    def __init__(self, config: ModelConfig, hello: Hello, log: Log) -> None:
        self.config = config
        self.about: dict[str, str | int | float | bool] = {}
        """What the engine said of itself when it was there last."""
        self.beat: Beat | None = None
        self._moved = self._heard = 0.0
        self._calls: dict[str, Call] = {}
        self._asked = 0
        self._lost = time.monotonic()
        decoder = msgspec.msgpack.Decoder(FromEngine)
        self.link = Link[FromEngine](config.socket, hello, decoder, self._receive, self._changed, log)

    @property
    def ready(self) -> bool:
        """Whether it is there, takes requests, and its steps go on."""
        now, beat = time.monotonic(), self.beat
        if self.link.peer is None or beat is None or not beat.ready or now - self._heard > 2.0:
            return False
        return not (beat.running or beat.waiting) or now - self._moved < 5.0

    def ask(self, question: Submit | Attach | Embed, box: Mailbox) -> Call:
        """Send a request; it is sent again whenever the engine is new. Raises Refusal where it doesn't
        read what it is sent.
        """
        self._asked += 1
        call = Call(self, replace(question, key=f"{self._asked}"), box)
        if not self.link.send(call.question) and self.link.peer:
            raise Refusal(503, "the engine is behind", code="full", retry=2.0)
        self._calls[call.key] = call
        return call

    def forget(self, call: Call) -> None:
        """Nobody waits for this one any more."""
        self._calls.pop(call.key, None)

    def expire(self) -> None:
        """Give requests up that have waited too long for an engine that is gone."""
        if self.link.peer is None and time.monotonic() - self._lost > GONE:
            for call in list(self._calls.values()):
                call.put(Failed(call.key, "gone", "the engine is gone", hint="ask again", retry=5.0))

    def _changed(self, hello: Hello | None) -> None:
        self.beat = None
        if hello is None:
            self._lost = time.monotonic()
            return
        self.about = dict(hello.about)
        for call in self._calls.values():
            self.link.send(call.again())

    def _receive(self, message: FromEngine) -> None:
        match message:
            case Pieces(items):
                for piece in items:
                    self._tell(piece.id, piece)
            case Beat():
                now = time.monotonic()
                if self.beat is None or message.steps != self.beat.steps:
                    self._moved = now
                self.beat, self._heard = message, now
            case Known() | Started() | Progress() | Vectors() | Failed():
                self._tell(message.id, message)

    def _tell(self, id: str, event: Event) -> None:
        call = self._calls.get(id)
        if call:
            call.put(event)


class Pending:
    """A question, the number of the worker that has it, and whether it was moved because that one stalled."""

    def __init__(self, question: Question) -> None:
        self.question, self.began = question, time.monotonic()
        self.answer: asyncio.Future[Tokens | Text] = asyncio.get_running_loop().create_future()
        self.worker: int | None = None
        self.moved = False
        self.timer: asyncio.TimerHandle | None = None


class Tokenizers:
    """Tokeniser workers: one is asked, another takes over where that one is gone or stalls."""

    def __init__(self, sockets: Sequence[str], hello: Hello, log: Log) -> None:
        decoder = msgspec.msgpack.Decoder(FromTokenizer)
        self._active = 0
        self._numbers = 0
        self._pending: dict[str, Pending] = {}
        self._links = [
            Link[FromTokenizer](path, hello, decoder, self._receive, partial(self._changed, n), log)
            for n, path in enumerate(sockets)
        ]

    @property
    def there(self) -> int:
        """How many are there."""
        return sum(link.peer is not None for link in self._links)

    async def ask(self, question: Question) -> Tokens | Text:
        """The answer. Raises Refusal."""
        self._numbers += 1
        pending = Pending(replace(question, id=str(self._numbers)))
        self._pending[pending.question.id] = pending
        self._put(pending, self._active)
        self._arm(pending)
        try:
            return await pending.answer
        finally:
            del self._pending[pending.question.id]
            if pending.timer:
                pending.timer.cancel()
            metrics.TOKENIZER.observe(time.monotonic() - pending.began)

    async def close(self) -> None:
        """Let go."""
        for link in self._links:
            await link.close()

    def _arm(self, pending: Pending) -> None:
        pending.timer = asyncio.get_running_loop().call_later(STALLED, self._stalled, pending)

    def _stalled(self, pending: Pending) -> None:
        """What waits behind another question moves to the next worker at once; that other one, over which the
        worker may be stalled, follows when they are well ahead of it.
        """
        waited = time.monotonic() - pending.began
        if pending.answer.done():
            return
        if waited > SLOWEST:
            text = "the text takes too long to be read"
            pending.answer.set_exception(Refusal(503, text, code="tokenizer_timeout", retry=1.0))
            return
        if not pending.moved and pending.worker is not None:
            first = next(each for each in self._pending.values() if each.worker == pending.worker)
            if first is not pending or waited > 1.9 * STALLED:
                pending.moved = True
                self._move(pending, pending.worker)
        self._arm(pending)

    def _move(self, pending: Pending, gone: int) -> None:
        """Another worker than `gone` is asked, if there is one."""
        other = (gone + 1) % len(self._links)
        if self._links[other].peer:
            self._switch(gone, other)
            self._put(pending, other)

    def _switch(self, gone: int, other: int) -> None:
        if self._active == gone:
            metrics.TAKEOVERS.inc()
            self._active = other

    def _put(self, pending: Pending, first: int) -> None:
        """Ask the worker of this number, or the next one that is there; later, where none is."""
        count = len(self._links)
        order = ((first + step) % count for step in range(count))
        pending.worker = next((n for n in order if self._links[n].send(pending.question)), None)

    def _changed(self, number: int, hello: Hello | None) -> None:
        """A worker came or went: what nobody has is asked, of one that is there."""
        if hello is None:
            self._switch(number, (number + 1) % len(self._links))
        elif self._links[self._active].peer is None:
            self._active = number
        for pending in self._pending.values():
            if pending.worker is None or (hello is None and pending.worker == number):
                self._put(pending, self._active)

    def _receive(self, message: FromTokenizer) -> None:
        pending = self._pending.get(getattr(message, "id", ""))
        if pending and not pending.answer.done():
            if isinstance(message, Failed):
                pending.answer.set_exception(Refusal.failed(message))
            elif isinstance(message, Tokens | Text):
                pending.answer.set_result(message)


class Backend:
    """All workers."""

    def __init__(self, config: GatewayConfig, hello: Hello, log: Log) -> None:
        self.engines = {model.name: Engine(model, hello, log) for model in config.models}
        self.tokenizers = Tokenizers(config.tokenizers, hello, log)
        self._routes_file = Path(config.routes) if config.routes else None
        self._routes: dict[str, dict[str, float]] = {}
        self.reload()

    @property
    def ready(self) -> bool:
        """Whether requests can be served."""
        return self.tokenizers.there > 0 and all(engine.ready for engine in self.engines.values())

    def reload(self) -> None:
        """Read the routes again. Raises FormatError; they stay as they are then."""
        if self._routes_file:
            try:
                found = msgspec.json.decode(self._routes_file.read_bytes(), type=list[Route])
            except (OSError, msgspec.MsgspecError) as error:
                place = str(self._routes_file)
                raise FormatError("routes that can't be read", place=place, got=str(error)) from error
            self._routes = {route.name: route.weights for route in found}

    @property
    def names(self) -> list[str]:
        """Of models and routes."""
        return [*self.engines, *self._routes]

    def engine(self, name: str, kind: str, user: str | None) -> Engine:
        """The engine for a request. Raises Refusal for a name that there isn't, or another kind of model."""
        name = self._routed(name, user)
        engine = self.engines.get(name)
        if engine is None:
            raise Refusal(404, f"no model {name!r}; there are {', '.join(self.names)}", param="model",
                          code="model_not_found")  # fmt: skip
        if engine.config.kind != kind:
            does = "makes vectors: /v1/embeddings" if kind == "text" else "answers with text"
            raise Refusal(400, f"the model {name!r} {does}", param="model")
        return engine

    async def close(self) -> None:
        """Let go."""
        for engine in self.engines.values():
            await engine.link.close()
        await self.tokenizers.close()

    def _routed(self, name: str, user: str | None) -> str:
        weights = self._routes.get(name)
        if not weights:
            return name
        digest = hashlib.sha256(f"{name}\0{user or time.monotonic_ns()}".encode()).digest()
        at = int.from_bytes(digest[:8], "big") / 2**64 * sum(weights.values())
        for model, weight in weights.items():
            at -= weight
            if at < 0:
                return model
        return next(iter(weights))


def cancel(engine: Engine, id: str) -> None:
    """Stop a request for good."""
    engine.link.send(Cancel(id))
