"""The pool: random sequences against a model, exhaustion, lifetimes, threads, memory returned, red zones."""

from __future__ import annotations

import ctypes
import gc
import mmap
import random
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from assay.errors import ContractError, HardwareFault
from assay.tensor import pool as pool_module
from assay.tensor.buffer import Buffer
from assay.tensor.pool import Pool

MB = 1 << 20


class PoolMachine(RuleBasedStateMachine):
    """Allocates, views, frees and drops at random; each live byte must keep what was written there."""

    guard = False
    capacity = 64 << 10
    buffers: Bundle[int] = Bundle("buffers")
    views: Bundle[int] = Bundle("views")

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(self.capacity, guard=self.guard)
        self.serial = 0
        self.peak = 0
        self.held: dict[int, Buffer] = {}
        self.viewed: dict[int, list[np.ndarray]] = {}
        self.content: dict[int, tuple[int, int]] = {}
        """By serial number: (address, nbytes) of what must be live."""

    @rule(
        target=buffers,
        nbytes=st.one_of(st.integers(0, 300), st.integers(0, 70_000)),
        alignment=st.sampled_from([1, 64, 256, 4096]),
    )
    def allocate(self, nbytes: int, alignment: int) -> object:
        before = (self.pool.figures.used, self.pool.figures.largest_free)
        zones = 2 * max(alignment, 64) if self.guard else 0
        try:
            buffer = self.pool.allocate(nbytes, owner=f"owner {self.serial + 1}", alignment=alignment)
        except HardwareFault:
            # Refused only if no free range was sure to hold it, whatever its start; and nothing changed.
            assert nbytes + zones + 64 + alignment > before[1]
            assert (self.pool.figures.used, self.pool.figures.largest_free) == before
            return multiple()
        self.serial += 1
        assert buffer.address % max(alignment, 64) == 0
        assert buffer.nbytes == nbytes
        assert self.pool.base <= buffer.address <= self.pool.base + self.pool.capacity - nbytes
        ctypes.memset(buffer.address, self.serial % 251, nbytes)
        self.held[self.serial] = buffer
        self.viewed[self.serial] = []
        self.content[self.serial] = (buffer.address, nbytes)
        return self.serial

    @rule(target=views, serial=buffers)
    def view(self, serial: int) -> object:
        if serial not in self.held:
            return multiple()
        buffer = self.held[serial]
        self.viewed[serial].append(buffer.array(np.uint8, (buffer.nbytes,))[1:])
        return serial

    @rule(serial=consumes(views))
    def drop_view(self, serial: int) -> None:
        if self.viewed[serial]:
            self.viewed[serial].pop()
            self._forget_if_unreachable(serial)

    @rule(serial=consumes(buffers))
    def drop_buffer(self, serial: int) -> None:
        if self.held.pop(serial, None):
            self._forget_if_unreachable(serial)

    @rule(serial=buffers)
    def free(self, serial: int) -> None:
        if serial not in self.held:
            return
        if self.viewed[serial]:
            with pytest.raises(ContractError, match="views"):
                self.held[serial].free()
            return
        self.held[serial].free()
        with pytest.raises(ContractError, match="twice"):
            self.held[serial].free()
        with pytest.raises(ContractError, match="after free"):
            self.held[serial].array(np.uint8, (0,))
        del self.held[serial], self.content[serial]

    def _forget_if_unreachable(self, serial: int) -> None:
        if serial not in self.held and not self.viewed[serial]:
            self.content.pop(serial, None)

    @invariant()
    def books_balance(self) -> None:
        self.pool.check_integrity()
        pool = self.pool
        log = [(block.owner, block.address, block.nbytes) for block in pool.log()]
        wanted = [(f"owner {serial}", *place) for serial, place in self.content.items()]
        assert sorted(log) == sorted(wanted)
        assert pool.figures.used + pool.figures.free == pool.capacity
        assert sum(nbytes for _, _, nbytes in log) <= pool.figures.used
        self.peak = max(self.peak, pool.figures.used)
        assert pool.figures.peak == self.peak
        assert pool.figures.fragmentation == (
            1 - pool.figures.largest_free / pool.figures.free if pool.figures.free else 0
        )
        if self.guard:
            pool.verify_guards()

    @invariant()
    def contents_stay(self) -> None:
        for serial, (address, nbytes) in self.content.items():
            assert ctypes.string_at(address, nbytes) == bytes([serial % 251]) * nbytes

    def teardown(self) -> None:
        self.held.clear()
        self.viewed.clear()
        assert self.pool.figures.used == 0
        assert self.pool.figures.largest_free == self.pool.capacity


