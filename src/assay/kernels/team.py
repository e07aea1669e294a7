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
    FUTEX, YIELD, GETCPU, GETAFFINITY, SETAFFINITY  numbers of system calls
    CPU       the processor of the thread that woke others last
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
CPU, GETCPU, GETAFFINITY, SETAFFINITY = CONTROL.CPU, CONTROL.GETCPU, CONTROL.GETAFFINITY, CONTROL.SETAFFINITY
BYTES, PLACE = CONTROL.BYTES, CONTROL.PLACE
CPUS = 1024
"""Processors that a mask has a bit for."""
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
def call_system(control, number, a, b, c):
    """A system call, by where its number stands."""
    return system_call(get_i64(control + SYSCALL), get_i64(control + number), a, b, c)


@device
def part_ways(control, tid):
    """Leave the processor of the thread that woke this one. Linux puts it there after a pause, though
    others are idle, and moves it some milliseconds later only.
    """
    place = control + BYTES + PLACE * tid
    mask, cpu = place + LINE, get_i64(control + CPU)
    call_system(control, GETCPU, place, 0, 0)
    if get_i64(place) == cpu and cpu < CPUS and call_system(control, GETAFFINITY, 0, CPUS >> 3, mask) > 0:
        word, bit = mask + 8 * (cpu >> 6), 1 << (cpu & 63)
        put_i64(word, get_i64(word) ^ bit)
        call_system(control, SETAFFINITY, 0, CPUS >> 3, mask)
        put_i64(word, get_i64(word) ^ bit)
        call_system(control, SETAFFINITY, 0, CPUS >> 3, mask)


@device
def await_phase(control, tid, old):
    """Return when the phase is no longer `old`: spin, then yield, then sleep."""
    turns = 0
    while atomic_get(control + STATE) & (ONE - 1) == old:
        turns += 1
        if turns <= SPINS:
            pause()
        elif turns <= SPINS + YIELDS:
            call_system(control, YIELD, 0, 0, 0)
        else:
            fetch_add(control + SLEEPERS, 1)
            # The kernel compares the low half again, so a change before this call is not slept through.
            call_system(control, FUTEX, control + STATE, WAIT, old & 0xFFFFFFFF)
            fetch_add(control + SLEEPERS, -1)
            part_ways(control, tid)


@device
def wake(control):
    """Wake those who sleep, after the phase was changed."""
    if fetch_add(control + SLEEPERS, 0) > 0:
        call_system(control, GETCPU, control + CPU, 0, 0)
        call_system(control, FUTEX, control + STATE, WAKE, 0x7FFFFFFF)
        call_system(control, YIELD, 0, 0, 0)  # to one that was put on this processor, and parts ways


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
def take_part(control, tid, nthreads):
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
            await_phase(control, tid, phase)
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
    take_part(control, tid, nthreads)
    for index in range(length - 1, -1, -1):
        if get_i64(counters + LINE * index + 8) != 0:
            put_i64(control + FAULT, index + 1)


def work(control, tid, nthreads):
    """A worker's whole life: take part in each run, until told to stop."""
    while True:
        phase = take_part(control, tid, nthreads)
        if get_i64(control + STOP) != 0:  # set before the phase that dismisses: not looked at before it
            return
        await_phase(control, tid, phase)


def dismiss(control, tid, nthreads):
    """Wake the workers, who find STOP and return."""
    fetch_add(control + STATE, 2)
    wake(control)
