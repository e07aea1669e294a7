"""What every request passes: who asks, how much at a time, and what is counted."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay import metrics
from assay.errors import FormatError
from assay.gateway.backend import Backend
from assay.gateway.breaker import Breaker
from assay.gateway.config import GatewayConfig, Limits
from assay.gateway.errors import Gone, Refusal
from assay.gateway.schema.body import T, decoded
from assay.serving.log import Log

SHORT = 1 << 15
"""Bytes of a body that take no millisecond to decode."""
OPEN = ("/health", "/ready")
"""Routes that need no key, and that are answered whatever is going on."""


class Keys:
    """API keys, of which only digests are kept: lines of SHA-256 in hexadecimal, and a name."""

    def __init__(self, path: Path | None) -> None:
        """Raises FormatError."""
        self._path = path
        self._digests: list[tuple[bytes, str]] = []
        self.reload()

    @property
    def wanted(self) -> bool:
        """Whether requests need one."""
        return self._path is not None

    def reload(self) -> None:
        """Read the file again. Raises FormatError; the keys stay as they are then."""
        if self._path is None:
            return
        found = []
        try:
            lines = self._path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(
                "the file of keys can't be read", place=str(self._path), got=str(error)
            ) from error
        for number, line in enumerate(lines, 1):
            digest, _, name = line.partition("#")[0].strip().partition(" ")
            if digest:
                try:
                    found.append((bytes.fromhex(digest), name.strip() or f"key{number}"))
                    assert len(found[-1][0]) == 32
                except (ValueError, AssertionError):
                    place, want = f"{self._path}, line {number}", "SHA-256 in hexadecimal, and a name"
                    raise FormatError("not a digest of a key", place=place, want=want) from None
        self._digests = found

    def holder(self, request: Scope) -> str:
        """Whose key a request has; empty where none is wanted. Raises Refusal."""
        if self._path is None:
            return ""
        given = dict(request["headers"]).get(b"authorization", b"")
        kind, _, key = given.partition(b" ")
        digest, holder = hashlib.sha256(key.strip()).digest(), ""
        for known, name in self._digests:  # all of them, whichever it is
            if hmac.compare_digest(known, digest):
                holder = name
        if kind.lower() != b"bearer" or not holder:
            text = "a key is wanted: Authorization: Bearer …" if not given else "no such key"
            raise Refusal(401, text, code="invalid_api_key")
        return holder


class Door:
    """An ASGI application around all routes."""

    def __init__(self, config: GatewayConfig, backend: Backend, keys: Keys, log: Log) -> None:
        self.config, self.backend, self.keys, self.log = config, backend, keys, log
        self.app: ASGIApp | None = None
        self.draining = False
        self.in_flight = 0
        self.breaker = Breaker()
        self._by_key: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        assert self.app
        if scope["type"] == "lifespan" or scope["path"] in OPEN:
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        began = time.monotonic()
        holder = ""
        self.in_flight += 1
        try:
            holder = self._admit(scope)
            self._by_key[holder] += 1
            await self.app(scope, receive, answer.send)
        except Refusal as refusal:
            await self._refuse(scope, answer, refusal)
        except (Gone, ClientDisconnect):
            answer.status = answer.status or 499
        except Exception as error:
            self.log("failed", path=scope["path"], error=type(error).__name__, text=str(error)[:200])
            await self._refuse(scope, answer, Refusal(500, "an error of the server; it is in its log"))
        finally:
            self.in_flight -= 1
            if self._by_key[holder] > 1:
                self._by_key[holder] -= 1
            else:
                self._by_key.pop(holder, None)
            self._account(scope, answer.status, time.monotonic() - began)

    def _admit(self, scope: Scope) -> str:
        """Whose request this is. Raises Refusal."""
        limits = self.config.limits
        holder = self.keys.holder(scope) if scope["path"] != "/metrics" or not self.config.metrics_key else ""
        asks = scope["type"] == "websocket" or scope["method"] == "POST"
        if asks and self.draining:
            raise self._shed(
                "draining", Refusal(503, "this server ends; ask another one", code="draining", retry=1)
            )
        if asks and not self.breaker.admits():
            raise self._shed("breaker", Refusal(503, "too many requests fail", code="overloaded", retry=2))
        if self.in_flight > limits.in_flight:
            raise self._shed("in_flight", Refusal(429, "too many requests at once", code="full", retry=1))
        if self._by_key[holder] >= limits.per_key and holder:
            raise self._shed(
                "per_key", Refusal(429, "too many requests at once with this key", code="full", retry=1)
            )
        return holder

    def _shed(self, reason: str, refusal: Refusal) -> Refusal:
        metrics.SHED.labels(reason).inc()
        return refusal

    async def _refuse(self, scope: Scope, answer: _Answer, refusal: Refusal) -> None:
        if answer.status or scope["type"] == "websocket":
            with suppress(RuntimeError):
                if scope["type"] == "websocket":
                    await answer.send(
                        {"type": "websocket.close", "code": 1008, "reason": refusal.body.message[:120]}
                    )
            answer.status = answer.status or refusal.status
            return
        headers = [(name.encode(), value.encode()) for name, value in refusal.headers]
        headers.append((b"content-type", b"application/json"))
        await answer.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await answer.send({"type": "http.response.body", "body": refusal.encoded()})

    def _account(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")
        metrics.REQUESTS.labels(path, str(status)).inc()
        self.breaker.note(status >= 500 and status != 503)
        self.log("request", path=path, status=status, seconds=round(seconds, 4))


class _Answer:
    """Notes the status that is sent."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)


async def parsed(request: Request, kind: type[T], limits: Limits) -> T:
    """A request's body, held against its type; a long one beside the loop. Raises Refusal."""
    data = await read(request, limits)
    if len(data) < SHORT:
        return decoded(data, kind, limits.depth)
    return await asyncio.to_thread(decoded, data, kind, limits.depth)


async def read(request: Request, limits: Limits) -> bytes:
    """A request's body. Raises Refusal for one that is too large, or comes too slowly."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limits.body:
        raise Refusal(413, f"the body is longer than {limits.body:,} bytes", code="too_large")
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                data += piece
                if len(data) > limits.body:
                    raise Refusal(413, f"the body is longer than {limits.body:,} bytes", code="too_large")
    except TimeoutError:
        raise Refusal(408, f"the body took longer than {limits.body_seconds:g} s", code="too_slow") from None
    return bytes(data)
