"""The CPU as a device: memory from a pool, work on a team of threads."""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.kernels.cache import Progress, addresses
from assay.kernels.call import Argument, word
from assay.runtime.tape import Tape
from assay.runtime.team import Team
from assay.settings import group_limits
from assay.tensor.buffer import Buffer
from assay.tensor.pool import Pool


def memory() -> int:
    """Bytes that a model may take: the machine's memory, a control group's, or a share of a smaller address
    space (`ulimit -v`), in which two pools, what is read of files and the interpreter have to fit.
    """
    groups = (int(text) for text in group_limits("memory.max") if text.strip() != "max")
    machine = min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *groups])
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return machine if limit == resource.RLIM_INFINITY else min(machine, limit // 4)


class Cpu:
    """See tensor.device.Device. All that is launched has ended when `launch` returns."""

    name = "cpu"

    def __init__(
        self,
        threads: int,
        *,
        capacity: int | None = None,
        guard: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """`capacity` is each pool's, by default `memory()`; `guard` puts red zones around each
        buffer. `progress` hears of kernels that a call compiles.
        """
        self.pool = Pool(capacity or memory(), guard=guard)
        self._sparse = Pool(capacity or memory(), huge_pages=False, guard=guard)
        self.team = Team(threads)
        self._caller = Team(1)
        self._progress = progress
        self.lock = threading.RLock()
        """For whoever shares the device with other threads: one run at a time."""
        _devices.add(self)
        self.flagged = False
        """Whether a team was `flagged` since someone set this to False."""

    def allocate(self, nbytes: int, *, owner: str, alignment: int = 64) -> Buffer:
        return self.pool.allocate(nbytes, owner=owner, alignment=alignment)

    def reserve(self, nbytes: int, *, owner: str) -> Buffer:
        """Memory of which only parts will be used, such as a cache: it takes small pages as they are touched,
        where a large page in each layer's part would take megabytes for the first token.
        """
        return self._sparse.allocate(nbytes, owner=owner)

    def copy_in(self, target: Buffer, source: NDArray[np.generic], *, offset: int = 0) -> None:
        target.array(source.dtype, source.shape, offset=offset)[...] = source

    def copy_out(self, target: NDArray[np.generic], source: Buffer, *, offset: int = 0) -> None:
        target[...] = source.array(target.dtype, target.shape, offset=offset)

    def launch(self, work: Tape, alone: bool = False) -> None:
        """Run a tape; `alone`: on the calling thread, where there is too little work to share."""
        team = self._caller if alone else self.team
        work.fault = team.run(*work.place)
        self.flagged |= team.flagged

    def synchronise(self) -> None:
        return None

    def call(self, kernel: str, *arguments: Argument) -> None:
        """Run one kernel on the team: a probe of the machine and the like."""
        self.call_all(kernel, [arguments])

    def call_all(self, kernel: str, calls: Sequence[tuple[Argument, ...]]) -> tuple[int, int] | None:
        """Run one kernel on several arguments, none of which waits for another: packing of weights. The first
        call that reported a fault, and the row of it; None when none did.
        """
        entry = addresses([kernel, *Team.KERNELS], self._progress)[kernel]
        tape = Tape([(entry, [*map(word, call)], False) for call in calls])
        self.launch(tape)
        return tape.faulty()

    def close(self) -> None:
        """Let the team's threads return."""
        self.team.close()
        self._caller.close()


_devices: weakref.WeakSet[Cpu] = weakref.WeakSet()


def _forget_locks() -> None:
    """In a child process after a fork: whoever held a lock did not come along."""
    for device in list(_devices):
        device.lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_locks)
