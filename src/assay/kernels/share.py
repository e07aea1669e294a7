"""How the threads of a team share one kernel's work, and how a kernel reports a fault."""

from __future__ import annotations

from assay.kernels.control import ROWS
from assay.simd.device import device
from assay.simd.memory import fetch_add, fetch_max, get_f32, get_i64, put_f32


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


@device
def copy_columns(source, target, rows, columns, stride):
    """The first `columns` of source[rows, 32] to target, whose rows are `stride` floats apart: a last panel
    that is cut.
    """
    for row in range(rows):
        for column in range(columns):
            put_f32(target + 4 * (stride * row + column), get_f32(source + 4 * (32 * row + column)))
