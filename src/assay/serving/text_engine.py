"""Requests for text, from gateways, on a language model."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

from assay import metrics
from assay.errors import AssayError
from assay.llm.answer import Answer
from assay.llm.language_model import LanguageModel
from assay.llm.sequence import State
from assay.serving.journal import Entry, Journal
from assay.serving.live import Ear, Listener, Live
from assay.serving.log import Log
from assay.serving.messages import (
    Attach,
    Beat,
    Cancel,
    Failed,
    Known,
    Leave,
    Message,
    Piece,
    Pieces,
    Progress,
    Started,
    Submit,
)

ORPHANED = 30.0
"""Seconds that a request goes on when its gateway is gone, and that one at its end can still be heard."""
MOST_DEATHS = 3
"""Times that an engine may die over a request that doesn't come on in between, before it is given up."""


class TextEngine:
    """What is asked of one language model. One thread: handling a message and a step take turns."""

    def __init__(self, lm: LanguageModel, name: str, queue: int, journal: Journal, log: Log) -> None:
        """`queue` is the most requests that wait for their first step."""
        self.lm, self.engine, self.name, self.queue = lm, lm.engine, name, queue
        self.journal, self.log = journal, log
        self.draining = False
        self.live: dict[str, Live] = {}
        self._preempted = 0
        self._rate = 1.0
        """Answers that ended in a second, lately."""
        self._counted, self._since = 0, time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether there is a step to be run."""
        return self.engine.busy

    def recover(self) -> int:
        """Take up the requests that the journal says were under way; the number of them."""
        entries = self.journal.open_requests()
        for entry in entries:
            if entry.submit.id in self.live:
                continue
            if entry.deaths > MOST_DEATHS:
                self.journal.mark(entry.submit.id, "failed")
                self.log("given up", request=entry.submit.id, deaths=entry.deaths)
            else:
                try:
                    self._admit(entry.submit, entry.created, entry.tokens)
                except AssayError as error:  # another context than it was asked of, say
                    self.journal.mark(entry.submit.id, "failed")
                    self.log("not taken up", request=entry.submit.id, rule=error.rule)
        return len(entries)

    def handle(self, peer: Listener, message: Message) -> None:
        """Do what a gateway asks."""
        match message:
            case Submit() | Attach():
                ear = peer, message.key or message.id
                try:
                    if isinstance(message, Submit):
                        self._submit(ear, message)
                    else:
                        self._attach(ear, message)
                except AssayError as error:
                    peer.send(failed(ear[1], error))
            case Leave(id=id, key=key) if live := self.live.get(id):
                live.leave((peer, key or id))
                if not live.heard and not live.submit.background:
                    self._end(live, "parked")
            case Cancel(id=id) if live := self.live.get(id):
                self._cancel(live)
            case Cancel(id=id):
                self.journal.mark(id, "cancelled")
            case Leave():
                pass
            case _:
                peer.send(Failed(getattr(message, "id", ""), "RequestError", "this model answers with text"))

    def gone(self, peer: Listener) -> None:
        """A gateway's connection is closed: its requests go on for a while, somebody may come for them."""
        for live in self.live.values():
            for ear in [ear for ear in live.heard if ear[0] is peer]:
                live.leave(ear)

    def step(self) -> None:
        """One step, and what came of it to all who listen."""
        began = time.monotonic()
        self.engine.step()
        now = time.monotonic()
        metrics.STEP.labels(self.name).observe(now - began)
        metrics.BATCH.labels(self.name).observe(self.engine.tokens)
        self._tell([live for live in self.live.values() if not live.done], now)

    def beat(self) -> Beat:
        """The state of things; what nobody came for is put aside."""
        engine, journal, now = self.engine, self.journal, time.monotonic()
        pages = engine.pages
        for gauge, value in (
            (metrics.WAITING, engine.waiting), (metrics.RUNNING, engine.running),
            (metrics.BLOCKS, pages.count), (metrics.BLOCKS_FREE, pages.free),
            (metrics.JOURNAL_LAG, journal.lag), (metrics.JOURNAL_OFF, float(bool(journal.trouble))),
        ):  # fmt: skip
            gauge.labels(self.name).set(value)
        metrics.PREEMPTIONS.labels(self.name).inc(engine.preemptions - self._preempted)
        self._preempted = engine.preemptions
        for live in [each for each in self.live.values() if not each.heard and now - each.alone > ORPHANED]:
            if live.done:
                del self.live[live.id]
            elif not live.submit.background:
                self._end(live, "parked")
        if now - self._since > 10:
            self._rate = max(0.1, self._counted / (now - self._since))
            self._counted, self._since = 0, now
        if journal.returned():
            self._keep_again()
        ready = not self.draining
        return Beat(
            engine.steps,
            engine.waiting,
            engine.running,
            pages.free,
            pages.count,
            ready,
            journal.trouble,
        )

    def _keep_again(self) -> None:
        """The journal was away: it is told of all that is under way, and may know of more."""
        for live in self.live.values():
            self.journal.admit(live.submit, live.created)
            found = [(live.id, number, 0, answer.tokens()) for number, answer in enumerate(live.answers)]
            self.journal.append([each for each in found if each[3]])
            if live.done:
                self.journal.mark(live.id, live.ended)
        self.recover()

    def _submit(self, ear: Ear, submit: Submit) -> None:
        peer, key = ear
        live = self.live.get(submit.id)
        if live is None:
            entry = self.journal.find(submit.id) if submit.drawn else None
            refusal = None if entry or submit.drawn else self._refusal(key)
            if refusal:
                peer.send(refusal)
                return
            if entry is None:
                self.journal.admit(submit, time.time())
            live = self._admit(submit, entry.created if entry else time.time(), _longer(submit, entry))
        peer.send(Started(key))
        live.listen(ear, [*map(len, submit.drawn)])
        self._tell([live], time.monotonic())

    def _refusal(self, id: str) -> Failed | None:
        if self.draining:
            return Failed(id, "draining", "no new requests are taken", hint="ask again", retry=1.0)
        if self.engine.waiting < self.queue:
            return None
        metrics.SHED.labels("queue").inc()
        retry = min(60.0, max(1.0, self.engine.waiting / self._rate))
        return Failed(id, "full", "the queue is full", got=f"{self.engine.waiting} wait", retry=retry)

    def _attach(self, ear: Ear, attach: Attach) -> None:
        peer, key = ear
        live = self.live.get(attach.id)
        if live is None:
            entry = self.journal.find(attach.id)
            if entry is None or entry.state == "failed":
                rule = "no such request" if entry is None else "the request has failed"
                peer.send(Failed(key, "unknown", rule, place="id", got=attach.id[:80]))
                return
            live = self._admit(entry.submit, entry.created, entry.tokens)
            if entry.state == "cancelled":
                self._cancel(live)
        metrics.RESUMED.inc()
        peer.send(Known(key, live.submit, live.created, live.done))
        live.listen(ear, attach.at, attach.mark)
        self._tell([live], time.monotonic())
        if not attach.follow:
            live.leave(ear)
            peer.send(Started(key))

    def _admit(self, submit: Submit, created: float, drawn: list[list[int]]) -> Live:
        """Begin, or go on, with a request that is in the journal. Log-probabilities aren't there: where they
        are wanted all is computed again.
        """
        drawn = [] if submit.logprobs else drawn
        timeout = submit.timeout and max(0.001, created + submit.timeout - time.time())
        first = self.engine.add(
            submit.prompt, submit.sampling, drawn, priority=submit.priority, timeout=timeout
        )
        live = self.live[submit.id] = Live(submit, Answer(first, self.lm.tokenizer), drawn, created)
        metrics.PROMPT_TOKENS.labels(self.name).inc(len(submit.prompt))
        self._read([live], time.monotonic())
        self.journal.mark(submit.id, "open")
        return live

    def _read(self, lives: Iterable[Live], now: float) -> None:
        """Account for what was drawn."""
        found = []
        for live in lives:
            found += live.read(self.engine.ends)
            for answer in live.answers:
                if answer.reason and answer.sequence.state is not State.FINISHED:
                    self.engine.cancel(answer.sequence)  # at a stop string
            self._observe(live, now)
        if found:
            self.journal.append(found)

    def _tell(self, lives: list[Live], now: float) -> None:
        """Send what was drawn to all who listen, and end what is at its end."""
        self._read(lives, now)
        pieces = defaultdict[Listener, list[Piece]](list)
        for live in lives:
            done = live.progress() if live.submit.progress else 0
            for ear in live.heard:
                pieces[ear[0]] += live.news(ear)
                if done:
                    ear[0].send(Progress(ear[1], done, len(live.submit.prompt)))
        for peer, items in pieces.items():
            if items:
                peer.send(Pieces(items))
        for live in lives:
            if live.error:
                for peer, key in live.heard:
                    peer.send(failed(key, live.error))
                self._end(live, "failed")
            elif live.done:
                self._counted += 1
                live.heard.clear()
                live.alone = now
                if live.id in self.live:
                    self.journal.mark(live.id, live.ended)

    def _observe(self, live: Live, now: float) -> None:
        """Times and counts of what was read just now."""
        if live.waited is None and live.started:
            live.waited = now - live.began
            metrics.QUEUE.labels(self.name).observe(live.waited)
            metrics.CACHED_TOKENS.labels(self.name).inc(live.answers[0].sequence.reused)
        for answer, news in zip(live.answers, live.new, strict=True):
            if news:
                metrics.NEW_TOKENS.labels(self.name).inc(news)
                if answer.count > news:
                    metrics.BETWEEN.labels(self.name).observe((now - live.spoke) / news)
                live.spoke = now

    def _cancel(self, live: Live) -> None:
        for answer in live.answers:
            self.engine.cancel(answer.sequence)
        self._tell([live], time.monotonic())

    def _end(self, live: Live, state: str) -> None:
        """Let a request go: its pages, and its place here."""
        for answer in live.answers:
            self.engine.cancel(answer.sequence)
        self.journal.mark(live.id, state)
        del self.live[live.id]


def failed(id: str, error: AssayError) -> Failed:
    """An error as a message."""
    kind = getattr(error, "kind", type(error).__name__)
    return Failed(id, kind, error.rule, error.place, error.want, error.got, error.hint)


def _longer(submit: Submit, entry: Entry | None) -> list[list[int]]:
    """Of each answer, the tokens that whoever asks has or those of the journal, whichever are more."""
    given, kept = submit.drawn, entry.tokens if entry else []
    count = max(len(given), len(kept))
    each = ([*tokens, *[[]] * (count - len(tokens))] for tokens in (given, kept))
    return [max(pair, key=len) for pair in zip(*each, strict=True)]
