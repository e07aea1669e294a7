"""What the next step holds: pure policy over sequences, a token budget and free pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from assay.kernels.sizes import PAGE
from assay.llm.sequence import Sequence


@dataclass(frozen=True)
class Share:
    """The next `count` tokens of one sequence; the last `rows` of them have their logits computed. The last
    of all may be `guesses`.
    """

    sequence: Sequence
    count: int
    rows: int
    guesses: tuple[int, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """The next step: shares in the order of arrival, and sequences that must give their pages back first."""

    shares: tuple[Share, ...]
    preempted: tuple[Sequence, ...] = ()


Guesses = Mapping[Sequence, tuple[int, ...]]


def schedule(
    running: Items[Sequence],
    waiting: Iterable[Sequence],
    free: int,
    budget: int,
    most: int,
    cached: Callable[[Sequence], int] = lambda sequence: 0,
    guesses: Guesses = MappingProxyType({}),
) -> Schedule:
    """Sequences that are decoding come first, one token each; then prompts take what the budget leaves, in
    order of arrival. A prompt that finds no page holds up those behind it, or it might wait for ever.

    `free` pages are left, `most` rows have logits in a step. `cached` says how much of a prompt that waits is
    in the cache already. `guesses` of what decoding sequences draw go along as far as they fit into the
    budget and into pages that these have anyway. When a decoding sequence needs a page and none is free, the
    one that arrived last gives its pages back and starts again later. At least one sequence always goes on: a
    sequence alone never needs more pages than there are (the engine refuses longer ones).
    """
    active = list(running)
    preempted: list[Sequence] = []
    short = sum(sequence.pages_for(1) for sequence in active) - free
    while short > 0 and len(active) > 1:
        last = active.pop()
        short -= last.pages_for(1) + len(last.pages)
        free += len(last.pages)
        preempted.append(last)
    decoding = [sequence for sequence in active if sequence.pending == 1]
    prompts = [sequence for sequence in active if sequence.pending > 1]
    spare = min(budget, most) - len(decoding)
    shares: list[Share] = []
    for sequence in decoding:
        fit = max(0, min(spare, PAGE - 1 - sequence.computed % PAGE))
        guessed = guesses.get(sequence, ())[:fit]
        spare -= len(guessed)
        count = min(1 + len(guessed), budget)
        if not count or len(shares) == most or free < sequence.pages_for(1):
            break
        free -= sequence.pages_for(1)
        budget -= count
        shares.append(Share(sequence, count, count, guessed))
    rows = sum(share.rows for share in shares)
    for sequence in chain(prompts, () if preempted else waiting):
        known = sequence.computed or cached(sequence)
        pending = sequence.length - known
        count = min(pending, budget, (len(sequence.pages) + free) * PAGE - known)
        if rows == most or len(shares) == most or count <= 0:
            break
        free -= -(-(known + count) // PAGE) - len(sequence.pages)
        budget -= count
        rows += count == pending
        shares.append(Share(sequence, count, int(count == pending)))
    return Schedule(tuple(shares), tuple(preempted))