class GuardedPoolMachine(PoolMachine):
    guard = True


STEPS = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestRandomSequences = PoolMachine.TestCase
TestRandomSequences.settings = STEPS
TestRandomGuardedSequences = GuardedPoolMachine.TestCase
TestRandomGuardedSequences.settings = STEPS


def test_exhaustion_names_the_figures_and_leaves_the_pool_usable() -> None:
    pool = Pool(1 * MB)
    blocks = [pool.allocate(256 << 10, owner=f"weights {i}") for i in range(4)]
    blocks[0].free()
    blocks[2].free()
    with pytest.raises(HardwareFault) as error:
        pool.allocate(300 << 10, owner="kv cache")
    fault = error.value
    assert fault.place == "kv cache"
    assert fault.want == "307,200 bytes at a multiple of 64"
    assert fault.got == (
        "used 524,288 of 1,048,576 bytes (peak 1,048,576), free 524,288, largest free block 262,144, "
        "fragmentation 50.0%"
    )
    assert "weights 1: 262,144 bytes at 0x" in fault.hint
    assert pool.allocations == 4
    pool.check_integrity()
    assert pool.allocate(256 << 10, owner="kv cache").address == blocks[0].address


def test_best_fit_keeps_large_ranges_whole() -> None:
    pool = Pool(1 * MB)
    blocks = [pool.allocate(size, owner=str(size)) for size in (4096, 64, 1024, 64, 2048, 64)]
    for index in (0, 2, 4):
        blocks[index].free()
    assert pool.allocate(1000, owner="fits 1024").address == blocks[2].address


def test_a_view_of_a_view_keeps_the_memory() -> None:
    pool = Pool(1 * MB)
    buffer = pool.allocate(4096, owner="x")
    part = buffer.array(np.float32, (4, 8), offset=64).T[2:, ::2].reshape(-1)[:0]
    whole = buffer.array(np.float32, (1024,))
    row = whole.reshape(32, 32)[3].view(np.int32)
    del buffer, whole, part
    row[:] = 7
    assert pool.figures.used == 4096
    del row
    assert pool.figures.used == 0


def test_views_outlive_the_pool() -> None:
    pool = Pool(1 * MB)
    watch = weakref.ref(pool)
    view = pool.allocate(4096, owner="x").array(np.uint8, (4096,))
    del pool
    view[:] = 3
    assert int(view.sum()) == 3 * 4096
    del view
    assert watch() is None


def test_a_view_that_leaves_its_buffer_is_refused() -> None:
    pool = Pool(1 * MB)
    buffer = pool.allocate(100, owner="logits")
    for view in (
        lambda: buffer.array(np.float32, (26,)),
        lambda: buffer.array(np.uint8, (100,), offset=1),
        lambda: buffer.array(np.uint8, (2, 2), strides=(99, 2)),
        lambda: buffer.array(np.uint8, (2,), strides=(-1,)),
        lambda: buffer.array(np.uint8, (1,), offset=-1),
    ):
        with pytest.raises(ContractError) as error:
            view()
        assert (error.value.place, error.value.want) == ("logits", "within 100 bytes")


def test_requests_that_make_no_sense_are_refused() -> None:
    pool = Pool(1 * MB)
    for arguments in ({"nbytes": -1}, {"nbytes": 8, "alignment": 48}, {"nbytes": 8, "alignment": 0}):
        with pytest.raises(ContractError):
            pool.allocate(owner="x", **arguments)
    with pytest.raises(ContractError):
        Pool(0)
    with pytest.raises(ContractError):
        pool.verify_guards()
    with pytest.raises(HardwareFault):
        Pool(1 << 62)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_capacity_is_only_address_space() -> None:
    pool = Pool(1 << 40)
    before = resident()
    pool.allocate(1 << 39, owner="never touched")
    assert resident() - before < MB


