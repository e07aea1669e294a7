"""How the threads of a team share one kernel's work, and how a kernel reports a fault."""

from __future__ import annotations

from assay.kernels.sizes import ROWS
from assay.simd.atomics import fetch_add, fetch_max
from assay.simd.device import device
from assay.simd.memory import get_i64


@device
def take(args):
    """The next piece of work that no thread has taken: from the counter that word 0 points at."""
    return fetch_add(get_i64(args), 1)


@device
def fault(args, row):
    """Report that a value of this row left its dtype's range; the executor raises PrecisionOverflow after the
    run. Of several rows the first is kept, whoever comes first.
    """
    fetch_max(get_i64(args) + 8, ROWS - row)


@device
def first_row(rows, tid, nthreads):
    """Where thread `tid`'s share of `rows` begins; the share ends where the next thread's begins."""
    return rows * tid // nthreads
