"""Answers on their way to a client: all at once, or as events while they are made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from assay import metrics
from assay.gateway.backend import Call, Event, Mailbox
from assay.gateway.errors import Gone, Refusal
from assay.gateway.render import Renderer
from assay.serving.messages import Known, Piece, Progress, Started

ALIVE = b": keep-alive\n\n"
PATIENCE = 0.5
"""Seconds that a stream waits for an engine to take a request, or to refuse it, before it begins anyhow."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Answering:
    """The calls of one request, and what is made of their pieces."""

    def __init__(self, box: Mailbox, calls: Iterable[Call], renderer: Renderer, arrived: float) -> None:
        self.box, self.renderer, self.arrived = box, renderer, arrived
        self.calls: list[Call] = []
        self._numbers: dict[int, int] = {}
        self._spoke = False
        for call in calls:
            self.add(call)

    def add(self, call: Call) -> None:
        """One more: of the next prompt."""
        self._numbers[id(call)] = len(self.calls) * self.renderer.about.n
        self.calls.append(call)

    def take(self, events: list[tuple[Call, Event]]) -> bytes:
        """Events of the protocol for what came."""
        found = b""
        for call, event in events:
            if isinstance(event, Piece):
                if not self._spoke:
                    self._spoke = True
                    metrics.TTFT.labels(call.engine.config.name).observe(time.monotonic() - self.arrived)
                found += self.renderer.take(self._numbers[id(call)] + event.choice, event)
            elif isinstance(event, Progress) and self.renderer.about.progress:
                found += self.renderer.progress(event.done, event.total)
        return found

    async def started(self, patience: float = PATIENCE) -> bytes:
        """Wait until the engine has taken the request, or some seconds. Raises Refusal, or Gone."""
        found, end = b"", time.monotonic() + patience
        while (left := end - time.monotonic()) > 0:
            events = await self.box.next(left)
            found += self.take(events)
            if any(isinstance(event, Started | Known) for _, event in events):
                break
        return found

    async def body(self, receive: Receive) -> bytes:
        """All answers at once. Raises Refusal, or Gone."""
        watch = _watch(self.box, receive)
        try:
            while not self.renderer.done:
                self.take(await self.box.next())
            return self.renderer.body()
        finally:
            watch.cancel()
            self.end()

    def end(self) -> None:
        """Let the calls go: those that aren't at their ends stop."""
        for call in self.calls:
            if self.renderer.done:
                call.close()
                metrics.DURATION.labels(call.engine.config.name).observe(time.monotonic() - self.arrived)
            else:
                call.leave()


class EventStream(Response):
    """Server-sent events, with a comment whenever nothing was sent for `heartbeat` seconds."""

    def __init__(self, answering: Answering, begun: bytes, heartbeat: float) -> None:
        self.status_code, self.background = 200, None
        self._answering, self._begun, self._heartbeat = answering, begun, heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering, renderer = self._answering, self._answering.renderer
        box = answering.box
        watch = _watch(box, receive)
        task = asyncio.current_task()
        assert task
        box.on_slow = task.cancel
        metrics.STREAMS.inc()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            data = ALIVE + renderer.beginning() + self._begun
            while True:
                if renderer.done:
                    data += renderer.ending()
                if data or renderer.done:
                    await send({"type": "http.response.body", "body": data, "more_body": not renderer.done})
                if renderer.done:
                    break
                events = await box.next(self._heartbeat)
                data = answering.take(events) if events else ALIVE
        except Refusal as refusal:
            body = renderer.failure(refusal)
            await send({"type": "http.response.body", "body": body, "more_body": False})
        except Gone:
            pass
        finally:
            metrics.STREAMS.dec()
            watch.cancel()
            answering.end()


def _watch(box: Mailbox, receive: Receive) -> asyncio.Task[None]:
    """Close the box when the client is gone."""

    async def watching() -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()
        box.close()

    return asyncio.get_running_loop().create_task(watching())
