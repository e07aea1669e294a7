"""What a process of a service tells: a line of JSON for each event, never a prompt or a key."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

MOST = 16 << 20
"""Bytes of a log's file; what is older is kept in one file more."""


class Log:
    """Appends to a file, or to standard error where there is none. What can't be written is dropped."""

    def __init__(self, process: str, path: Path | None = None) -> None:
        self.process = process
        self._path = path
        self._fd = 2 if path is None else _opened(path)

    def __call__(self, event: str, **fields: str | int | float | bool | None) -> None:
        """One event, at this time, with its fields."""
        line = {"time": round(time.time(), 3), "process": self.process, "pid": os.getpid(), "event": event}
        data = json.dumps(line | {k: v for k, v in fields.items() if v is not None}, ensure_ascii=False)
        try:
            os.write(self._fd, data.encode("utf-8", "replace") + b"\n")
            if self._path and os.fstat(self._fd).st_size > MOST:
                self._path.replace(self._path.with_suffix(".old"))
                os.close(self._fd)
                self._fd = _opened(self._path)
        except OSError:  # a full disk doesn't stop a service
            pass

    def catch(self) -> None:
        """Exceptions that end this process are told here, too."""
        before = sys.excepthook

        def told(kind: type[BaseException], error: BaseException, trace: object) -> None:
            self("died", error=kind.__name__, text=str(error)[:300])
            before(kind, error, trace)  # type: ignore[arg-type]

        sys.excepthook = told


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
