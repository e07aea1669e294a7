"""The team's native side: every thread runs the whole tape, shares each kernel's work, and meets the others
at barriers.

The control block is int64 words, each group on a cache line of its own:

    EPOCH     rises by one for each run; workers wait for it
    ARRIVED   threads at the barrier            PASSED    barriers passed; waiters look at it
    SLEEPERS  threads asleep on EPOCH or PASSED
    TAPE      address of the tape               LENGTH    its entries
    COUNTERS  address of the work counters      STOP      not 0: workers return
    SYSCALL   address of C's syscall            FUTEX, YIELD  the numbers of futex and sched_yield
    FAULT     after a run: 1 + the first entry that reported a fault, or 0

A tape entry is three words: the kernel's address, its arguments' address, and whether a barrier comes before
it. Entry i's work counter and fault (share.py) are the words 8i and 8i + 1 of the counters.
"""

from __future__ import annotations

from assay.kernels.sizes import CONTROL, ENTRY_BYTES, LINE
from assay.simd.atomics import atomic_get, atomic_put, fetch_add
from assay.simd.device import device
from assay.simd.memory import get_i64, put_i64
from assay.simd.threads import DEFAULT_STATE, float_state, invoke, pause, set_float_state, system_call

EPOCH, ARRIVED, PASSED, SLEEPERS = CONTROL.EPOCH, CONTROL.ARRIVED, CONTROL.PASSED, CONTROL.SLEEPERS
TAPE, LENGTH, COUNTERS, STOP = CONTROL.TAPE, CONTROL.LENGTH, CONTROL.COUNTERS, CONTROL.STOP
SYSCALL, FUTEX, YIELD, FAULT = CONTROL.SYSCALL, CONTROL.FUTEX, CONTROL.YIELD, CONTROL.FAULT
SPINS = 100
"""Pauses before a waiter lets other threads run: a few µs, as long as most barriers take."""
YIELDS = 30
"""Times that a waiter lets others run before it sleeps, some 20 µs in all. Two of a team may share a
processor, and then this is what lets the other one arrive."""
WAIT, WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, private to the process


@device
def await_change(control, word, old):
    """Return when the int64 at control + word differs from `old`: spin, then yield, then sleep."""
    turns = 0
    while atomic_get(control + word) == old:
        turns += 1
        if turns <= SPINS:
            pause()
        elif turns <= SPINS + YIELDS:
            system_call(get_i64(control + SYSCALL), get_i64(control + YIELD), 0, 0, 0)
        else:
            fetch_add(control + SLEEPERS, 1)
            # The kernel compares the low half again, so a change before this call is not slept through.
            system_call(
                get_i64(control + SYSCALL), get_i64(control + FUTEX), control + word, WAIT, old & 0xFFFFFFFF
            )
            fetch_add(control + SLEEPERS, -1)


@device
def wake(control, word):
    """Wake those who sleep on a word that was just changed."""
    if fetch_add(control + SLEEPERS, 0) > 0:
        system_call(get_i64(control + SYSCALL), get_i64(control + FUTEX), control + word, WAKE, 0x7FFFFFFF)


@device
def barrier(control, nthreads):
    passed = atomic_get(control + PASSED)
    if fetch_add(control + ARRIVED, 1) == nthreads - 1:
        atomic_put(control + ARRIVED, 0)
        fetch_add(control + PASSED, 1)
        wake(control, PASSED)
    else:
        await_change(control, PASSED, passed)


@device
def perform(control, tid, nthreads):
    """Run the tape as one of the team, under fixed floating-point state."""
    state = float_state()
    set_float_state(DEFAULT_STATE)
    tape, length = get_i64(control + TAPE), get_i64(control + LENGTH)
    for index in range(length):
        entry = tape + ENTRY_BYTES * index
        if nthreads > 1 and get_i64(entry + 16) != 0:
            barrier(control, nthreads)
        invoke(get_i64(entry), get_i64(entry + 8), tid, nthreads)
    if nthreads > 1:
        barrier(control, nthreads)
    set_float_state(state)


def lead(control, tid, nthreads):
    """Run the tape as thread 0, the caller's, and return when all have."""
    counters = get_i64(control + COUNTERS)
    for index in range(get_i64(control + LENGTH)):
        put_i64(counters + LINE * index, 0)
        put_i64(counters + LINE * index + 8, 0)
    if nthreads > 1:
        fetch_add(control + EPOCH, 1)
        wake(control, EPOCH)
    perform(control, 0, nthreads)
    first = 0
    for index in range(get_i64(control + LENGTH) - 1, -1, -1):
        if get_i64(counters + LINE * index + 8) != 0:
            first = index + 1
    put_i64(control + FAULT, first)


def work(control, tid, nthreads):
    """A worker's whole life: run each tape that is started, until told to stop."""
    epoch = 0
    while True:
        await_change(control, EPOCH, epoch)
        epoch += 1
        if get_i64(control + STOP) != 0:
            return
        perform(control, tid, nthreads)


def dismiss(control, tid, nthreads):
    """Wake the workers, who find STOP and return."""
    fetch_add(control + EPOCH, 1)
    wake(control, EPOCH)
