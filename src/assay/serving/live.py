"""A request while an engine works on it, and who hears of it."""

from __future__ import annotations

import time
from collections.abc import Collection
from collections.abc import Sequence as Items
from typing import Protocol

from assay.errors import AssayError
from assay.llm.answer import Answer
from assay.llm.sequence import State
from assay.serving.messages import Alternative, Message, Piece, Submit


class Listener(Protocol):
    """A gateway's connection."""

    def send(self, message: Message) -> None:
        """Put a message on its way."""


ENDED = -1
Ear = tuple[Listener, str]
"""Who listens, and by which key."""


class Live:
    """`answers` are of one prompt. `heard` says for each listener how many tokens of each answer it was
    told, ENDED where its end was, too. `drawn` are the tokens that the journal has.
    """

    def __init__(self, submit: Submit, first: Answer, drawn: Items[list[int]], created: float) -> None:
        self.submit, self.created = submit, created
        self.answers = [first, *first.others]
        self.heard: dict[Ear, list[int]] = {}
        self._marks: dict[Ear, list[int]] = {}
        self.began = self.spoke = self.alone = time.monotonic()
        """When it was admitted, when a token was drawn last, and since when nobody listens."""
        self.waited: float | None = None
        """Seconds until its first step."""
        self.new = [0] * len(self.answers)
        """Tokens of each answer that were read last."""
        self._journalled = [*map(len, drawn), *[0] * (len(self.answers) - len(drawn))]
        self._computed = 0

    @property
    def id(self) -> str:
        """The request's own."""
        return self.submit.id

    @property
    def started(self) -> bool:
        """Whether it has had a step."""
        return self.answers[0].sequence.state is not State.WAITING

    @property
    def done(self) -> bool:
        """Whether all answers are at their ends."""
        return all(answer.reason for answer in self.answers)

    @property
    def ended(self) -> str:
        """How: "done", or "cancelled"."""
        return "cancelled" if any(answer.reason == "cancelled" for answer in self.answers) else "done"

    @property
    def error(self) -> AssayError | None:
        """What an answer failed with."""
        return next((a.sequence.error for a in self.answers if a.sequence.error), None)

    def listen(self, ear: Ear, at: Items[int], mark: Items[int] = ()) -> None:
        """Tell this one what comes after the first `at` tokens of each answer, in pieces of which none goes
        beyond `mark` that doesn't begin there.
        """
        count = len(self.answers)
        self.heard[ear] = [*at, *[0] * count][:count]
        self._marks[ear] = [*mark, *[0] * count][:count]

    def leave(self, ear: Ear) -> None:
        """This one is gone."""
        self._marks.pop(ear, None)
        if self.heard.pop(ear, None) is not None and not self.heard:
            self.alone = time.monotonic()

    def read(self, ends: Collection[int]) -> list[tuple[str, int, int, list[int]]]:
        """Account for what was drawn: what the journal doesn't have, as (id, answer, at, tokens)."""
        found = []
        for choice, answer in enumerate(self.answers):
            before, kept = answer.count, self._journalled[choice]
            answer.read(ends)
            self.new[choice] = answer.count - before
            if answer.count > kept:
                found.append((self.id, choice, kept, answer.tokens(kept)))
                self._journalled[choice] = answer.count
        return found

    def news(self, ear: Ear) -> list[Piece]:
        """What this listener wasn't told yet; now it is."""
        heard, found = self.heard[ear], list[Piece]()
        for choice, (answer, mark) in enumerate(zip(self.answers, self._marks[ear], strict=True)):
            if answer.reason != "error":
                if 0 <= heard[choice] < mark < answer.count:
                    found.append(self._piece(ear[1], choice, answer, heard[choice], mark))
                    heard[choice] = mark
                at = heard[choice]
                if at != ENDED and (answer.count > at or answer.reason):
                    found.append(self._piece(ear[1], choice, answer, at, answer.count))
                    heard[choice] = ENDED if answer.reason else answer.count
        return found

    def progress(self) -> int:
        """Tokens of the prompt that are computed, if they became more; else 0."""
        before, self._computed = self._computed, self.answers[0].sequence.computed
        return min(self._computed, len(self.submit.prompt)) if self._computed > before else 0

    def _piece(self, key: str, choice: int, answer: Answer, at: int, end: int) -> Piece:
        numbers = range(at, end) if self.submit.logprobs else ()
        return Piece(
            key,
            choice,
            end,
            answer.tokens(at)[: end - at],
            "".join(answer.spoken[at:end]),
            answer.reason if end == answer.count else "",
            answer.sequence.reused,
            [self._told(answer, number) for number in numbers],
        )

    def _told(self, answer: Answer, number: int) -> list[Alternative]:
        sequence, spell = answer.sequence, answer.tokenizer.token_bytes
        token = sequence.tokens[sequence.prompt_length + number]
        own = spell(token), token, sequence.logprobs[number]
        return [own, *((spell(each), each, logprob) for each, logprob in sequence.top_logprobs[number])]
