"""What an engine is asked and what it has drawn, kept where its death doesn't reach.

Nothing here is needed for an answer: who has a request can have all its tokens again, to the same bits. So
when a store fails the engine serves on without it, says so, and comes back to it later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import methodcaller
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from assay.errors import AssayError, StoreError
from assay.serving.log import Log
from assay.serving.messages import Submit

KEPT = 600.0
"""Seconds that a request is kept after its end."""
AGAIN = 3.0
"""Seconds after which a store that failed is tried again."""
GATHER = 0.05
"""Seconds of tokens that are written together: to write takes a processor from the steps."""
PATIENCE = 1.0
"""Seconds that a reader waits for what is still to be written."""
Drawn = tuple[str, int, int, list[int]]
"""Tokens of an answer: the request's id, the number of the answer, how many came before, and they."""
T = TypeVar("T")


class Entry(msgspec.Struct):
    """A request as it is known. `state` is "open", "parked", "done", "cancelled" or "failed"; `deaths` counts
    how often an engine died over it without having come on.
    """

    submit: Submit
    created: float
    state: str
    tokens: list[list[int]]
    deaths: int = 0


class Store(Protocol):
    """Where a journal lies. Any method raises StoreError."""

    def admit(self, submit: Submit, created: float) -> None:
        """Keep a request; it is open."""

    def write(self, drawn: list[Drawn], marks: list[tuple[str, str]]) -> None:
        """Keep tokens, and states of requests, all or nothing."""

    def find(self, id: str) -> Entry | None:
        """The request of that id."""

    def open_requests(self) -> list[Entry]:
        """Requests that are open and were asked of this model, in the order of their arrival, each with one
        death more; those that another model was asked fail.
        """

    def expire(self, before: float) -> None:
        """Forget requests that ended before a time, in seconds since 1970."""

    def tidy(self) -> None:
        """What takes its time, beside all others."""

    def close(self) -> None:
        """Let go."""


