"""The scheduler's policy against others, on a clock that isn't real: the real `schedule`, a recorded cost of
steps, and requests with heavy tails.

    python -m benchmarks.simulate --requests 100000 --rate 4 --json

Prompts and answers are lognormal (medians 150 and 60 tokens, sigma 1.0 and 1.1, at most 4,000 and 1,000),
arrivals Poisson, all of a seed. Policies: `assay` (time slice, what is due first), `arrival` (as they come,
no slice) and `fixed` (batches of 32 that end together, padded to the longest). The cost of steps is that of
SmolLM2 Q8_0 on two cores, as the engine learnt it under load.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from assay.kernels.sizes import PAGE
from assay.llm.cost import Cost
from assay.llm.scheduler import due, due_at, schedule
from assay.llm.sequence import Sequence

WHOLE, TOKEN, PAIR = 6.7e-3, 4.0e-4, 4.0e-7
"""Seconds of a step, of each token in it, and of each pair of a query and a key."""
PAGES, BUDGET, MOST, SLICE, BATCH = 8192, 4096, 64, 0.05, 32


def seconds(tokens: int, pairs: int) -> float:
    """What a step takes."""
    return WHOLE + TOKEN * tokens + PAIR * pairs


@dataclass(eq=False, slots=True)
class Job:
    """A request, with what the scheduler asks a sequence."""

    number: int
    arrived: float
    prompt: int
    output: int
    due: float = 0.0
    computed: int = 0
    drawn: int = 0
    held: int = 0
    last: float = 0.0

    @property
    def length(self) -> int:
        """Tokens of the prompt and drawn."""
        return self.prompt + self.drawn

    @property
    def pending(self) -> int:
        """Tokens that are not computed."""
        return self.prompt + self.drawn - self.computed

    @property
    def pages(self) -> range:
        """As many as it holds."""
        return range(self.held)

    def pages_for(self, count: int) -> int:
        """Pages that the next tokens need."""
        return max(0, -(-(self.computed + count) // PAGE) - self.held)


class Seen:
    """Waits, in milliseconds, and tokens."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.gaps: Counter[int] = Counter()
        self.tokens = 0

    def gap(self, wait: float, times: int = 1) -> None:
        """So long from one token to the next, so many times."""
        self.gaps[int(1000 * wait)] += times
        self.tokens += times

    def figures(self, spent: float) -> dict[str, float]:
        """What is told."""
        first = sorted(self.first)
        left, p99 = 0.01 * self.gaps.total(), 0
        for p99 in sorted(self.gaps, reverse=True):
            left -= self.gaps[p99]
            if left < 0:
                break
        return {
            "tokens_per_second": round(self.tokens / spent, 1),
            "ttft_p50": round(first[len(first) // 2], 3),
            "ttft_p99": round(first[int(0.99 * len(first))], 3),
            "inter_token_p99": (p99 + 1) / 1000,
        }


def requests(count: int, rate: float, seed: int) -> list[Job]:
    """Requests in the order of their arrival, `rate` a second."""
    rng, now, found = random.Random(seed), 0.0, []
    for number in range(count):
        now += rng.expovariate(rate)
        prompt = int(min(4000, max(4, rng.lognormvariate(5.01, 1.0))))
        output = int(min(1000, max(2, rng.lognormvariate(4.09, 1.1))))
        found.append(Job(number, now, prompt, output))
    return found


def continuous(jobs: list[Job], sliced: bool) -> dict[str, float]:
    """Steps as the engine runs them."""
    seen, cost = Seen(), Cost()
    waiting: list[Job] = []
    running: list[Job] = []
    now, free, coming = 0.0, PAGES, 0
    fitting: Callable[[int, int, int], int] | None = None
    if sliced:
        fitting = lambda tokens, pairs, context: cost.fitting(tokens, pairs, context, SLICE)  # noqa: E731
    while coming < len(jobs) or waiting or running:
        if not waiting and not running:
            now = max(now, jobs[coming].arrived)
        while coming < len(jobs) and jobs[coming].arrived <= now:
            job = jobs[coming]
            job.due = due(job.arrived, 0, job.prompt) if sliced else float(job.number)
            insort(waiting, job, key=due_at)  # type: ignore[arg-type]
            coming += 1
        plan = schedule(
            cast("list[Sequence]", running),
            cast("list[Sequence]", waiting),
            free,
            BUDGET,
            MOST,
            fitting=fitting,
        )
        for job in cast("tuple[Job, ...]", plan.preempted):
            free += job.held
            job.held = job.computed = 0
            running.remove(job)
            insort(waiting, job, key=due_at)  # type: ignore[arg-type]
        shares = [(cast("Job", share.sequence), share.count, share.rows) for share in plan.shares]
        tokens = sum(count for _, count, _ in shares)
        pairs = sum(count * (job.computed + (count + 1) // 2) for job, count, _ in shares)
        spent = seconds(tokens, pairs)
        times = 1
        if all(rows for _, _, rows in shares) and tokens == len(shares):
            # The same step again, until one is at its end, needs a page, or somebody comes.
            until = jobs[coming].arrived if coming < len(jobs) else 1e18
            ends = min(min(j.output - j.drawn, PAGE - j.computed % PAGE) for j, _, _ in shares)
            times = max(1, min(ends, int((until - now) / spent) if len(running) < MOST else ends))
        else:
            cost.learn(tokens, pairs, spent)
        now += spent * times
        for job, count, rows in shares:
            if job.computed == 0 and job.held == 0:
                waiting.remove(job)
                running.append(job)
            need = job.pages_for(count)
            free -= need
            job.held += need
            job.computed += count + times - 1
            if rows:
                job.drawn += times
                if job.last:
                    seen.gap(now - (times - 1) * spent - job.last)
                    if times > 1:
                        seen.gap(spent, times - 1)
                else:
                    seen.first.append(now - job.arrived)
                    seen.tokens += 1
                    if times > 1:
                        seen.gap(spent, times - 1)
                job.last = now
                if job.drawn >= job.output:
                    free += job.held
                    running.remove(job)
    return seen.figures(now - jobs[0].arrived)


def fixed(jobs: list[Job]) -> dict[str, float]:
    """Batches that begin and end together."""
    seen, now = Seen(), 0.0
    for first in range(0, len(jobs), BATCH):
        batch = jobs[first : first + BATCH]
        now = max(now, batch[-1].arrived)
        width, longest, count = max(j.prompt for j in batch), max(j.output for j in batch), len(batch)
        now += seconds(count * width, count * width * width // 2)
        seen.first += [now - job.arrived for job in batch]
        seen.tokens += count
        for number in range(1, longest):
            spent = seconds(count, count * (width + number))
            now += spent
            seen.gap(spent, sum(job.output > number for job in batch))
    return seen.figures(now - jobs[0].arrived)


def compared(count: int, rate: float, seed: int) -> dict[str, object]:
    """All policies on the same requests."""
    found: dict[str, object] = {"requests": count, "rate": rate, "seed": seed}
    for name, run in (
        ("assay", lambda jobs: continuous(jobs, True)),
        ("arrival", lambda jobs: continuous(jobs, False)),
        ("fixed", fixed),
    ):
        began = time.perf_counter()
        figures = run(requests(count, rate, seed))
        found[name] = {**figures, "took": round(time.perf_counter() - began, 1)}
    return found


def main() -> None:
    """Print what is found."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = compared(given.requests, given.rate, given.seed)
    print(
        json.dumps(found) if given.json else "\n".join(f"{name:10} {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
