"""What the next step holds: pure policy over sequences, a token budget and free pages."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from itertools import chain

from assay.kernels.sizes import PAGE
from assay.llm.sequence import Sequence


@dataclass(frozen=True)
class Share:
    """The next `count` tokens of one sequence; the last `rows` of them have their logits computed."""

    sequence: Sequence
    count: int
    rows: int


@dataclass(frozen=True)
class Schedule:
    """The next step: shares in the order of arrival, and sequences that must give their pages back first."""

    shares: tuple[Share, ...]
    preempted: tuple[Sequence, ...] = ()


def schedule(
    running: Items[Sequence], waiting: Iterable[Sequence], free: int, budget: int, most: int
) -> Schedule:
    """Sequences that are decoding come first, one token each; then prompts take what the budget leaves, in
    order of arrival. A prompt that finds no page holds up those behind it, or it might wait for ever.

    `free` pages are left, `most` sequences fit in a step. When a decoding sequence needs a page and none is
    free, the one that arrived last gives its pages back and starts again later. At least one sequence always
    goes on: a sequence alone never needs more pages than there are (the engine refuses longer ones).
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
    shares: list[Share] = []
    for sequence in chain(decoding, prompts, () if preempted else waiting):
        room = (len(sequence.pages) + free) * PAGE - sequence.computed
        count = min(sequence.pending, budget, room)
        if len(shares) == most or count == 0:
            break
        free -= sequence.pages_for(count)
        budget -= count
        shares.append(Share(sequence, count, int(count == sequence.pending)))
    return Schedule(tuple(shares), tuple(preempted))
