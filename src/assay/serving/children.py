"""Processes of a service: started, found again by the next supervisor, watched, and told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec


class Spec(msgspec.Struct, frozen=True):
    """How to start a process. `alive` is the file that it touches as long as it goes on; `where` tells people
    how it is reached; `told` is a digest of what it is told.
    """

    name: str
    argv: tuple[str, ...]
    alive: str
    where: str = ""
    told: str = ""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the command and what it is told: a process of another one isn't this one's."""
        return sha256(msgspec.json.encode((self.argv, self.told))).hexdigest()


class Record(msgspec.Struct, frozen=True):
    """What the next supervisor must know of a process: `born` tells it from a later one with the same pid."""

    pid: int
    born: int
    digest: str


class Child:
    """A process, ours or one that an earlier supervisor left behind."""

    def __init__(self, spec: Spec, pid: int, popen: subprocess.Popen[bytes] | None) -> None:
        """Raises ProcessLookupError if it is gone."""
        self.spec, self.pid, self._popen = spec, pid, popen
        self.began = time.monotonic()
        self.pidfd = os.pidfd_open(pid)

    @classmethod
    def start(cls, spec: Spec, folder: Path) -> Child:
        """A new process, in a session of its own: what ends its supervisor doesn't end it."""
        Path(spec.alive).unlink(missing_ok=True)
        popen = subprocess.Popen(
            spec.argv,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=dict(spec.environment),
        )
        record = Record(popen.pid, _born(popen.pid), spec.digest)
        path = folder / f"{spec.name}.json"
        path.with_suffix(".new").write_bytes(msgspec.json.encode(record))
        path.with_suffix(".new").replace(path)
        return cls(spec, popen.pid, popen)

    @classmethod
    def found(cls, spec: Spec, folder: Path) -> Child | None:
        """The process that an earlier supervisor started, if it lives. One of another spec is told to end."""
        with suppress(OSError, msgspec.MsgspecError):
            record = msgspec.json.decode((folder / f"{spec.name}.json").read_bytes(), type=Record)
            if _born(record.pid) != record.born:
                return None
            if record.digest == spec.digest:
                return cls(spec, record.pid, None)
            os.kill(record.pid, signal.SIGTERM)
        return None

    @property
    def adopted(self) -> bool:
        """Whether an earlier supervisor started it."""
        return self._popen is None

    def silent(self) -> float:
        """Seconds since it last showed that it goes on; 0 before it began to."""
        touched = _touched(self.spec.alive)
        return max(0.0, time.time() - touched) if touched else 0.0

    def tell(self, number: int) -> None:
        """Send a signal."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def ended(self) -> int | None:
        """Let go of it, after its end: its exit code, if it was ours."""
        os.close(self.pidfd)
        return self._popen.wait() if self._popen else None


def _touched(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def _born(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 if it is gone, or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
