"""Child processes that compile kernels. One that is done stays for a while: to start the next takes longer
than most kernels do.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from assay.kernels.build import STALE

IDLE = 10.0
"""Seconds after which children that nobody needs are let go."""
Environment = tuple[tuple[str, str], ...]


class Compiler:
    """One child, which takes kernels one after the other."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.good = True
        """Whether it has done all that it was asked for."""
        self._start()

    def make(self, name: str, path: Path) -> str:
        """Compile a kernel into its object file. What went wrong, or nothing."""
        answer = self._ask(name, path)
        if answer == STALE:
            self.close()
            self._start()
            answer = self._ask(name, path)
        self.good = answer == name
        return "" if self.good else f"{name}: {self.close()}"

    def close(self) -> str:
        """Let the child end; what it has said besides."""
        assert self._child.stdin and self._child.stdout
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()
        with self._said:
            self._said.seek(0)
            return self._said.read().strip()

    def _start(self) -> None:
        # -P: a file numba.py in the current folder is not what is meant.
        command, pipe = [sys.executable, "-P", "-m", "assay.kernels.build"], subprocess.PIPE
        # A pipe would fill up and stop the child, as nobody reads it before the end.
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lasts as long as the child
        self._child = subprocess.Popen(
            command, env=dict(self._environment), stdin=pipe, stdout=pipe, stderr=self._said, text=True
        )

    def _ask(self, name: str, path: Path) -> str:
        assert self._child.stdin and self._child.stdout
        with suppress(BrokenPipeError):
            print(name, path, sep="\t", file=self._child.stdin, flush=True)
            return self._child.stdout.readline().strip()
        return ""


_lock = threading.Lock()
_idle: list[tuple[Environment, Compiler]] = []
_timer: threading.Timer | None = None


@contextmanager
def borrowed(environment: Mapping[str, str]) -> Iterator[Compiler]:
    """A compiler with that environment, for as long as the body runs."""
    key = tuple(sorted(environment.items()))
    with _lock:
        fitting = [each for each in _idle if each[0] == key]
        if fitting:
            _idle.remove(fitting[0])
    compiler = fitting[0][1] if fitting else Compiler(key)
    try:
        yield compiler
    except BaseException:
        compiler.close()
        raise
    if compiler.good:
        _keep(key, compiler)


def close() -> None:
    """Let all children go that nobody needs now."""
    with _lock:
        idle = list(_idle)
        _idle.clear()
    for _, compiler in idle:
        compiler.close()


def _keep(key: Environment, compiler: Compiler) -> None:
    global _timer
    with _lock:
        _idle.append((key, compiler))
        if _timer:
            _timer.cancel()
        _timer = threading.Timer(IDLE, close)
        _timer.daemon = True
        _timer.start()


def _forget() -> None:
    """In a child process after a fork: the compilers are its parent's."""
    global _lock, _timer
    _lock, _timer = threading.Lock(), None
    _idle.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
