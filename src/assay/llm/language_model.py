"""A language model as callers see it: text in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError, near, within
from assay.formats.output import writing
from assay.graph.graph import Graph
from assay.llm import conversation, fields, session
from assay.llm.answer import Answer, Completion
from assay.llm.engine import Engine
from assay.llm.identity import Identity
from assay.llm.loaded import Loaded
from assay.llm.request import Sampling, SamplingFields
from assay.llm.template import ChatTemplate, Message
from assay.llm.tokenizer import Tokenizer


class Stream(Iterator[str]):
    """An answer's text, piece by piece, never half a character. Made by `LanguageModel.stream`."""

    def __init__(self, model: LanguageModel, answer: Answer) -> None:
        self._model = model
        self._answer = answer

    def __next__(self) -> str:
        text = self._model._next(self._answer)
        if text is None:
            raise StopIteration
        return text

    def close(self) -> None:
        """End the answer here. Dropping the stream does the same."""
        self._model._drop(self._answer)
        self._answer.texts.clear()

    __del__ = close

    @property
    def completion(self) -> Completion:
        """The answer so far; the whole one once the stream is at its end."""
        return self._answer.completion()


class LanguageModel(Loaded):
    """Made by `assay.load`. Threads may share it: their answers are computed together, in the same steps.

    `close`, or leaving a `with` block, ends what is running and lets the threads go.
    """

    def __init__(
        self,
        graph: Graph,
        engine: Engine,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        details: Mapping[str, object],
        identity: Identity,
    ) -> None:
        super().__init__(graph, engine.executor.device, engine.context, details)
        self.engine = engine
        self.tokenizer = tokenizer
        self.template = template
        self.identity = identity
        self._answers: dict[int, Answer] = {}
        self._amid = False
        """Whether the thread that holds the lock is in the books, the engine's or an answer's."""
        self._dropped: list[Answer] = []

    def close(self) -> None:
        """End all answers and the team's threads. A call that comes later starts the threads again."""
        with self._lock:
            for answer in list(self._answers.values()):
                self._drop(answer)
            super().close()

    def generate(self, prompt: str, **sampling: Unpack[SamplingFields]) -> Completion:
        """The answer to a prompt. Keywords are the fields of `Sampling`; with `n`, `choices` has all answers.
        Raises RequestError.
        """
        return self._finish([self._admit(self._prompt_tokens(prompt), _sampling(sampling))])[0]

    def chat(self, messages: Items[Message], **sampling: Unpack[SamplingFields]) -> Completion:
        """The answer to a conversation of {"role", "content"} messages, through the model's chat template."""
        return self._finish([self._admit(self._chat_tokens(messages), _sampling(sampling))])[0]

    def stream(self, prompt: str | Items[Message], **sampling: Unpack[SamplingFields]) -> Stream:
        """The answer to a prompt or to a conversation, while it is made. Raises RequestError."""
        asked = _sampling(sampling)
        if asked.n > 1:
            raise RequestError("a stream is of one answer", place="n", want="1", got=str(asked.n))
        return Stream(self, self._admit(self._tokens(prompt), asked))

    def generate_batch(self, prompts: Items[str], **sampling: Unpack[SamplingFields]) -> list[Completion]:
        """The answers to several prompts, computed together. Each is the same as alone, bit for bit."""
        if not isinstance(prompts, list | tuple):
            got = type(prompts).__name__
            raise RequestError("a list is wanted", place="prompts", want="a list of strings", got=got)
        asked = _sampling(sampling)
        answers: list[Answer] = []
        try:
            for index, prompt in enumerate(prompts):
                try:
                    answers.append(self._admit(self._prompt_tokens(prompt), asked))
                except RequestError as error:
                    raise error.at(f"prompts[{index}]") from None
            return self._finish(answers)
        finally:
            self._drop_all(answers)

    def logits(self, tokens: Items[int], adapter: str | None = None) -> NDArray[np.float32]:
        """float32 [len(tokens), vocabulary]: the logits at every position. Raises RequestError."""
        with self._engine_alone() as engine:
            return engine.output("logits", tokens, adapter)

    def hidden_states(self, tokens: Items[int], adapter: str | None = None) -> NDArray[np.float32]:
        """float32 [len(tokens), hidden]: what the logits are a linear map of. Raises RequestError."""
        with self._engine_alone() as engine:
            return engine.output("final", tokens, adapter)

    def save_session(self, path: str | Path, prompt: str | Items[Message], adapter: str | None = None) -> int:
        """Compute a prompt or a conversation, as far as that isn't done, and write what the cache holds of it
        to a file; the number of its tokens. Raises RequestError or FormatError.
        """
        with writing(path, "path", replace=True) as file:
            tokens = self._tokens(prompt)
            self._finish([self._admit(tokens, Sampling(max_tokens=1, adapter=adapter))])
            with self._engine_alone() as engine:
                return session.save(file, engine, tokens, self.identity, adapter)

    def restore_session(self, path: str | Path) -> int:
        """Take a file of `save_session` into the cache: prompts that begin like its own compute only the
        rest. The number of its tokens. Raises FormatError when it was made by another model, with other
        options or another version of numerics, or when it is damaged; RequestError where it isn't there, or
        the cache has no room for it.
        """
        with self._engine_alone() as engine:
            return session.restore(path, engine, self.identity)

    def _tokens(self, prompt: str | Items[Message]) -> list[int]:
        return self._prompt_tokens(prompt) if isinstance(prompt, str) else self._chat_tokens(prompt)

    def _prompt_tokens(self, prompt: str) -> list[int]:
        fields.text(
            "prompt", prompt, hint="chat() takes messages" if isinstance(prompt, list | tuple) else ""
        )
        bos, eos = self.tokenizer.adds_bos, self.tokenizer.adds_eos
        with within("prompt"):
            return self.tokenizer.encode(prompt, bos=bos, eos=eos, most=self.context)

    def _chat_tokens(self, messages: Items[Message]) -> list[int]:
        if self.template is None:
            raise RequestError(
                "this model has no chat template", place="messages", hint="give it a prompt instead"
            )
        return conversation.encode(messages, self.template, self.tokenizer, self.context)

    def _admit(self, tokens: list[int], sampling: Sampling) -> Answer:
        with self._engine_alone() as engine:
            answer = Answer(engine.add(tokens, sampling), self.tokenizer)
            self._answers |= {each.sequence.number: each for each in (answer, *answer.others)}
        return answer

    @contextmanager
    def _engine_alone(self) -> Iterator[Engine]:
        """The engine, for this thread, and the answers' books. The collector may drop a stream meanwhile, in
        this very thread: that answer is ended afterwards.
        """
        with self._lock:
            self._amid = True
            try:
                yield self.engine
            finally:
                self._amid = False
                while self._dropped:
                    self._drop(self._dropped.pop())

    def _drop(self, answer: Answer) -> None:
        """End an answer, whether it is whole or not."""
        with self._lock:
            if self._amid:
                self._dropped.append(answer)
                return
            with self._engine_alone() as engine:
                engine.cancel(answer.sequence)
                answer.read(engine.ends)
            self._answers.pop(answer.sequence.number, None)

    def _drop_all(self, answers: Items[Answer]) -> None:
        for answer in answers:
            for each in (answer, *answer.others):
                self._drop(each)

    def _finish(self, answers: list[Answer]) -> list[Completion]:
        try:
            for answer in answers:
                for each in (answer, *answer.others):
                    while self._next(each) is not None:
                        pass
        finally:
            self._drop_all(answers)
        return [answer.completion() for answer in answers]

    def _next(self, answer: Answer) -> str | None:
        """The next piece of an answer's text; None at its end. Raises PrecisionOverflow when its values left
        their range.
        """
        while not answer.texts:
            if answer.sequence.error:
                raise answer.sequence.error
            if answer.reason:
                return None
            self._step(answer)
        return answer.texts.popleft()

    def _step(self, wanted: Answer) -> None:
        """One step for all answers, unless another thread's step has brought the wanted one on meanwhile."""
        with self._lock:
            if wanted.texts or wanted.reason:
                return
            with self._engine_alone() as engine:
                engine.step()
                for answer in self._answers.values():
                    answer.read(engine.ends)
            for answer in list(self._answers.values()):
                if answer.reason:
                    self._drop(answer)


def _sampling(fields: SamplingFields) -> Sampling:
    known = Sampling.__dataclass_fields__
    for name in fields:
        if name not in known:
            want, hint = ", ".join(known), near(name, known)
            raise RequestError("no such field", place=name, want=want, got=name, hint=hint)
    return Sampling(**fields)
