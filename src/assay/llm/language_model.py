"""A language model as callers see it: text in, text out."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.graph.graph import Graph
from assay.llm import conversation
from assay.llm.detokenizer import Detokenizer
from assay.llm.engine import Engine
from assay.llm.request import Sampling
from assay.llm.sequence import Sequence
from assay.llm.stops import StopStrings
from assay.llm.template import ChatTemplate, Message
from assay.llm.tokenizer import Tokenizer


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompt and of the answer."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Timings:
    """Seconds from the request to the first token, and to the last."""

    first_token: float
    total: float

    def tokens_per_second(self, completion_tokens: int) -> float:
        """New tokens for each second after the first one."""
        spent = self.total - self.first_token
        return (completion_tokens - 1) / spent if spent > 0 else 0.0


@dataclass(frozen=True)
class Completion:
    """An answer. `finish_reason` is "stop" (an end token or a stop string), "length", or "cancelled"."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    usage: Usage
    timings: Timings
    seed: int
    logprobs: tuple[float, ...]


@dataclass
class _Answer:
    """One request while it is answered."""

    sequence: Sequence
    detokenizer: Detokenizer
    stops: StopStrings
    began: float
    first: float = 0.0
    last: float = 0.0
    reason: str = ""
    pieces: list[str] = field(default_factory=list)

    def emit(self, text: str) -> str:
        if text:
            self.pieces.append(text)
        return text

    def completion(self) -> Completion:
        sequence = self.sequence
        first = self.first or self.began
        tokens = tuple(sequence.tokens[sequence.prompt_length :])
        return Completion(
            text="".join(self.pieces),
            tokens=tokens,
            finish_reason=self.reason or "cancelled",
            usage=Usage(sequence.prompt_length, sequence.drawn),
            timings=Timings(first - self.began, max(first, self.last) - self.began),
            seed=sequence.seed,
            logprobs=tuple(sequence.logprobs),
        )


class Stream(Iterator[str]):
    """An answer's text, piece by piece, never half a character. Made by `LanguageModel.stream`."""

    def __init__(self, answer: _Answer, texts: Generator[str, None, None], engine: Engine) -> None:
        self._answer = answer
        self._texts = texts
        self._engine = engine

    def __next__(self) -> str:
        return next(self._texts)

    def close(self) -> None:
        """End the answer here. Dropping the stream does the same."""
        self._texts.close()
        self._engine.cancel(self._answer.sequence)

    __del__ = close

    @property
    def completion(self) -> Completion:
        """The answer so far; the whole one once the stream is at its end."""
        return self._answer.completion()


class LanguageModel:
    """Made by `assay.load`. Not thread-safe: one call at a time."""

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
        return Stream(answer, self._texts(answer), self.engine)

    def generate_batch(self, prompts: Items[str], **sampling: object) -> list[Completion]:
        """The answers to several prompts, computed together. Each is the same as alone, bit for bit."""
        if isinstance(prompts, str):
            raise RequestError("a list is wanted", place="prompts", want="a list of strings", got="a string")
        asked = _sampling(sampling)
        answers: list[_Answer] = []
        try:
            for index, prompt in enumerate(prompts):
                try:
                    answers.append(self._admit(self._prompt_tokens(prompt), asked))
                except RequestError as error:
                    raise error.at(f"prompts[{index}]") from None
        except RequestError:
            for answer in answers:
                self.engine.cancel(answer.sequence)
            raise
        return self._finish(answers)

    def logits(self, tokens: Items[int]) -> NDArray[np.float32]:
        """float32 [len(tokens), vocabulary]: the logits at every position. Raises RequestError."""
        out = np.empty((len(tokens), self.engine.vocabulary), np.float32)

        def take(first: int, rows: NDArray[np.float32]) -> None:
            out[first : first + len(rows)] = rows

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

    def _admit(self, tokens: list[int], sampling: Sampling) -> _Answer:
        stops = StopStrings(sampling.stop)
        sequence = self.engine.add(tokens, sampling)
        return _Answer(sequence, Detokenizer(self.tokenizer), stops, time.perf_counter())

    def _finish(self, answers: list[_Answer]) -> list[Completion]:
        for _ in self._run(answers):
            pass
        return [answer.completion() for answer in answers]

    def _texts(self, answer: _Answer) -> Generator[str, None, None]:
        for _, text in self._run([answer]):
            if text:
                yield text

    def _run(self, answers: list[_Answer]) -> Iterator[tuple[_Answer, str]]:
        """Step until all answers are finished; each drawn token's answer and text. Leaving early cancels what
        is left.
        """
        by_number = {answer.sequence.number: answer for answer in answers}
        left = len(answers)
        try:
            while left:
                for drawn in self.engine.step():
                    answer = by_number.get(drawn.sequence.number)
                    if answer is None:
                        continue
                    text = self._advance(answer, drawn.token)
                    left -= bool(answer.reason)
                    yield answer, text
        finally:
            for answer in answers:
                self.engine.cancel(answer.sequence)

    def _advance(self, answer: _Answer, token: int) -> str:
        """Account for a drawn token: the text that it completes, and whether it ends the answer."""
        answer.last = time.perf_counter()
        answer.first = answer.first or answer.last
        sequence = answer.sequence
        text = ""
        if token in self.tokenizer.eos_ids:
            answer.reason = "stop"
        else:
            text, stopped = answer.stops.push(answer.detokenizer.push(token))
            if stopped:
                answer.reason = "stop"
            elif sequence.drawn == sequence.limit:
                answer.reason = "length"
        if answer.reason:
            self.engine.cancel(sequence)
            if not answer.stops.stopped:
                rest, _ = answer.stops.push(answer.detokenizer.finish())
                text += rest + answer.stops.finish()
        return answer.emit(text)


def _sampling(fields: Mapping[str, object]) -> Sampling:
    known = Sampling.__dataclass_fields__
    for name in fields:
        if name not in known:
            raise RequestError("no such field", place=name, want=", ".join(known), got=name)
    return Sampling(**fields)  # type: ignore[arg-type]