def resident() -> int:
    """Bytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("size", [64 * MB, 128 << 10], ids=["one large block", "many small ones"])
def test_freed_memory_goes_back_to_the_system(size: int) -> None:
    pool = Pool(256 * MB)
    before = resident()
    blocks = [pool.allocate(size, owner="x") for _ in range(64 * MB // size)]
    for block in blocks:
        block.array(np.uint8, (size,))[:] = 1
    assert resident() - before > 60 * MB
    while blocks:
        blocks.pop().free()
    # Up to one step of RELEASE may stay, and the interpreter's own heap moves a little.
    assert resident() - before < 4 * MB
    assert pool.released >= 64 * MB
    again = pool.allocate(64 * MB, owner="y").array(np.uint8, (64 * MB,))
    assert not again[:: mmap.PAGESIZE].any()


def test_neighbours_in_the_same_page_keep_their_content() -> None:
    pool = Pool(8 * MB)
    before, large, after = (pool.allocate(size, owner=str(size)) for size in (64, 2 * MB, 128))
    for neighbour in (before, after):
        neighbour.array(np.uint8, (neighbour.nbytes,))[:] = 7
    large.free()
    assert pool.released > MB
    for neighbour in (before, after):
        assert (neighbour.array(np.uint8, (neighbour.nbytes,)) == 7).all()


def test_a_range_that_was_given_back_is_not_given_back_again() -> None:
    pool = Pool(8 * MB)
    pool.allocate(2 * MB, owner="large").free()
    released = pool.released
    pool.allocate(64, owner="small").free()
    assert pool.released == released > 0


def test_threads_share_a_pool() -> None:
    pool = Pool(4 * MB)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        held: list[np.ndarray] = []
        try:
            for _ in range(400):
                if held and rng.random() < 0.5:
                    view = held.pop(rng.randrange(len(held)))
                    assert (view == view.size % 251).all()
                    del view
                else:
                    nbytes = rng.randrange(1, 5000)
                    held.append(pool.allocate(nbytes, owner=f"thread {seed}").array(np.uint8, (nbytes,)))
                    held[-1][:] = nbytes % 251
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    pool.check_integrity()
    assert pool.figures.used == 0


def test_the_garbage_collector_may_free_inside_a_call_of_the_pool() -> None:
    pool = Pool(4 * MB)

    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.buffer = pool.allocate(1000, owner="in a cycle")

    def work() -> None:
        for _ in range(300):
            Cycle()
            pool.check_integrity()

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert pool.figures.used == 0


@pytest.mark.parametrize("at", [-1, -64, 100, 163])
@pytest.mark.parametrize("freed", [False, True])
def test_a_write_outside_a_buffer_is_found_and_its_owner_named(at: int, freed: bool) -> None:
    pool = Pool(1 * MB, guard=True)
    innocent = pool.allocate(100, owner="innocent")
    guilty = pool.allocate(100, owner="scores")
    pool.verify_guards()
    ctypes.memset(guilty.address + at, 0, 1)
    address = guilty.address
    if freed:
        guilty.free()
    with pytest.raises(HardwareFault) as error:
        pool.verify_guards()
    where = f"{-at} bytes before its start" if at < 0 else f"{at - 99} bytes past its end"
    assert error.value.got == f"scores: 100 bytes at {address:#x} was written as far as {where}"
    innocent.free()


def test_guarded_memory_is_poisoned() -> None:
    pool = Pool(4 * MB, guard=True)
    # Large enough that a pool without guards would give its pages back.
    size = 2 * pool_module.RELEASE
    buffer = pool.allocate(size, owner="x")
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(buffer.array(dtype, (size // np.dtype(dtype).itemsize,))).all()
    address = buffer.address
    buffer.array(np.uint8, (size,))[:] = 0
    buffer.free()
    assert ctypes.string_at(address, size) == b"\xcb" * size


def test_check_integrity_finds_wrong_books() -> None:
    def overlap(pool: Pool) -> None:
        pool._free.give(pool.log()[0].start, pool.log()[0].end)

    def lose(pool: Pool) -> None:
        pool._free.take(64, 64)

    def miscount(pool: Pool) -> None:
        pool._used += 64

    def split(pool: Pool) -> None:
        pool._free._ranges.append(pool_module.Range(pool.base + MB, pool.base + MB, 0))

    for damage in (overlap, lose, miscount, split):
        pool = Pool(1 * MB)
        block = pool.allocate(4096, owner="x")
        pool.check_integrity()
        damage(pool)
        with pytest.raises(HardwareFault, match="books"):
            pool.check_integrity()
        del block


def test_the_system_answers_are_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Pool(1 * MB, huge_pages=False).huge_pages == "off: not asked for"
    for text, answer in (("always madvise [never]", "off: "), ("always [madvise] never", "o")):
        setting = tmp_path / "enabled"
        setting.write_text(text)
        monkeypatch.setattr(pool_module, "_THP", setting)
        assert Pool(1 * MB).huge_pages.startswith(answer)
    monkeypatch.setattr(pool_module, "_THP", tmp_path / "missing")
    assert Pool(1 * MB).huge_pages == "off: the system has none"
