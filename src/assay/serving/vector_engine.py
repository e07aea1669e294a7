"""Requests for vectors, from gateways, on an embedder."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay import metrics
from assay.errors import AssayError
from assay.llm.embedding_model import EmbeddingModel
from assay.llm.fields import token_ids
from assay.serving.live import Listener
from assay.serving.messages import Beat, Cancel, Embed, Failed, Leave, Message, Vectors
from assay.serving.text_engine import failed


@dataclass(eq=False)
class Wanted:
    """A request, and the vectors that are made."""

    peer: Listener
    embed: Embed
    kind: str
    arrived: float = field(default_factory=time.monotonic)
    made: list[NDArray[np.float32]] = field(default_factory=list)


class VectorEngine:
    """What is asked of one embedder. A step has texts of several requests, in the order of arrival."""

    def __init__(self, model: EmbeddingModel, name: str, queue: int) -> None:
        """`queue` is the most requests that wait."""
        self.model, self.name, self.queue = model, name, queue
        self.draining = False
        self._wanted: deque[Wanted] = deque()
        self._steps = 0

    @property
    def busy(self) -> bool:
        """Whether there is a step to be run."""
        return bool(self._wanted)

    def handle(self, peer: Listener, message: Message) -> None:
        """Do what a gateway asks."""
        match message:
            case Embed(id=id) if self.draining:
                peer.send(
                    Failed(
                        message.key or id,
                        "draining",
                        "no new requests are taken",
                        hint="ask again",
                        retry=1.0,
                    )
                )
            case Embed(id=id) if len(self._wanted) >= self.queue:
                peer.send(
                    Failed(
                        message.key or id,
                        "full",
                        "the queue is full",
                        got=f"{len(self._wanted)} wait",
                        retry=1.0,
                    )
                )
            case Embed(id=id):
                try:
                    longest, vocabulary = self.model.longest, self.model.vocabulary
                    for number, text in enumerate(message.texts):
                        token_ids(text, f"input[{number}]", vocabulary, longest)
                    self._wanted.append(Wanted(peer, message, self.model.kind(message.pooling)))
                except AssayError as error:
                    peer.send(failed(message.key or id, error))
            case Leave(id=id) | Cancel(id=id):
                self._wanted = deque(each for each in self._wanted if each.embed.id != id)
            case _:
                peer.send(Failed(getattr(message, "id", ""), "RequestError", "this model makes vectors"))

    def gone(self, peer: Listener) -> None:
        """A gateway's connection is closed: it asks again."""
        self._wanted = deque(each for each in self._wanted if each.peer is not peer)

    def step(self) -> None:
        """One step, and what came of it to those who asked."""
        began, kind = time.monotonic(), self._wanted[0].kind
        waiting = [
            (each, text)
            for each in self._wanted
            if each.kind == kind
            for text in each.embed.texts[len(each.made) :]
        ]
        texts = self.model.fitting([text for _, text in waiting])
        try:
            for (each, _), vector in zip(waiting, self.model.step(texts, kind), strict=False):
                each.made.append(vector)
        except AssayError as error:
            for each in {id(each): each for each, _ in waiting[: len(texts)]}.values():
                each.peer.send(failed(each.embed.key or each.embed.id, error))
                self._wanted.remove(each)
        self._steps += 1
        metrics.STEP.labels(self.name).observe(time.monotonic() - began)
        metrics.BATCH.labels(self.name).observe(sum(map(len, texts)))
        for each in [each for each in self._wanted if len(each.made) == len(each.embed.texts)]:
            self._wanted.remove(each)
            values, tokens = np.stack(each.made), sum(map(len, each.embed.texts))
            each.peer.send(
                Vectors(each.embed.key or each.embed.id, values.tobytes(), values.shape[1], tokens)
            )
            metrics.PROMPT_TOKENS.labels(self.name).inc(tokens)

    def beat(self) -> Beat:
        """The state of things."""
        metrics.WAITING.labels(self.name).set(len(self._wanted))
        return Beat(self._steps, len(self._wanted), 0, ready=not self.draining)
