"""WebSockets: `/v1/session`, many requests over one connection, and `/logs`, what all processes tell.

A client of a session sends objects with a `ref` of its own choice:

    {"type": "create", "ref": "a", "route": "chat", "body": {…}}      or "completions": a body as that route's
    {"type": "cancel", "ref": "a"}

and gets, for each of them, any number of events and one end:

    {"type": "event", "ref": "a", "id": "chatcmpl-…:3", "data": {…}}   as those of a stream
    {"type": "done", "ref": "a"}
    {"type": "error", "ref": "a", "error": {…}}                        "ref" is null where none was understood
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from assay import metrics
from assay.gateway.door import Door
from assay.gateway.errors import Gone, Refusal
from assay.gateway.schema.body import Body, refused
from assay.gateway.schema.chat import ChatRequest
from assay.gateway.schema.others import CompletionRequest
from assay.gateway.stream import Answering
from assay.gateway.text import TextRoutes

MOST = 64
"""Requests at a time of one session."""
UNSENT = 256
"""Messages that wait for a client; a slower one is let go."""
LOOK = 0.2
"""Seconds between looks at the logs."""
T = TypeVar("T", ChatRequest, CompletionRequest)
Ref = Annotated[str, Meta(min_length=1, max_length=64)]


class Create(Body, tag_field="type", tag="create"):
    """A request."""

    ref: Ref
    route: Literal["chat", "completions"]
    body: msgspec.Raw


class Cancel(Body, tag_field="type", tag="cancel"):
    """The end of one."""

    ref: Ref


class Session:
    """One connection."""

    def __init__(self, socket: WebSocket, text: TextRoutes) -> None:
        self._socket, self._text = socket, text
        self._running: dict[str, asyncio.Task[None]] = {}
        self._out: asyncio.Queue[bytes] = asyncio.Queue(UNSENT)

    async def run(self) -> None:
        """Until the client leaves."""
        sender = asyncio.get_running_loop().create_task(self._send())
        try:
            while True:
                await self._take(await self._socket.receive_text())
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            for task in [*self._running.values(), sender]:
                task.cancel()
            await asyncio.gather(*self._running.values(), sender, return_exceptions=True)

    async def _take(self, data: str) -> None:
        ref: str | None = None
        try:
            message = msgspec.json.decode(data, type=Create | Cancel)
            ref = message.ref
            if isinstance(message, Cancel):
                if ref in self._running:
                    self._running[ref].cancel()
                return
            if ref in self._running:
                raise Refusal(400, "ref: a request of that name is running", param="ref")
            if len(self._running) >= MOST:
                raise Refusal(429, f"at most {MOST} requests at a time", code="full")
            if not self._text.door.breaker.admits() or self._text.door.draining:
                raise Refusal(503, "no new requests are taken", code="draining")
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._running[ref] = task
            task.add_done_callback(lambda _: self._running.pop(message.ref, None))
        except msgspec.MsgspecError as error:
            self._failed(None, refused(str(error), Create))
        except Refusal as refusal:
            self._failed(ref, refusal)

    async def _answer(self, message: Create) -> None:
        answering: Answering | None = None
        try:
            raw = bytes(message.body)
            if message.route == "chat":
                chat = _body(raw, ChatRequest)
                chat.stream = True
                answering = await self._text.chat_answering(chat)
            else:
                completion = _body(raw, CompletionRequest)
                completion.stream = True
                answering = await self._text.complete_answering(completion)
            while not answering.renderer.done:
                for event in answering.take(await answering.box.next()).split(b"\n\n"):
                    self._event(message.ref, event)
            for event in answering.renderer.ending().split(b"\n\n"):
                self._event(message.ref, event)
            self._put({"type": "done", "ref": message.ref})
        except Refusal as refusal:
            self._failed(message.ref, refusal)
        except (asyncio.CancelledError, Gone):
            self._put({"type": "done", "ref": message.ref})
        finally:
            if answering:
                answering.end()

    def _event(self, ref: str, event: bytes) -> None:
        fields = dict(line.partition(b": ")[::2] for line in event.split(b"\n") if line)
        data = fields.get(b"data", b"")
        if data and data != b"[DONE]":
            head = {"type": "event", "ref": ref, "id": fields.get(b"id", b"").decode() or None}
            self._put(head | {"data": msgspec.Raw(data)})

    def _failed(self, ref: str | None, refusal: Refusal) -> None:
        self._put({"type": "error", "ref": ref, "error": refusal.body})

    def _put(self, message: dict[str, object]) -> None:
        try:
            self._out.put_nowait(msgspec.json.encode(message))
        except asyncio.QueueFull:
            metrics.SHED.labels("slow").inc()
            for task in self._running.values():
                task.cancel()

    async def _send(self) -> None:
        while self._socket.client_state is WebSocketState.CONNECTED:
            await self._socket.send_text((await self._out.get()).decode())


class SocketRoutes:
    """Connections that stay."""

    def __init__(self, door: Door, text: TextRoutes) -> None:
        self._door, self._text = door, text

    async def session(self, socket: WebSocket) -> None:
        """Many requests over one connection."""
        await socket.accept()
        metrics.SOCKETS.inc()
        try:
            await Session(socket, self._text).run()
        finally:
            metrics.SOCKETS.dec()

    async def logs(self, socket: WebSocket) -> None:
        """What all processes tell from now on: a line of JSON for each event."""
        await socket.accept()
        metrics.SOCKETS.inc()
        try:
            await asyncio.gather(self._tail(socket), _until_gone(socket))
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            metrics.SOCKETS.dec()

    async def _tail(self, socket: WebSocket) -> None:
        folder, seen = self._door.config.logs, dict[Path, int]()
        first = True
        while folder:
            for path in sorted(Path(folder).glob("*.jsonl")):
                size = path.stat().st_size
                at = seen.get(path, size if first else 0)
                if size < at:  # a new file
                    at = 0
                with suppress(OSError), path.open("rb") as file:
                    file.seek(at)
                    data = file.read(1 << 20)
                whole = data[: data.rfind(b"\n") + 1]
                seen[path] = at + len(whole)
                for line in whole.splitlines():
                    await socket.send_text(line.decode("utf-8", "replace"))
            first = False
            await asyncio.sleep(LOOK)


async def _until_gone(socket: WebSocket) -> None:
    while True:
        await socket.receive_text()


def _body(raw: bytes, kind: type[T]) -> T:
    """A request of a session. Raises Refusal."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        refusal = refused(str(error), kind)
        refusal.body.param = f"body.{refusal.body.param}" if refusal.body.param else "body"
        raise refusal from None
