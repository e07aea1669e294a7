"""The team's native side: the threads that have time share the work of a tape, phase by phase.

A phase is the entries from one barrier to the next. Its work is `nthreads` shares, and a thread takes one
after the other: it runs the phase's entries with the share's number in place of its own. So a thread that
the system has put aside holds nobody up, unless in the middle of a share.

The control block is int64 words, each group on a cache line of its own:

    STATE     the phase, and in the upper bits how many threads are in it
    SLEEPERS  threads asleep on STATE
    TAPE      address of the tape               LENGTH    its entries
    COUNTERS  address of the work counters      FIRST     the phase of entry 0
    STOP      not 0: workers return             SYSCALL   address of C's syscall
    FUTEX, YIELD  the numbers of futex and sched_yield
    FAULT     after a run: 1 + the first entry that reported a fault, or 0
    FLAGS     after a run: not 0 if an operation made infinity or NaN of finite numbers

Phases are odd numbers while a tape runs, that of entry i is FIRST + 2 i, and even numbers between runs. They
only rise, so that a thread that comes late finds out. A thread enters a phase before it looks at the tape and
leaves when all its shares are taken; the last one to leave opens the next.

A tape entry is three words: the kernel's address, its arguments' address, and whether a barrier comes before
it. Entry i's work counter, fault (share.py) and shares taken are the words 8i, 8i + 1 and 8i + 2 of the
counters.
"""

from __future__ import annotations

from assay.kernels.sizes import CONTROL, ENTRY_BYTES, LINE
from assay.simd import threads
from assay.simd.atomics import atomic_get, fetch_add, swap_if
from assay.simd.device import device
from assay.simd.memory import get_i64, put_i64
from assay.simd.threads import DEFAULT_STATE, float_state, invoke, pause, set_float_state, system_call

STATE, SLEEPERS, TAPE, FAULT = CONTROL.STATE, CONTROL.SLEEPERS, CONTROL.TAPE, CONTROL.FAULT
LENGTH, COUNTERS, FIRST, STOP = CONTROL.LENGTH, CONTROL.COUNTERS, CONTROL.FIRST, CONTROL.STOP
SYSCALL, FUTEX, YIELD, FLAGS = CONTROL.SYSCALL, CONTROL.FUTEX, CONTROL.YIELD, CONTROL.FLAGS
FLAGGED = threads.FLAGS
SHIFT = 44
"""Bits of a phase's number in STATE."""
ONE = 1 << SHIFT
SPINS = 100
"""Pauses before a waiter lets other threads run: a few µs, as long as most barriers take."""
YIELDS = 30
"""Times that a waiter lets others run before it sleeps, some 20 µs in all. Two of a team may share a
processor, and then this is what lets the other one arrive."""
WAIT, WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, private to the process


@device
def await_phase(control, old):
    """Return when the phase is no longer `old`: spin, then yield, then sleep."""
    turns = 0
    while atomic_get(control + STATE) & (ONE - 1) == old:
        turns += 1
        if turns <= SPINS:
            pause()
        elif turns <= SPINS + YIELDS:
            system_call(get_i64(control + SYSCALL), get_i64(control + YIELD), 0, 0, 0)
        else:
            fetch_add(control + SLEEPERS, 1)
            # The kernel compares the low half again, so a change before this call is not slept through.
            number, half = get_i64(control + FUTEX), old & 0xFFFFFFFF
            system_call(get_i64(control + SYSCALL), number, control + STATE, WAIT, half)
            fetch_add(control + SLEEPERS, -1)


@device
def wake(control):
    """Wake those who sleep, after the phase was changed."""
    if fetch_add(control + SLEEPERS, 0) > 0:
        number, all_of_them = get_i64(control + FUTEX), 0x7FFFFFFF
        system_call(get_i64(control + SYSCALL), number, control + STATE, WAKE, all_of_them)


@device
def leave(control, following):
    """Leave a phase in which no work is left to take. The last thread opens the following one."""
    state = atomic_get(control + STATE)
    while True:
        last = state >> SHIFT == 1
        seen = swap_if(control + STATE, state, following if last else state - ONE)
        if seen == state:
            break
        state = seen
    if last:
        wake(control)


@device
def run_phase(control, phase, nthreads):
    """Take shares of the phase until none is left; the phase that follows."""
    tape, length, first = get_i64(control + TAPE), get_i64(control + LENGTH), get_i64(control + FIRST)
    begin = (phase - first) >> 1
    end = begin + 1
    while end < length and get_i64(tape + ENTRY_BYTES * end + 16) == 0:
        end += 1
    taken = get_i64(control + COUNTERS) + LINE * begin + 16
    share = fetch_add(taken, 1)
    while share < nthreads:
        for entry in range(tape + ENTRY_BYTES * begin, tape + ENTRY_BYTES * end, ENTRY_BYTES):
            invoke(get_i64(entry), get_i64(entry + 8), share, nthreads)
        share = fetch_add(taken, 1)
    return first + 2 * end + (end == length)


@device
def take_part(control, nthreads):
    """Work at each phase until nothing runs, under fixed floating-point state; the even number that is the
    phase then.
    """
    floats = float_state()
    set_float_state(DEFAULT_STATE)
    state = atomic_get(control + STATE)
    while state & 1 != 0:
        if swap_if(control + STATE, state, state + ONE) == state:
            phase = state & (ONE - 1)
            following = run_phase(control, phase, nthreads)
            if float_state() & FLAGGED != 0:
                put_i64(control + FLAGS, 1)
            leave(control, following)
            await_phase(control, phase)
        state = atomic_get(control + STATE)
    set_float_state(floats)
    return state


def lead(control, tid, nthreads):
    """Run the tape, and return when all its work is done."""
    counters, length = get_i64(control + COUNTERS), get_i64(control + LENGTH)
    for index in range(length):
        for word in range(counters + LINE * index, counters + LINE * index + 24, 8):
            put_i64(word, 0)
    put_i64(control + FIRST, atomic_get(control + STATE) + 1)
    put_i64(control + FAULT, 0)
    put_i64(control + FLAGS, 0)
    if length > 0:
        fetch_add(control + STATE, 1)
        wake(control)
    take_part(control, nthreads)
    for index in range(length - 1, -1, -1):
        if get_i64(counters + LINE * index + 8) != 0:
            put_i64(control + FAULT, index + 1)


def work(control, tid, nthreads):
    """A worker's whole life: take part in each run, until told to stop."""
    while True:
        phase = take_part(control, nthreads)
        if get_i64(control + STOP) != 0:  # set before the phase that dismisses: not looked at before it
            return
        await_phase(control, phase)


def dismiss(control, tid, nthreads):
    """Wake the workers, who find STOP and return."""
    fetch_add(control + STATE, 2)
    wake(control)
