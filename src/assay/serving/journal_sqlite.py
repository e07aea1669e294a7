"""A journal in a file: SQLite, which survives whatever ends a process."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.serving.journal import Drawn, Entry, entry
from assay.serving.log import Log
from assay.serving.messages import Submit

KIND, VERSION = 0x41737379, 1
"""What the file says of itself: SQLite's application_id, and the version of these tables."""
ROOM = 1 << 16
"""Bytes that must find room in the file for it to count as open: a full disk may take a few."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, created REAL NOT NULL, touched REAL NOT NULL, digest TEXT NOT NULL,
    numerics INTEGER NOT NULL, state TEXT NOT NULL, deaths INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS drawn (
    id TEXT NOT NULL, choice INTEGER NOT NULL, at INTEGER NOT NULL, tokens BLOB NOT NULL,
    PRIMARY KEY (id, choice, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS room (one INTEGER PRIMARY KEY, filler BLOB);
"""


class SqliteStore:
    """A write-ahead log: a commit is in the system's memory when it returns, on disk a moment later."""

    def __init__(self, path: Path, digest: str, numerics: int, log: Log) -> None:
        """Open the file. One that isn't a journal, or is damaged, is moved aside. Raises StoreError."""
        self._path, self._digest, self._numerics, self._log = path, digest, numerics, log
        self._beside: sqlite3.Connection | None = None
        with self._failing():
            try:
                self._connection = self._opened()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._put_aside(error)
                self._connection = self._opened()

    def admit(self, submit: Submit, created: float) -> None:
        """Keep a request; it is open."""
        body = msgspec.msgpack.encode(submit)
        row = submit.id, created, time.time(), self._digest, self._numerics, body
        with self._failing(), self._connection:
            insert = "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, 'open', 0, ?)"
            self._connection.execute(insert, row)

    def write(self, drawn: list[Drawn], marks: list[tuple[str, str]]) -> None:
        """Keep tokens, and states of requests, all or nothing."""
        rows = [(id, choice, at, msgspec.msgpack.encode(tokens)) for id, choice, at, tokens in drawn]
        now = time.time()
        with self._failing(), self._connection as connection:
            connection.executemany("INSERT OR REPLACE INTO drawn VALUES (?, ?, ?, ?)", rows)
            alive = [(row[0],) for row in rows]
            connection.executemany("UPDATE requests SET deaths = 0 WHERE id = ? AND deaths > 0", alive)
            states = [(state, now, id) for id, state in marks]
            connection.executemany("UPDATE requests SET state = ?, touched = ? WHERE id = ?", states)

    def find(self, id: str) -> Entry | None:
        """The request of that id."""
        with self._failing():
            query = "SELECT body, created, state, deaths FROM requests WHERE id = ? AND digest = ?"
            row = self._connection.execute(query, (id, self._digest)).fetchone()
            return row and self._entry(id, *row)

    def open_requests(self) -> list[Entry]:
        """Requests that are open and were asked of this model, each with one death more."""
        own = self._digest, self._numerics
        with self._failing(), self._connection as connection:
            others = "UPDATE requests SET state = 'failed' WHERE state = 'open'"
            connection.execute(f"{others} AND NOT (digest = ? AND numerics = ?)", own)
            connection.execute("UPDATE requests SET deaths = deaths + 1 WHERE state = 'open'")
            query = "SELECT id, body, created, state, deaths FROM requests WHERE state = 'open'"
            rows = connection.execute(f"{query} ORDER BY created, id").fetchall()
        found = {row[0]: self._entry(*row) for row in rows}
        self.write([], [(id, "failed") for id, entry in found.items() if entry is None])
        return [entry for entry in found.values() if entry]

    def expire(self, before: float) -> None:
        """Forget requests that ended before a time."""
        with self._failing(), self._connection as connection:
            old = "SELECT id FROM requests WHERE state != 'open' AND touched < ?"
            connection.execute(f"DELETE FROM drawn WHERE id IN ({old})", (before,))
            connection.execute("DELETE FROM requests WHERE state != 'open' AND touched < ?", (before,))

    def tidy(self) -> None:
        """Move what the log holds into the file, by a connection of its own: nobody waits for it."""
        with self._failing():
            self._beside = self._beside or sqlite3.connect(self._path, check_same_thread=False)
            self._beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Let go."""
        with self._failing():
            for connection in (self._beside, self._connection):
                if connection:
                    connection.close()

    def _entry(self, id: str, body: bytes, created: float, state: str, deaths: int) -> Entry | None:
        query = "SELECT choice, at, tokens FROM drawn WHERE id = ?"
        with self._failing():
            rows = self._connection.execute(query, (id,)).fetchall()
        return entry(id, body, created, state, deaths, rows, self._log)

    def _opened(self) -> sqlite3.Connection:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(fd)
        connection = sqlite3.connect(self._path, timeout=1.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            asked = ("application_id", "user_version", "quick_check(1)")
            kind, version, sound = (connection.execute(f"PRAGMA {each}").fetchone()[0] for each in asked)
            if sound != "ok":
                raise sqlite3.DatabaseError(sound)
            begun = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            if begun and (kind, version) != (KIND, VERSION):
                raise sqlite3.DatabaseError(f"of kind {kind}, version {version}")
            own = f"PRAGMA application_id = {KIND}; PRAGMA user_version = {VERSION}; {_SCHEMA}"
            connection.executescript(f"BEGIN IMMEDIATE; {own} COMMIT")
            with connection:
                connection.execute("INSERT OR REPLACE INTO room VALUES (1, randomblob(?))", (ROOM,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_aside(self, error: sqlite3.DatabaseError) -> None:
        aside = self._path.with_suffix(f".{time.time_ns()}.bad")
        self._log("journal unreadable", moved=aside.name, error=str(error))
        self._path.replace(aside)
        for end in ("-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(self._path.name + end).unlink()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            got = f"{type(error).__name__}: {error}"
            raise StoreError("the journal can't be used", place=str(self._path), got=got) from error
