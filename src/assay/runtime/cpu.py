"""The CPU as a device: memory from a pool, work on a team of threads."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from assay.kernels.cache import Progress, addresses
from assay.kernels.call import Argument, word
from assay.kernels.sizes import ENTRY_BYTES, LINE
from assay.runtime.tape import Tape
from assay.runtime.team import Team
from assay.tensor.buffer import Buffer
from assay.tensor.pool import Pool


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
        """`capacity` is each pool's, by default the machine's memory; `guard` puts red zones around each
        buffer.
        """
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.pool = Pool(capacity or memory, guard=guard)
        self._sparse = Pool(capacity or memory, huge_pages=False, guard=guard)
        self.team = Team(threads, progress)

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

    def launch(self, work: Tape) -> None:
        work.fault = self.team.run(*work.place)

    def synchronise(self) -> None:
        return None

    def call(self, kernel: str, *arguments: Argument) -> None:
        """Run one kernel on the team: packing of weights and the like."""
        counter = np.zeros(2 * LINE // 8, np.int64)
        words = np.array([counter.ctypes.data, *map(word, arguments)], np.int64)
        entry = np.array([addresses([kernel])[kernel], words.ctypes.data, 0], np.int64)
        assert entry.nbytes == ENTRY_BYTES
        self.team.run(entry.ctypes.data, 1, counter.ctypes.data)

    def close(self) -> None:
        """Let the team's threads return."""
        self.team.close()
