"""One arena of memory that every buffer comes from.

The arena is a single anonymous mapping of the full capacity. Reserving addresses costs nothing, since the
system gives a page only when it is first touched, and one address range keeps the books simple: nothing
moves, nothing grows, and fragmentation is one figure.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from assay.errors import ContractError, HardwareFault
from assay.tensor import numa
from assay.tensor.block import ZONE, Block
from assay.tensor.buffer import Buffer
from assay.tensor.ranges import FreeRanges, Range

GRANULE = 64
"""Bytes: every block starts and ends at a multiple of it, a cache line and the widest vector."""
RELEASE = 1 << 20
"""Freed memory goes back to the system in steps of so many bytes at least."""

_HUGE = 2 << 20
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Not in Python's mmap module before 3.13. Without it a system may refuse addresses beyond its memory.
_NORESERVE = 0x4000 if sys.platform == "linux" else 0


class Figures(NamedTuple):
    """A pool's memory at one moment, in bytes."""

    used: int
    """Reserved for live buffers, rounding and red zones included."""
    peak: int
    """The highest `used` so far."""
    free: int
    largest_free: int
    """The largest range that is free."""
    fragmentation: float
    """1 − largest free range / free bytes; 0 when nothing is free."""


class Pool:
    """`capacity_bytes` of address space, handed out as buffers. Thread-safe.

    `huge_pages` asks the system for large pages; `node` binds the memory to a NUMA node, None leaves each
    page to the thread that touches it first. Attributes `huge_pages` and `numa` say "on", or "off: " and why.

    For tests, `guard=True` puts each buffer between red zones and fills it with NaNs, overwrites freed memory
    (and so keeps its pages), and lets `verify_guards()` find out-of-bounds writes.

    Raises HardwareFault when the system has no such address range or no such node.
    """

    def __init__(
        self, capacity_bytes: int, *, huge_pages: bool = True, node: int | None = None, guard: bool = False
    ) -> None:
        if capacity_bytes < 1:
            raise ContractError("a pool without capacity", want="at least 1 byte", got=str(capacity_bytes))
        self.capacity = _up(capacity_bytes, mmap.PAGESIZE)
        self.guard = guard
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            self._memory = mmap.mmap(-1, self.capacity + _HUGE, flags=flags)
        except (OSError, ValueError, OverflowError) as error:
            want = f"{self.capacity:,} bytes of address space"
            raise HardwareFault("the system has no room for a pool", want=want, got=str(error)) from error
        self._origin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.base = _up(self._origin, _HUGE)
        self.huge_pages = self._ask_for_huge_pages() if huge_pages else "off: not asked for"
        self.numa = "off: not asked for"
        if node is not None:
            self.numa = numa.bind(self.base, self.capacity, node, numa.online_nodes())
        self._free = FreeRanges(self.base, self.base + self.capacity)
        self._live: dict[int, Block] = {}
        self._used = self._peak = 0
        self._breaches: list[str] = []
        self._lock = Lock()
        self._returned: deque[Block] = deque()
        self.allocations = 0
        """Buffers handed out so far."""
        self.released = 0
        """Bytes of address space whose pages went back to the system so far."""

    def allocate(self, nbytes: int, *, owner: str, alignment: int = GRANULE) -> Buffer:
        """`nbytes` of undefined content at a multiple of `alignment` (a power of two) and of 64.

        Raises HardwareFault with the pool's figures, and changes nothing, when no free range is large enough.
        """
        if nbytes < 0 or alignment < 1 or alignment & (alignment - 1):
            want, got = "nbytes ≥ 0 and alignment a power of two", f"nbytes={nbytes}, alignment={alignment}"
            raise ContractError("not an allocation", place=owner, want=want, got=got)
        alignment = max(alignment, GRANULE)
        front, back = (alignment, ZONE) if self.guard else (0, 0)
        # Even an empty buffer has an address of its own.
        reserved = _up(front + max(nbytes, 1) + back, GRANULE)
        with self._books():
            start = self._free.take(reserved, alignment)
            if start is None:
                raise self._exhausted(nbytes, owner, alignment)
            block = Block(owner, start + front, nbytes, start, start + reserved)
            if self.guard:
                block.arm()
            self._live[block.address] = block
            self._used += reserved
            self._peak = max(self._peak, self._used)
            self.allocations += 1
        return Buffer(block.address, nbytes, owner, partial(self._take_back, block))

    @property
    def figures(self) -> Figures:
        """How much is used and free now."""
        with self._books():
            return self._figures()

    def log(self) -> tuple[Block, ...]:
        """Each live block with owner, size and address, in ascending order of addresses."""
        with self._books():
            return self._blocks()

    def verify_guards(self) -> None:
        """Raise HardwareFault naming each owner whose red zone was written, freed blocks included."""
        if not self.guard:
            raise ContractError("no guards to verify", want="Pool(…, guard=True)", got="guard=False")
        with self._books():
            breaches, self._breaches = self._breaches, []
            breaches += filter(None, map(Block.breach, self._blocks()))
        if breaches:
            want, hint = "writes inside buffers", "whoever wrote there computed a wrong index or size"
            raise HardwareFault("a red zone was written", want=want, got="; ".join(breaches), hint=hint)

    def check_integrity(self) -> None:
        """Raise HardwareFault unless live blocks and free ranges tile the arena and the counts agree."""
        with self._books():
            taken = [(block.start, block.end, "live") for block in self._live.values()]
            parts = sorted(taken + [(free.start, free.end, "free") for free in self._free])
            edges = [self.base, *(end for _, end, _ in parts)]
            tiled = [start for start, _, _ in parts] == edges[:-1] and edges[-1] == self.base + self.capacity
            kinds = [kind for _, _, kind in parts]
            joined = ("free", "free") not in pairwise(kinds)
            counted = self._used == sum(end - start for start, end, _ in taken)
            positive = all(start < end for start, end, _ in parts)
            if not (tiled and joined and counted and positive):
                got = f"{parts}, used {self._used}"
                raise HardwareFault("the pool's books are wrong", want="a tiling of the arena", got=got)

    def _blocks(self) -> tuple[Block, ...]:
        return tuple(sorted(self._live.values(), key=lambda block: block.address))

    @contextmanager
    def _books(self) -> Iterator[None]:
        """The lock, with all returned blocks booked."""
        with self._lock:
            self._settle()
            yield

    def _take_back(self, block: Block) -> None:
        """Called when a buffer dies: on any thread, even by the garbage collector inside a call of this pool.

        So it never waits for the lock; while that is held, the next call books the block.
        """
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            if self.guard:
                if text := block.breach():
                    self._breaches.append(text)
                block.retire()
            del self._live[block.address]
            self._used -= block.end - block.start
            joined = self._free.give(block.start, block.end)
            if joined.touched >= RELEASE and not self.guard:
                self._release(joined)

    def _release(self, free: Range) -> None:
        """Give the pages that lie wholly inside a free range back to the system."""
        first, last = _up(free.start, mmap.PAGESIZE), free.end // mmap.PAGESIZE * mmap.PAGESIZE
        self._memory.madvise(mmap.MADV_DONTNEED, first - self._origin, last - first)
        free.touched = 0
        self.released += last - first

    def _ask_for_huge_pages(self) -> str:
        if not hasattr(mmap, "MADV_HUGEPAGE") or not _THP.exists():
            return "off: the system has none"
        if "[never]" in _THP.read_text():
            return f"off: {_THP} says never"
        try:
            self._memory.madvise(mmap.MADV_HUGEPAGE, self.base - self._origin, self.capacity)
        except OSError as error:
            return f"off: madvise: {error.strerror}"
        return "on"

    def _figures(self) -> Figures:
        free, largest = self.capacity - self._used, self._free.largest
        return Figures(self._used, self._peak, free, largest, 1 - largest / free if free else 0.0)

    def _exhausted(self, nbytes: int, owner: str, alignment: int) -> HardwareFault:
        heaviest = sorted(self._blocks(), key=lambda block: -block.nbytes)[:3]
        want = f"{nbytes:,} bytes at a multiple of {alignment}"
        used, peak, free, largest, fragmentation = self._figures()
        got = (
            f"used {used:,} of {self.capacity:,} bytes (peak {peak:,}), free {free:,}, "
            f"largest free block {largest:,}, fragmentation {fragmentation:.1%}"
        )
        hint = f"make a larger pool, or free some of: {'; '.join(map(str, heaviest)) or 'nothing is live'}"
        return HardwareFault("the memory pool is exhausted", place=owner, want=want, got=got, hint=hint)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
