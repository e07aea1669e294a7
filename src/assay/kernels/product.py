"""How a team shares a matrix product y[T, N] = x[T, K] · panels[N, K]ᵀ: by blocks of rows and by panels."""

from __future__ import annotations

from assay.kernels.panels import PANEL, ROW_BLOCK
from assay.kernels.share import take
from assay.simd.device import device
from assay.simd.memory import get_f32, put_f32, words


def product(count: int, single, multiply):
    """The kernel of `count` words, the last of them (y, T, K, N, scratch, its stride).

    `multiply(words, panel, start, end, target, stride, scratch)` writes a panel's columns of the rows from
    `start` to `end`, at `target` in rows `stride` floats apart; `single` does so if there is only one row.
    """
    # A single row takes a panel's time from memory, so whoever is free takes some that lie side by side.
    one, several = _shared(count, single, 16), _shared(count, multiply, 1)

    def kernel(args, tid, nthreads):
        if words(args, count)[-5] == 1:
            one(args, tid, nthreads)
        else:
            several(args, tid, nthreads)

    return kernel


def _shared(count: int, multiply, most: int):
    """The way of one thread, which takes at most so many panels at a time."""

    @device
    def work(args, tid, nthreads):
        word = words(args, count)
        y, rows, _, n, scratch, apart = word[-6:]
        edge = scratch + apart * tid
        panels = (n + PANEL - 1) // PANEL
        run = max(1, min(most, panels // (4 * nthreads)))
        runs = (panels + run - 1) // run
        item = take(args)
        while item < (rows + ROW_BLOCK - 1) // ROW_BLOCK * runs:
            start, first = ROW_BLOCK * (item // runs), run * (item % runs)
            end = min(start + ROW_BLOCK, rows)
            for panel in range(first, min(first + run, panels)):
                place, left = y + 4 * (n * start + PANEL * panel), n - PANEL * panel
                target, stride = place, n
                if left < PANEL:
                    target, stride = edge, PANEL
                multiply(word, panel, start, end, target, stride, edge)
                if left < PANEL:
                    for row in range(end - start):
                        for column in range(left):
                            value = get_f32(edge + 4 * (PANEL * row + column))
                            put_f32(place + 4 * (n * row + column), value)
            item = take(args)

    return work
