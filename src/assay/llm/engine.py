"""Text in, text out is built on this: sequences of tokens that share steps of one graph."""

from __future__ import annotations

import secrets
import time
from bisect import insort
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice, zip_longest
from types import MappingProxyType
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, DeadlineExceeded, PrecisionOverflow, RequestError
from assay.kernels.sizes import PAGE
from assay.llm.controls import Controls
from assay.llm.cost import Cost
from assay.llm.fields import token_ids
from assay.llm.guesses import Guesses
from assay.llm.options import MOST_TOKENS
from assay.llm.prefixes import Prefixes
from assay.llm.request import SEEDS, Sampling
from assay.llm.scheduler import Share, due, due_at, schedule
from assay.llm.sequence import Sequence, State
from assay.llm.step import Arrays, Row, drawn_rows, owner, step_inputs
from assay.llm.tokenizer import Tokenizer
from assay.runtime.executor import Executor

SEQUENCES = 64
"""The most sequences of one step."""
BUDGET = 512
"""The most tokens of one step, by default."""
TOKEN_BUCKETS = (1, 8, 64, 512, MOST_TOKENS)


def buckets(vocabulary: int) -> dict[str, Items[int]]:
    """The sizes that plans of a step are made for. A row has at most two entries for each token."""
    few, most = (1, 8, SEQUENCES), 2 * SEQUENCES * (1 << (vocabulary - 1).bit_length())
    entries = (0, *(size for size in (1 << 10, 1 << 14, 1 << 18) if size < most), most)
    return {"T": TOKEN_BUCKETS, "S": few, "R": few, "A": (0, SEQUENCES), "E": entries}


@dataclass(frozen=True)
class Drawn:
    """One token of one sequence, and the natural logarithm of its probability."""

    sequence: Sequence
    token: int
    logprob: float