class Journal:
    """A store, written in a thread of its own, so that a step waits for no disk and no network."""

    def __init__(self, opened: Callable[[], Store] | None, log: Log) -> None:
        """`opened` opens the store; None: there is none."""
        self._opened, self._log = opened, log
        self._store: Store | None = None
        self.trouble = ""
        """Why it serves on without a store; empty where nothing is wrong."""
        self._returned = False
        self._lock = threading.Lock()
        self._drawn: list[Drawn] = []
        self._marks: list[tuple[str, str]] = []
        self._unsaid: dict[str, str] = {}
        """States that no store took, for the next one: what ended meanwhile must not begin again."""
        self._oldest = 0.0
        """When the first of what is still to be written came; 0 where there is nothing."""
        self._changed = threading.Condition()
        """Held for a moment around each change of what is to be written."""
        self._ended = self._asked = False
        if opened:
            self._safely(self._connect)
            self._thread = threading.Thread(target=self._write_on, name="assay-journal", daemon=True)
            self._thread.start()

    @property
    def lag(self) -> float:
        """Seconds since the oldest of what isn't written yet."""
        oldest = self._oldest
        return time.monotonic() - oldest if oldest else 0.0

    def returned(self) -> bool:
        """Whether the store came back since this was asked last: it lacks what was admitted meanwhile."""
        found, self._returned = self._returned, False
        return found

    def admit(self, submit: Submit, created: float) -> None:
        """Keep a request. It is there when this returns, whatever ends this process."""
        self._on_store(lambda store: store.admit(submit, created), None)

    def append(self, drawn: list[Drawn]) -> None:
        """Keep tokens, soon."""
        self._put(drawn, [])

    def mark(self, id: str, state: str) -> None:
        """Keep a request's state, soon."""
        self._put([], [(id, state)])

    def find(self, id: str) -> Entry | None:
        """The request of that id, if it is known here."""
        self._written()
        return self._on_store(lambda store: store.find(id), None)

    def open_requests(self) -> list[Entry]:
        """What was under way, for an engine that begins."""
        self._written()
        return self._on_store(lambda store: store.open_requests(), [])

    def _written(self) -> None:
        """Wait until nothing is left to be written, but not for long."""
        with self._changed:
            self._asked = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._oldest, PATIENCE)

    def close(self) -> None:
        """Write what is left, and let go."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._opened:
            self._thread.join(5.0)
        if self._store:
            self._safely(self._store.close)

    def _put(self, drawn: list[Drawn], marks: list[tuple[str, str]]) -> None:
        with self._changed:
            if self._store:
                self._drawn += drawn
                self._marks += marks
                if not self._oldest:
                    self._oldest = time.monotonic()
                    self._changed.notify_all()
            elif self._opened:
                self._unsaid.update(marks)

    def _on_store(self, do: Callable[[Store], T], otherwise: T) -> T:
        found = otherwise
        with self._lock:
            store = self._store
            if store:

                def told() -> None:
                    nonlocal found
                    found = do(store)

                self._safely(told)
        return found

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except StoreError as error:
            if not self.trouble:
                self._log("journal lost", error=error.rule, got=error.got, place=error.place)
            self.trouble = f"{error.rule}: {error.got}"
            self._store = None

    def _connect(self) -> None:
        assert self._opened
        self._store = self._opened()
        if self.trouble:
            with self._changed:
                self._marks, self._unsaid = [*self._unsaid.items(), *self._marks], {}
                self._oldest = self._oldest or time.monotonic()
            self._log("journal back")
            self.trouble, self._returned = "", True

    def _write_on(self) -> None:
        tidied = time.monotonic()
        while not (self._ended and not self._oldest):
            with self._changed:
                self._changed.wait_for(lambda: self._oldest or self._ended, AGAIN)
                self._changed.wait_for(lambda: self._asked or self._ended, GATHER)
                self._asked = False
                drawn, marks, self._drawn, self._marks = self._drawn, self._marks, [], []
            if self._store is None and not self._ended:
                with self._lock:
                    self._safely(self._connect)
            lost = (drawn or marks) and self._on_store(methodcaller("write", drawn, marks), False) is False
            with self._changed:
                self._unsaid.update(marks if lost else [])
                self._oldest = time.monotonic() if self._drawn or self._marks else 0.0
                self._changed.notify_all()
            if self._store and time.monotonic() - tidied > AGAIN:
                tidied = time.monotonic()
                self._on_store(lambda store: store.expire(time.time() - KEPT), None)
                if self._store:
                    self._safely(self._store.tidy)
            elif self._store is None and not self._ended:
                with self._changed:
                    self._changed.wait_for(lambda: self._ended, AGAIN)


def open_journal(where: str | None, name: str, digest: str, numerics: int, log: Log) -> Journal:
    """The journal of the model `name` at a path, or at the URL of a Redis; None: one that keeps nothing."""
    if where is None:
        return Journal(None, log)
    if where.startswith(("redis://", "rediss://", "unix://")):
        from assay.serving.journal_redis import RedisStore

        return Journal(lambda: RedisStore(where, name, digest, numerics, log), log)
    from assay.serving.journal_sqlite import SqliteStore

    return Journal(lambda: SqliteStore(Path(where) / f"{name}.journal", digest, numerics, log), log)


def whole(found: list[tuple[int, int, list[int]]]) -> list[list[int]]:
    """The tokens of each answer, of pieces (answer, tokens before, tokens) in order, up to the first gap."""
    made: list[list[int]] = []
    for choice, at, tokens in sorted(found):
        made += [[] for _ in range(choice + 1 - len(made))]
        if at <= len(made[choice]) < at + len(tokens):
            made[choice][at:] = tokens
    return made


def entry(
    id: str,
    body: bytes,
    created: float,
    state: str,
    deaths: int,
    rows: Iterable[tuple[int, int, bytes]],
    log: Log,
) -> Entry | None:
    """What is stored of a request, rows being (answer, tokens before, tokens); None for what isn't sound."""
    try:
        submit = msgspec.msgpack.decode(body, type=Submit)
    except (ValueError, RecursionError, AssayError) as error:
        log("journalled request unreadable", request=id, error=type(error).__name__)
        return None
    found = [(choice, 0, kept) for choice, kept in enumerate(submit.drawn)]
    for choice, at, data in rows:
        with suppress(msgspec.MsgspecError):  # without them there is a gap
            found.append((choice, at, msgspec.msgpack.decode(data, type=list[int])))
    return Entry(submit, created, state, whole(found), deaths)
