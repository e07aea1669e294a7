"""What the next step holds: pure policy over sequences, a token budget and free pages."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

from assay.llm.sequence import Sequence


@dataclass(frozen=True)
class Share:
    """`count` tokens of one sequence."""

    sequence: Sequence
    count: int


@dataclass(frozen=True)
class Schedule:
    """The next step: shares in the order of arrival, and sequences that must give their pages back first."""

    shares: tuple[Share, ...]
    preempted: tuple[Sequence, ...] = ()


def schedule(
    running: Items[Sequence], waiting: Items[Sequence], free: int, budget: int, most: int
) -> Schedule:
    """Sequences that are decoding come first, one token each; then prompts take what the budget leaves, in
    order of arrival.

    `free` pages are left, `most` sequences fit in a step. When a decoding sequence needs a page and none is
    free, the one that arrived last gives its pages back and starts again later. At least one sequence always
    goes on: a sequence alone never needs more pages than there are (the engine refuses longer ones).
    """
    active = list(running)
    preempted: list[Sequence] = []
    while active and sum(max(0, sequence.pages_for(1)) for sequence in active) > free and len(active) > 1:
        last = active.pop()
        free += len(last.pages)
        preempted.append(last)
    shares: list[Share] = []
    for sequence in (
        *sorted(active, key=lambda sequence: sequence.pending > 1),
        *(() if preempted else waiting),
    ):
        count = min(sequence.pending, budget)
        if len(shares) == most or count == 0:
            break
        count = _fitting(sequence, count, free)
        if count == 0:
            continue
        free -= max(0, sequence.pages_for(count))
        budget -= count
        shares.append(Share(sequence, count))
    return Schedule(tuple(shares), tuple(preempted))


def _fitting(sequence: Sequence, count: int, free: int) -> int:
    """As many of `count` tokens as `free` pages hold."""
    while count and sequence.pages_for(count) > free:
        count -= 1
    return count