class Engine:
    """`add` requests, call `step` until nothing is left, `cancel` what is no longer wanted.

    Sequences join and leave between steps; a step is one run of the executor. Whoever shares a step changes
    no bit of it, nor do pages that others computed before, or guesses. `ends` are the tokens after which a
    sequence has ended; `root` says what the cache's rows depend on beside the tokens. `adapters` are the
    names that requests give, in the graph's order, with digests. With `slice_seconds` prompts are cut to what
    a step has time for, as far as `cost` knows. Not thread-safe.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        pages: int,
        context: int,
        vocabulary: int,
        ends: Collection[int] = (),
        budget: int = BUDGET,
        root: bytes = b"",
        prefix_cache: bool = True,
        guesses: Guesses | None = None,
        adapters: Mapping[str, bytes] = MappingProxyType({}),
        tokenizer: Tokenizer | None = None,
        slice_seconds: float | None = None,
    ) -> None:
        self.executor = executor
        self.memory = [executor.state(name) for name in executor.graph.states]
        """Of each state of the graph, the bytes of each page."""
        self.prefixes = Prefixes(pages, self._copy if prefix_cache else None)
        self.prefix_cache = prefix_cache
        self.pages = self.prefixes.pages
        self.context = context
        self.vocabulary = vocabulary
        self.ends = frozenset(ends)
        self.budget = budget
        self.steps = self.preemptions = 0
        self.root = root
        self.guesses = guesses
        self.adapters = dict[str | None, bytes]([(None, b""), *adapters.items()])
        self._tokenizer = tokenizer
        self._width = -(-context // PAGE)
        self._numbers = 0
        self._known: WeakSet[Sequence] = WeakSet()
        self.cost, self.slice_seconds, self.tokens = Cost(), slice_seconds, 0
        """What steps cost; what one may, in seconds; tokens of the last one."""
        self._timed = False
        """Whether any sequence may have a deadline."""
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._torn = False
        """Whether an exception may have come amid a change of the books."""

    @property
    def busy(self) -> bool:
        """Whether any sequence is left."""
        return self._torn or bool(self._waiting or self._running)

    @property
    def waiting(self) -> int:
        """Sequences that wait for their first step."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences that hold pages."""
        return len(self._running)

    def add(
        self,
        prompt: Items[int],
        sampling: Sampling,
        drawn: Items[Items[int]] = (),
        *,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Sequence:
        """Admit a request. Raises RequestError when it can't be served: no tokens, an unknown token, too
        long. Of several answers this is the first; the `others` begin when it has computed the prompt.

        Of a request that goes on, `drawn` are the first tokens of each answer, which are computed with the
        prompt. Their log-probabilities are not known: NaN. Lower `priority` goes first, where steps have a
        time slice. `timeout` seconds from now it ends with DeadlineExceeded.
        """
        wanted = sampling.max_tokens
        most = min(self.context, self.pages.count * PAGE)
        news = f" and {wanted} new ones" if wanted else " and at least one new one"
        tokens = token_ids(prompt, "prompt", self.vocabulary, most, wanted or 1, news)
        limit = wanted or most - len(tokens)
        before = [token_ids(each, "drawn", self.vocabulary, limit) if each else [] for each in drawn]
        with self._books():
            sequence = self._sequence(tokens, sampling, limit)
            for choice in range(1, sampling.n):
                other = self._sequence(tokens, replace(sampling, seed=sequence.seed), limit)
                other.draw["choice"] = choice
                sequence.others.insert(0, other)
            sequence.further = tuple(reversed(sequence.others))
            self._known.update(sequence.choices)
            now = time.monotonic()
            for each in sequence.choices:
                each.deadline = None if timeout is None else now + timeout
                if self.slice_seconds:
                    each.due = due(now, priority, len(tokens))
            self._timed |= timeout is not None
            insort(self._waiting, sequence, key=due_at)
            for each, known in zip(sequence.choices, before, strict=False):
                self._go_on(each, known)
        return sequence

    def _go_on(self, sequence: Sequence, drawn: Items[int]) -> None:
        """A sequence has these tokens already; it may be at its end."""
        for token in drawn:
            sequence.append(token, float("nan"))
        sequence.computed = 0
        self._close(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """End a sequence now and free its pages. One that has ended stays as it is."""
        with self._books():
            self._end(sequence, "cancelled")

    def step(self) -> list[Drawn]:
        """Run one step and return what it drew, in order of arrival. A sequence at an end token or at its
        limit has ended.

        When a value leaves its range, the sequence whose row it is ends with reason "error", and the next
        step computes the others again. After any exception, Ctrl-C's say, all are computed again.
        """
        with self._books():
            return self._step()

    def _step(self) -> list[Drawn]:
        if self._timed:
            self._expire(time.monotonic())
        plan = schedule(
            self._running,
            self._waiting,
            self.pages.free,
            self.budget,
            SEQUENCES,
            self.prefixes.cached,
            self.guesses.offer(self._running) if self.guesses else {},
            self._fitting if self.slice_seconds else None,
        )
        self.preemptions += len(plan.preempted)
        for sequence in plan.preempted:
            self._drop(sequence)
            self._running.remove(sequence)
            sequence.state = State.WAITING
            insort(self._waiting, sequence, key=due_at)
        if not plan.shares:
            return []
        shares = [*map(self._started, plan.shares)]
        try:
            began = time.perf_counter()
            outputs = self._run(shares)
            self._learn(shares, time.perf_counter() - began)
            drawn = drawn_rows(shares, outputs)
            return [token for share in shares for token in self._take(share, [*islice(drawn, share.rows)])]
        except PrecisionOverflow as error:
            self._fault(owner(shares, error), error)
            return []

    def _fitting(self, tokens: int, pairs: int, context: int) -> int:
        """How many tokens of a prompt the time slice has room for."""
        return self.cost.fitting(tokens, pairs, context, self.slice_seconds or 0.0)

    def _learn(self, shares: Items[Share], seconds: float) -> None:
        """A step took so long; its tokens are computed."""
        self.steps += 1
        self.tokens = sum(share.count for share in shares)
        pairs = sum(share.count * (share.sequence.computed - share.count // 2) for share in shares)
        self.cost.learn(self.tokens, pairs, seconds)

    def _expire(self, now: float) -> None:
        """End what is past its deadline."""
        timed = [each for each in (*self._running, *self._waiting) if each.deadline is not None]
        self._timed = bool(timed)
        for sequence in timed:
            if now > (sequence.deadline or now):
                for each in sequence.choices:
                    self._end(
                        each,
                        "error",
                        DeadlineExceeded("the time that the request gave is over", place="timeout"),
                    )

    @contextmanager
    def _books(self) -> Iterator[None]:
        """Around each change of the books: what an exception left of them is thrown away before the next."""
        if self._torn:
            self._restart()
        self._torn = True
        try:
            yield
        except RequestError:  # refused before anything was changed
            self._torn = False
            raise
        self._torn = False

    def _restart(self) -> None:
        """Begin again with an empty cache: all that isn't ended is computed again, to the same bits."""
        self.prefixes = Prefixes(self.pages.count, self._copy if self.prefix_cache else None)
        self.pages = self.prefixes.pages
        known = sorted(self._known, key=lambda sequence: sequence.number)
        for sequence in known:
            sequence.restart()
            if sequence.controls and not sequence.reason:
                sequence.controls = self._controls(
                    sequence.sampling, sequence.tokens[: sequence.prompt_length]
                )
        self._running = []
        self._waiting = sorted((each for each in known if each.state is State.WAITING), key=due_at)

    def rooted(self, adapter: str | None) -> bytes:
        """What the cache's rows depend on with this adapter. Raises RequestError if there is none."""
        if not isinstance(adapter, str | None) or adapter not in self.adapters:
            want = " or ".join(map(repr, self.adapters))
            hint = "" if len(self.adapters) > 1 else "load the model with adapters"
            got = repr(adapter)[:80]
            raise RequestError("no such adapter", place="adapter", want=want, got=got, hint=hint)
        return sha256(self.root + self.adapters[adapter]).digest() if adapter is not None else self.root

    def output(self, name: str, prompt: Items[int], adapter: str | None = None) -> NDArray[np.float32]:
        """float32 [len(prompt), …]: run a prompt alone, and an output of the graph at all its positions.
        Raises RequestError, or HardwareFault when other sequences hold the pages.
        """
        tokens = token_ids(prompt, "tokens", self.vocabulary, self.context)
        out = np.empty((len(tokens), self.executor.graph.types[name].shape[1].at({})), np.float32)
        sequence = self._sequence(tokens, Sampling(adapter=adapter), 0)
        with self._books():
            try:
                while sequence.pending:
                    first, count = sequence.computed, min(sequence.pending, SEQUENCES)
                    out[first : first + count] = self._run([Share(sequence, count, count)])[name]
            finally:
                sequence.drop(self.pages)
        return out

    def fill(self, tokens: Items[int], memory: Items[NDArray[np.uint8]], adapter: str | None) -> None:
        """Put pages that hold these tokens into the cache, for prompts that begin so: uint8 [pages, bytes] of
        each state.
        """
        sequence = self._sequence(list(tokens), Sampling(adapter=adapter), 0)
        with self._books():
            sequence.hold(self.pages, len(tokens))
            for mine, theirs in zip(self.memory, memory, strict=True):
                mine[sequence.pages] = theirs
            sequence.computed = len(tokens)
            self._drop(sequence)

    def check_integrity(self) -> None:
        """Raises SchedulingDeadlock when the books of the cache don't agree with the sequences."""
        with self._books():
            self.pages.check_integrity(sequence.pages for sequence in (*self._running, *self._waiting))
            for sequence in self._running:
                assert len(sequence.pages) * PAGE >= sequence.computed

    def _sequence(self, tokens: list[int], sampling: Sampling, limit: int) -> Sequence:
        seed = sampling.seed if sampling.seed is not None else secrets.randbelow(SEEDS)
        asked = self._controls(sampling, tokens) if sampling.adjusts else None
        self._numbers += 1
        root = self.rooted(sampling.adapter)
        return Sequence(self._numbers, tokens, sampling, seed, limit, self._width, root, asked)

    def _controls(self, sampling: Sampling, prompt: list[int]) -> Controls:
        return Controls(sampling, prompt, self.vocabulary, self.ends, self._tokenizer)

    def _run(self, shares: Items[Share]) -> Arrays:
        """One run of the executor; the shares' tokens are in the cache then."""
        for share in shares:
            share.sequence.hold(self.pages, share.count)
        outputs = self.executor.run(*step_inputs(shares, self.vocabulary, list(self.adapters)))
        for share in shares:
            share.sequence.computed += share.count - len(share.guesses)
            share.sequence.ran += share.count
        return outputs

    def _started(self, share: Share) -> Share:
        """The share of a sequence that runs from now on, if it doesn't yet, with what was found of it in the
        cache.
        """
        sequence = share.sequence
        if sequence.pages:
            return share
        if sequence.state is State.WAITING:
            self._waiting.remove(sequence)
            self._running.append(sequence)
            sequence.state = State.RUNNING
        self.prefixes.attach(sequence)
        count = min(share.count, sequence.pending)
        return Share(sequence, count, int(count == sequence.pending))

    def _copy(self, source: int, target: int) -> None:
        for pages in self.memory:
            pages[target] = pages[source]

    def _take(self, share: Share, drawn: Items[Row]) -> list[Drawn]:
        """What a sequence drew: the first token, and each after a guess that came true."""
        sequence, found = share.sequence, list[Drawn]()
        for number, (row, guess) in enumerate(zip_longest(drawn, share.guesses)):
            error = sequence.controls.errors[number] if sequence.controls else None
            found.append(self._draw(sequence, row, error))
            if row[0] != guess or sequence.state is State.FINISHED:
                break
        if self.guesses and share.guesses:
            self.guesses.learn(sequence, len(share.guesses), len(found) - 1)
        if sequence.state is State.RUNNING and (share.count > 1 or sequence.computed % PAGE == 0):
            self.prefixes.publish(sequence)
        self._release(sequence)
        return found

    def _release(self, sequence: Sequence) -> None:
        """Let the other answers to the prompt begin: what is computed of it is there to be found."""
        for other in reversed(sequence.others):
            if other.state is State.WAITING:
                insort(self._waiting, other, key=due_at)
        sequence.others = []

    def _draw(self, sequence: Sequence, row: Row, error: RequestError | None) -> Drawn:
        token, logprob, top = row
        if error:
            self._end(sequence, "error", error)
        elif token < 0:
            place = f"sequence {sequence.number}, token {sequence.length}"
            self._end(sequence, "error", PrecisionOverflow("the logits are not numbers", place=place))
        else:
            sequence.append(token, logprob, top)
            self._close(sequence)
        return Drawn(sequence, token, logprob)

    def _close(self, sequence: Sequence) -> None:
        """End a sequence whose last token says so."""
        ended = sequence.drawn and sequence.tokens[-1] in self.ends and not sequence.sampling.ignore_eos
        if ended or sequence.drawn == sequence.limit:
            self._end(sequence, "stop" if ended else "length")

    def _fault(self, share: Share, error: PrecisionOverflow) -> None:
        """A value of this share left its range: without guesses the sequence has failed."""
        if self.guesses and share.guesses:
            self.guesses.stop(share.sequence)
        else:
            self._end(share.sequence, "error", error)

    def _drop(self, sequence: Sequence) -> None:
        """Let a sequence's pages go, for others to find."""
        self.prefixes.publish(sequence)
        sequence.drop(self.pages)

    def _end(self, sequence: Sequence, reason: str, error: AssayError | None = None) -> None:
        if sequence.state is State.FINISHED:
            return
        sequence.reason, sequence.error = reason, error
        self._drop(sequence)
        holder = self._waiting if sequence.state is State.WAITING else self._running
        if sequence in holder:
            holder.remove(sequence)
        self._release(sequence)
        sequence.state = State.FINISHED
