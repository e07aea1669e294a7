"""HTTP connections that are closed when they are slow, idle, or say too much before they ask."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay import metrics
from assay.gateway.config import Limits
from assay.gateway.errors import Refusal


def guarded(limits: Limits) -> type[HttpToolsProtocol]:
    """A protocol for uvicorn with these limits."""

    class Guarded(HttpToolsProtocol):
        """Counts headers, and seconds until they are all there."""

        _late: asyncio.TimerHandle | None = None
        _count = _bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            metrics.CONNECTIONS.inc()
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            metrics.CONNECTIONS.dec()
            self._disarm()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._count = self._bytes = 0
            self._arm()

        def on_url(self, url: bytes) -> None:
            self._grow(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count += 1
            self._grow(len(name) + len(value))
            if self._count <= limits.headers and self._bytes <= limits.header_bytes:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._disarm()
            if not self.transport.is_closing():
                super().on_headers_complete()

        def _grow(self, count: int) -> None:
            self._bytes += count
            if self._count > limits.headers or self._bytes > limits.header_bytes:
                self._close(Refusal(431, "too many headers, or too long ones", code="headers"))

        def _arm(self) -> None:
            if self._late is None:
                refusal = Refusal(408, "the headers came too slowly", code="too_slow")
                self._late = self.loop.call_later(limits.header_seconds, self._close, refusal)

        def _disarm(self) -> None:
            if self._late:
                self._late.cancel()
                self._late = None

        def _close(self, refusal: Refusal) -> None:
            if self.transport.is_closing():
                return
            metrics.SHED.labels(refusal.body.code or "").inc()
            body = refusal.encoded()
            kind = f"content-type: application/json\r\ncontent-length: {len(body)}"
            head = f"HTTP/1.1 {refusal.status} Refused\r\n{kind}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Guarded
