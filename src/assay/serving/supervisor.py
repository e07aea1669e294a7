"""Starts the processes of a service, starts those again that end, and finds those of its predecessor."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from assay import metrics
from assay.errors import HardwareFault, RequestError
from assay.serving.children import Child, Spec
from assay.serving.log import Log

SILENT = 30.0
"""Seconds without a sign of life after which a process is killed."""
SHORT, LONGEST = 5.0, 5.0
"""A process that lives for less than SHORT seconds is started again later and later, LONGEST at most."""


class Supervisor:
    """`specs` are in the order of starting; they end in the opposite one. `told` hears of what happens to
    which process.
    """

    def __init__(self, folder: Path, specs: list[Spec], log: Log, told: Callable[[str, Child], None]) -> None:
        """Take the folder over. Raises RequestError where another supervisor has it."""
        self._folder, self._specs, self._log, self._told = folder, specs, log, told
        self._records = folder / "children"
        self._records.mkdir(mode=0o700, exist_ok=True)
        self._lock = _locked(folder / "lock")
        self.children: dict[str, Child] = {}
        self._later: dict[str, tuple[float, Spec]] = {}
        self._delays: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._draining = False

    def start(self) -> None:
        """Start all, or adopt those that are there."""
        for spec in self._specs:
            child = Child.found(spec, self._records)
            if child:
                self._watch(child)
            else:
                self._begin(spec)

    def watch(self, timeout: float) -> None:
        """Wait, at most so long, for processes that end, and start them again."""
        now = time.monotonic()
        due = min((when for when, _ in self._later.values()), default=now + timeout)
        for key, _ in self._selector.select(max(0.0, min(timeout, due - now))):
            self._again(self.children.pop(key.data))
        now = time.monotonic()
        for name, (when, spec) in list(self._later.items()):
            if when <= now:
                del self._later[name]
                self._begin(spec)
        for child in self.children.values():
            if (silent := child.silent()) > SILENT:
                self._log("silent", process=child.spec.name, seconds=round(silent, 1))
                child.tell(signal.SIGKILL)

    def reload(self) -> None:
        """Pass SIGHUP on to all that read keys and routes."""
        for name, child in self.children.items():
            if name.startswith("gateway"):
                child.tell(signal.SIGHUP)

    def stop(self, seconds: float) -> bool:
        """Let all end what they do, gateways first, for so long at most; then kill. Whether none had to be
        killed.
        """
        self._draining, end, clean = True, time.monotonic() + seconds, True
        for role in ("gateway", "engine", "tokenizer"):
            mine = [child for name, child in self.children.items() if name.startswith(role)]
            for child in mine:
                child.tell(signal.SIGTERM)
            while any(child.spec.name in self.children for child in mine):
                if time.monotonic() > end:
                    clean = False
                    for child in mine:
                        child.tell(signal.SIGKILL)
                self.watch(0.1)
        with suppress(OSError):
            os.close(self._lock)
        return clean

    def _begin(self, spec: Spec) -> None:
        try:
            child = Child.start(spec, self._records)
        except OSError as error:
            raise HardwareFault("a process can't be started", place=spec.name, got=str(error)) from error
        self._watch(child)

    def _watch(self, child: Child) -> None:
        name = child.spec.name
        self.children[name] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, name)
        what = "adopted" if child.adopted else "started"
        self._log(what, process=name, child=child.pid)
        self._told(what, child)

    def _again(self, child: Child) -> None:
        name = child.spec.name
        self._selector.unregister(child.pidfd)
        code = child.ended()
        metrics.dead(child.pid, str(self._folder / "metrics"))
        self._log("ended", process=name, child=child.pid, code=code)
        if self._draining:
            return
        metrics.RESTARTS.labels(name).inc()
        self._told("ended", child)
        lived = time.monotonic() - child.began
        delay = 0.0 if lived > SHORT else min(LONGEST, 2 * self._delays.get(name, 0.0) or 0.05)
        self._delays[name] = delay
        self._later[name] = time.monotonic() + delay, child.spec


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        rule, hint = "another supervisor serves from this folder", "stop it, or choose another port"
        raise RequestError(rule, place=str(path.parent), hint=hint) from None
    return fd
