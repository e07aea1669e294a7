"""A journal in a Redis, for engines on several machines, or whose disk doesn't stay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from assay.errors import RequestError, StoreError
from assay.serving.journal import KEPT, Drawn, Entry, entry
from assay.serving.log import Log
from assay.serving.messages import Submit

SOON = 0.5
"""Seconds in which a Redis must answer: an engine's requests wait for it."""


class RedisStore:
    """A hash for each request and one for its tokens, and a set of those that are open."""

    def __init__(self, url: str, name: str, digest: str, numerics: int, log: Log) -> None:
        """Raises StoreError, or RequestError where the package isn't installed, and for a bad URL."""
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            hint = 'pip install "assay[redis]"'
            raise RequestError("a Redis needs the package redis", place="--journal", hint=hint) from error
        self._errors, self._log = (redis.RedisError, OSError, ValueError), log
        self._url, self._prefix = _shown(url), f"assay:{name}:"
        self._own = f"{digest}:{numerics}"
        soon = {"socket_timeout": SOON, "socket_connect_timeout": SOON}
        try:  # by itself the library tries again for seconds, and an engine's requests wait
            self._redis = redis.Redis.from_url(url, **soon, retry=Retry(NoBackoff(), 0))
        except ValueError as error:
            want = "redis://HOST:PORT/NUMBER"
            raise RequestError("not a Redis", place="--journal", want=want, got=self._url) from error
        self.tidy()

    def admit(self, submit: Submit, created: float) -> None:
        """Keep a request; it is open."""
        fields = {"body": msgspec.msgpack.encode(submit), "created": created, "own": self._own, "deaths": 0}
        with self._failing(), self._redis.pipeline() as pipe:
            pipe.hset(self._key(submit.id), mapping={**fields, "state": "open"})
            pipe.sadd(self._open, submit.id)
            pipe.execute()

    def write(self, drawn: list[Drawn], marks: list[tuple[str, str]]) -> None:
        """Keep tokens, and states of requests, all or nothing."""
        with self._failing(), self._redis.pipeline() as pipe:
            for id, choice, at, tokens in drawn:
                pipe.hset(self._tokens(id), f"{choice}:{at}", msgspec.msgpack.encode(tokens))
                pipe.hset(self._key(id), "deaths", 0)
            for id, state in marks:
                pipe.hset(self._key(id), "state", state)
                for key in (self._key(id), self._tokens(id)):
                    if state == "open":
                        pipe.persist(key)
                    else:
                        pipe.expire(key, int(KEPT))
                if state == "open":
                    pipe.sadd(self._open, id)
                else:
                    pipe.srem(self._open, id)
            pipe.execute()

    def find(self, id: str) -> Entry | None:
        """The request of that id."""
        with self._failing():
            found = self._redis.hgetall(self._key(id))
            fields = [found.get(name) for name in (b"body", b"created", b"state", b"deaths")]
            if found.get(b"own") != self._own.encode() or None in fields:
                return None
            body, created, state, deaths = fields
            rows = [(int(choice), int(at), data) for choice, at, data in self._drawn(id)]
            return entry(id, body, float(created), state.decode(), int(deaths), rows, self._log)

    def open_requests(self) -> list[Entry]:
        """Requests that are open and were asked of this model, each with one death more."""
        found = []
        with self._failing():
            for id in sorted(each.decode() for each in self._redis.smembers(self._open)):
                self._redis.hincrby(self._key(id), "deaths", 1)
                known = self.find(id)
                if known is None:
                    self.write([], [(id, "failed")])
                else:
                    found.append(known)
        return sorted(found, key=lambda entry: entry.created)

    def expire(self, before: float) -> None:
        """A Redis does that by itself."""

    def tidy(self) -> None:
        """A Redis does that by itself."""
        with self._failing():
            self._redis.set(f"{self._prefix}alive", time.time(), ex=60)

    def close(self) -> None:
        """Let go."""
        with self._failing():
            self._redis.close()

    def _drawn(self, id: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        for place, data in self._redis.hgetall(self._tokens(id)).items():
            choice, _, at = place.partition(b":")
            yield choice, at, data

    @property
    def _open(self) -> str:
        return f"{self._prefix}open"

    def _key(self, id: str) -> str:
        return f"{self._prefix}request:{id}"

    def _tokens(self, id: str) -> str:
        return f"{self._prefix}drawn:{id}"

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            got = f"{type(error).__name__}: {error}"
            raise StoreError("the journal can't be used", place=self._url, got=got) from error


def _shown(url: str) -> str:
    """Without passwords."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
