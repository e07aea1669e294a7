"""A team of threads that runs tapes: the caller is thread 0, the others wait in native code between runs."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from assay.errors import HardwareFault, RequestError
from assay.kernels.cache import addresses
from assay.kernels.call import ENTRY
from assay.kernels.sizes import CONTROL
from assay.settings import MOST_THREADS

_CALLS = (CONTROL.FUTEX, CONTROL.YIELD, CONTROL.GETCPU, CONTROL.GETAFFINITY, CONTROL.SETAFFINITY)
_NUMBERS = {"x86_64": (202, 24, 309, 204, 203), "aarch64": (98, 124, 168, 123, 122)}
"""Of system calls."""


class Team:
    """`nthreads` threads, started at the first run and again in a child process after a fork.

    One run at a time: a second caller waits. While a tape runs no Python runs in it, and the interpreter is
    free.
    """

    KERNELS = ("team.lead", "team.work", "team.dismiss")
    """Compiled at the first run, unless that was done before."""

    def __init__(self, nthreads: int) -> None:
        if not 1 <= nthreads <= MOST_THREADS:
            want, got = f"1 to {MOST_THREADS}", str(nthreads)
            raise RequestError("a team of so many threads", place="threads", want=want, got=got)
        if platform.system() != "Linux" or platform.machine() not in _NUMBERS:
            want, got = "Linux on x86-64 or AArch64", f"{platform.system()} on {platform.machine()}"
            raise HardwareFault("this system is not supported", want=want, got=got)
        self.nthreads = nthreads
        self.flagged = False
        """Whether an operation of the last run made infinity or NaN of finite numbers, in any lane of a
        vector, wanted or not; operations on types narrower than float32 may not say so.
        """
        self._entries: list[Callable[[int, int, int], None]] = []
        self._lock = threading.Lock()
        self._process = -1
        self._end: weakref.finalize[..., Team] | None = None
        self._control = np.zeros(0, np.int64)
        _teams.add(self)

    def run(self, tape: int, length: int, counters: int) -> int:
        """Run the tape of `length` entries at address `tape`; see kernels/team.py. Returns when all threads
        are done: 1 + the first entry that reported a fault, or 0.
        """
        with self._lock:
            if self._process != os.getpid():
                self._start()
            control = self._control
            control[CONTROL.TAPE // 8] = tape
            control[CONTROL.LENGTH // 8] = length
            control[CONTROL.COUNTERS // 8] = counters
            self._lead(control.ctypes.data, 0, self.nthreads)
            self.flagged = bool(control[CONTROL.FLAGS // 8])
            return int(control[CONTROL.FAULT // 8])

    def close(self) -> None:
        """Let the workers return; the next run starts new ones. A team that nobody holds any more closes."""
        with self._lock:
            if self._end:
                self._end()
            self._process = -1

    def _start(self) -> None:
        words = (CONTROL.BYTES + CONTROL.PLACE * self.nthreads) // 8
        raw = np.zeros(words + 8, np.int64)
        start = -raw.ctypes.data % 64 // 8
        control = self._control = raw[start : start + words]
        control[CONTROL.SYSCALL // 8] = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value or 0
        control[[call // 8 for call in _CALLS]] = _NUMBERS[platform.machine()]
        if not self._entries:
            self._entries = [ENTRY(address) for address in addresses(self.KERNELS).values()]
        self._lead, self._work, self._dismiss = self._entries
        workers: list[threading.Thread] = []
        end = weakref.finalize(self, _stop, os.getpid(), control, self._dismiss, self.nthreads, workers)
        for tid in range(1, self.nthreads):
            arguments = (control.ctypes.data, tid, self.nthreads)
            worker = threading.Thread(target=self._work, args=arguments, name=f"assay-{tid}", daemon=True)
            try:
                worker.start()
            except RuntimeError as error:
                end()
                rule, want = "a thread can't be started", f"a team of {self.nthreads} threads"
                hint = "fewer threads, or a higher limit of processes"
                raise HardwareFault(rule, want=want, got=str(error), hint=hint) from error
            workers.append(worker)
        self._process, self._end = os.getpid(), end

    def _forget(self) -> None:
        """In a child process after a fork: whoever held the lock did not come along."""
        self._lock = threading.Lock()


def _stop(
    process: int,
    control: NDArray[np.int64],
    dismiss: Callable[[int, int, int], None],
    nthreads: int,
    workers: list[threading.Thread],
) -> None:
    """Let a team's workers return: at its end, or at the interpreter's."""
    if process == os.getpid():
        control[CONTROL.STOP // 8] = 1
        dismiss(control.ctypes.data, 0, nthreads)
        for worker in workers:
            worker.join()


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _forget_all() -> None:
    for team in list(_teams):
        team._forget()


os.register_at_fork(after_in_child=_forget_all)
