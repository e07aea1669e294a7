"""The side of a gateway: one connection to a worker, made again whenever it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar, cast

import msgspec

from assay.errors import ProtocolError
from assay.serving.frames import Frames, packed
from assay.serving.log import Log
from assay.serving.messages import VERSION, Hello, Message

FIRST, LONGEST = 0.01, 0.1
"""Seconds between attempts: the first pause, and the longest."""
MOST_WAITING = 32 << 20
"""Bytes on their way to a worker: one that doesn't take them gets no more."""
M = TypeVar("M", bound=Message)


class _Wire(asyncio.Protocol, Generic[M]):
    """One connection's bytes."""

    def __init__(self, link: Link[M]) -> None:
        self._link = link
        self._frames = Frames(link.decoder)
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class
        self.transport.write(packed(self._link.hello))

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._link.receive(self, message)
        except ProtocolError as error:
            self._link.not_understood(error)
            if self.transport:
                self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


class Link(Generic[M]):
    """`on_message` hears what the worker says, `on_change` when it is there (its Hello) and when it is gone
    (None).
    """

    def __init__(
        self,
        path: str,
        hello: Hello,
        decoder: msgspec.msgpack.Decoder[M],
        on_message: Callable[[M], None],
        on_change: Callable[[Hello | None], None],
        log: Log,
    ) -> None:
        self.path, self.hello, self.decoder, self.log = path, hello, decoder, log
        self.peer: Hello | None = None
        """Who is at the other end; None while nobody is."""
        self._on_message, self._on_change = on_message, on_change
        self._wire: _Wire[M] | None = None
        self._told = ""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    def send(self, message: Message) -> bool:
        """Put a message on its way; False when nobody is there, or nobody reads what was sent before."""
        transport = self._wire.transport if self.peer and self._wire else None
        if transport is None or transport.get_write_buffer_size() > MOST_WAITING:
            return False
        transport.write(packed(message))
        return True

    async def close(self) -> None:
        """Connect no more."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def receive(self, wire: _Wire[M], message: M) -> None:
        """A message came over a connection."""
        if not isinstance(message, Hello):
            self._on_message(message)
        elif message.version == VERSION:
            self._wire, self.peer, self._told = wire, message, ""
            self._on_change(message)
        else:
            want, got = f"version {VERSION}", f"version {message.version}"
            raise ProtocolError("a worker of another version", want=want, got=got)

    def not_understood(self, error: ProtocolError) -> None:
        """What the worker said is no message, or of another version: told once, not at each attempt."""
        if self._told != error.rule:
            self._told = error.rule
            self.log("worker not understood", worker=self.path, rule=error.rule, got=error.got)

    async def _keep(self) -> None:
        loop, pause = asyncio.get_running_loop(), FIRST
        while True:
            wire = None
            try:
                _, wire = await loop.create_unix_connection(lambda: _Wire(self), self.path)
                await wire.lost
            except OSError:
                pass
            finally:
                if wire and wire.transport:
                    wire.transport.abort()
                if self.peer:
                    self._wire, self.peer, pause = None, None, FIRST
                    self._on_change(None)
            await asyncio.sleep(pause)
            pause = min(LONGEST, 2 * pause)
