"""What the next step holds: pure policy over sequences, a token budget and free pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from heapq import merge
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
    """The next step: shares of those that decode, then of prompts; sequences that must first give their pages
    back.
    """

    shares: tuple[Share, ...]
    preempted: tuple[Sequence, ...] = ()


Guesses = Mapping[Sequence, tuple[int, ...]]


PRIORITY, RATE = 10.0, 1000.0
"""What a step of priority is worth in seconds of waiting, and tokens of a prompt that are worth one."""
LEAST = 16
"""Tokens of prompts that go along whatever they cost, so that none waits for ever."""
Fitting = Callable[[int, int, int], int]
"""How many tokens of a prompt fit beside so many tokens, which make so many pairs of a query and a key; the
third number is how much of the prompt is computed.
"""


def due(arrived: float, priority: int, work: int) -> float:
    """When a request of so many tokens is due, in seconds: what is due first goes first. Who came long ago is
    due before all who come now, so that nobody waits for ever.
    """
    return arrived + PRIORITY * priority + work / RATE


def schedule(
    running: Items[Sequence],
    waiting: Iterable[Sequence],
    free: int,
    budget: int,
    most: int,
    cached: Callable[[Sequence], int] = lambda sequence: 0,
    guesses: Guesses = MappingProxyType({}),
    fitting: Fitting | None = None,
) -> Schedule:
    """Sequences that are decoding come first, one token each; then prompts take what the budget leaves, in
    the order in which they are due, which is that of `waiting`. A prompt that finds no page holds up those
    behind it, or it might wait for ever.

    `free` pages are left, `most` rows have logits in a step. `cached` says how much of a prompt that waits is
    in the cache already. `guesses` of what decoding sequences draw go along as far as they fit into the
    budget and into pages that these have anyway. `fitting` cuts prompts to what a step has time for. When a
    decoding sequence needs a page and none is free, the one that is due last gives its pages back and starts
    again later. At least one sequence always goes on: a sequence alone never needs more pages than there are
    (the engine refuses longer ones).
    """
    active = list(running)
    preempted: list[Sequence] = []
    short = sum(sequence.pages_for(1) for sequence in active) - free
    while short > 0 and len(active) > 1:
        last = max(active, key=due_at)
        active.remove(last)
        short -= last.pages_for(1) + len(last.pages)
        free += len(last.pages)
        preempted.append(last)
    decoding = [sequence for sequence in active if sequence.pending == 1]
    prompts = sorted((sequence for sequence in active if sequence.pending > 1), key=due_at)
    spare = min(budget, most) - len(decoding)
    shares: list[Share] = []
    tokens = pairs = 0
    for sequence in decoding:
        fit = max(0, min(spare, PAGE - 1 - sequence.computed % PAGE))
        guessed = guesses.get(sequence, ())[:fit]
        spare -= len(guessed)
        count = min(1 + len(guessed), budget)
        if not count or len(shares) == most or free < sequence.pages_for(1):
            break
        free -= sequence.pages_for(1)
        budget -= count
        tokens += count
        pairs += count * (sequence.computed + 1)
        shares.append(Share(sequence, count, count, guessed))
    rows, least = sum(share.rows for share in shares), LEAST
    for sequence in merge(prompts, () if preempted else waiting, key=due_at):
        known = sequence.computed or cached(sequence)
        pending = sequence.length - known
        count = min(pending, budget, (len(sequence.pages) + free) * PAGE - known)
        if fitting and count > 0:
            count = min(count, max(least, fitting(tokens, pairs, known)))
            least = max(0, least - count)
        if rows == most or len(shares) == most or count <= 0:
            break
        free -= -(-(known + count) // PAGE) - len(sequence.pages)
        budget -= count
        tokens += count
        pairs += count * (known + count // 2)
        rows += count == pending
        shares.append(Share(sequence, count, int(count == pending)))
    return Schedule(tuple(shares), tuple(preempted))


def due_at(sequence: Sequence) -> float:
    """By what sequences are ordered."""
    return sequence.due
