"""A language model as callers see it: text in, text out."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.graph.graph import Graph
from assay.llm import conversation
from assay.llm.answer import Answer, Completion
from assay.llm.engine import Engine
from assay.llm.request import Sampling
from assay.llm.template import ChatTemplate, Message
from assay.llm.tokenizer import Tokenizer


class Stream(Iterator[str]):
    """An answer's text, piece by piece, never half a character. Made by `LanguageModel.stream`."""

    def __init__(
        self, answer: Answer, texts: Generator[str, None, None], end: Callable[[Answer], None]
    ) -> None:
        self._answer = answer
        self._texts = texts
        self._end = end

    def __next__(self) -> str:
        return next(self._texts)

    def close(self) -> None:
        """End the answer here. Dropping the stream does the same."""
        self._texts.close()
        self._end(self._answer)

    __del__ = close

    @property
    def completion(self) -> Completion:
        """The answer so far; the whole one once the stream is at its end."""
        return self._answer.completion()


class LanguageModel:
    """Made by `assay.load`. Threads may share it: their answers are computed together, in the same steps."""

    def __init__(
        self,
        graph: Graph,
        engine: Engine,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        details: Mapping[str, object],
    ) -> None:
        self.graph = graph
        self.engine = engine
        self.tokenizer = tokenizer
        self.template = template
        self.details = details
        self._answers: dict[int, Answer] = {}
        self._lock = threading.RLock()
        _models.add(self)

    @property
    def context(self) -> int:
        """The most tokens of a prompt and its answer together."""
        return self.engine.context

    def generate(self, prompt: str, **sampling: object) -> Completion:
        """The answer to a prompt. Keywords are the fields of `Sampling`. Raises RequestError."""
        return self.generate_batch([prompt], **sampling)[0]

    def chat(self, messages: Items[Message], **sampling: object) -> Completion:
        """The answer to a conversation of {"role", "content"} messages, through the model's chat template."""
        return self._finish([self._admit(self._chat_tokens(messages), _sampling(sampling))])[0]

    def stream(self, prompt: str | Items[Message], **sampling: object) -> Stream:
        """The answer to a prompt or to a conversation, while it is made. Raises RequestError."""
        tokens = self._prompt_tokens(prompt) if isinstance(prompt, str) else self._chat_tokens(prompt)
        answer = self._admit(tokens, _sampling(sampling))
        return Stream(answer, self._texts(answer), self._drop)

    def generate_batch(self, prompts: Items[str], **sampling: object) -> list[Completion]:
        """The answers to several prompts, computed together. Each is the same as alone, bit for bit."""
        if isinstance(prompts, str):
            raise RequestError("a list is wanted", place="prompts", want="a list of strings", got="a string")
        asked = _sampling(sampling)
        answers: list[Answer] = []
        try:
            for index, prompt in enumerate(prompts):
                try:
                    answers.append(self._admit(self._prompt_tokens(prompt), asked))
                except RequestError as error:
                    raise error.at(f"prompts[{index}]") from None
        except BaseException:
            for answer in answers:
                self._drop(answer)
            raise
        return self._finish(answers)

    def logits(self, tokens: Items[int]) -> NDArray[np.float32]:
        """float32 [len(tokens), vocabulary]: the logits at every position. Raises RequestError."""
        out = np.empty((len(tokens), self.engine.vocabulary), np.float32)

        def take(first: int, rows: NDArray[np.float32]) -> None:
            out[first : first + len(rows)] = rows

        with self._lock:
            self.engine.logits(tokens, take)
        return out

    def _prompt_tokens(self, prompt: str) -> list[int]:
        if not isinstance(prompt, str):
            raise RequestError("text is wanted", place="prompt", want="a string", got=type(prompt).__name__)
        return self.tokenizer.encode(prompt, bos=self.tokenizer.adds_bos)

    def _chat_tokens(self, messages: Items[Message]) -> list[int]:
        if self.template is None:
            raise RequestError(
                "this model has no chat template", place="messages", hint="give it a prompt instead"
            )
        return conversation.encode(messages, self.template, self.tokenizer)

    def _admit(self, tokens: list[int], sampling: Sampling) -> Answer:
        with self._lock:
            answer = Answer(self.engine.add(tokens, sampling), self.tokenizer)
            self._answers[answer.sequence.number] = answer
        return answer

    def _drop(self, answer: Answer) -> None:
        """End an answer, whether it is whole or not."""
        with self._lock:
            self.engine.cancel(answer.sequence)
            self._answers.pop(answer.sequence.number, None)

    def _finish(self, answers: list[Answer]) -> list[Completion]:
        try:
            for answer in answers:
                for _ in self._texts(answer):
                    pass
        finally:
            for answer in answers:
                self._drop(answer)
        return [answer.completion() for answer in answers]

    def _texts(self, answer: Answer) -> Generator[str, None, None]:
        """An answer's text as it is made. Raises PrecisionOverflow when its values left their range. Leaving
        early ends the answer.
        """
        try:
            while True:
                while answer.texts:
                    yield answer.texts.popleft()
                if answer.reason:
                    break
                self._step(answer)
            if answer.sequence.error:
                raise answer.sequence.error
        finally:
            self._drop(answer)

    def _step(self, wanted: Answer) -> None:
        """One step for all answers, unless another thread's step has brought the wanted one on meanwhile."""
        with self._lock:
            if wanted.texts or wanted.reason:
                return
            self.engine.step()
            for answer in list(self._answers.values()):
                answer.read(self.engine.ends)
                if answer.reason:
                    self._drop(answer)


def _sampling(fields: Mapping[str, object]) -> Sampling:
    known = Sampling.__dataclass_fields__
    for name in fields:
        if name not in known:
            raise RequestError("no such field", place=name, want=", ".join(known), got=name)
    return Sampling(**fields)  # type: ignore[arg-type]


_models: weakref.WeakSet[LanguageModel] = weakref.WeakSet()


def _forget_locks() -> None:
    """In a child process after a fork: whoever held a lock did not come along."""
    for model in list(_models):
        model._lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_locks)
