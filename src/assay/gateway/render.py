"""Pieces of answers to what the protocol says: events of a stream, or one whole body."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec import Struct

from assay.gateway.errors import Refusal
from assay.gateway.schema.answers import (
    AnsweredCall,
    AnsweredMessage,
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    ChatLogprobs,
    Completion,
    TextChoice,
    TextLogprobs,
    TokenLogprob,
    TokensDetails,
    TopLogprob,
    Usage,
)
from assay.serving.messages import Alternative, Piece

encode = msgspec.json.Encoder().encode
OPEN, CLOSE = "<tool_call>", "</tool_call>"
DONE = b"data: [DONE]\n\n"


class About(Struct, omit_defaults=True):
    """What the answer to a request looks like: kept with it, so that any gateway can go on with a stream.

    `prompts` are the tokens of each prompt, of which there may be several. `n` answers to each. `tools`:
    answers may be calls. `history`: what a token becomes depends on all before it.
    """

    kind: Literal["chat", "completion", "response"]
    model: str
    created: int
    fingerprint: str
    prompts: list[int]
    n: int = 1
    usage: bool = False
    progress: bool = False
    logprobs: bool = False
    tools: bool = False
    extra: bytes = b""

    @property
    def history(self) -> bool:
        """Whether a stream can only go on from its beginning."""
        return self.tools or self.logprobs or self.kind == "response"


@dataclass
class State:
    """One answer so far."""

    at: int = 0
    text: str = ""
    reason: str = ""
    logprobs: list[list[Alternative]] = field(default_factory=list)
    begun: bool = False


class Renderer:
    """Makes events and bodies. `told` says how many tokens of each answer the client has: no event tells them
    again.
    """

    kind = ""

    def __init__(self, id: str, about: About, told: Iterable[int] = ()) -> None:
        self.id, self.about = id, about
        count = about.n * len(about.prompts)
        self.states = [State() for _ in range(count)]
        self.told = [*told, *[0] * count][:count]
        if not about.history:
            for state, at in zip(self.states, self.told, strict=True):
                state.at = at
        self.cached = 0
        head = {
            "id": id, "object": self.kind, "created": about.created, "model": about.model,
            "system_fingerprint": about.fingerprint,
        }  # fmt: skip
        self._head = b"data: " + encode(head)[:-1]

    @property
    def done(self) -> bool:
        """Whether all answers are at their ends."""
        return all(state.reason for state in self.states)

    def take(self, index: int, piece: Piece) -> bytes:
        """Events for a piece of the answer of that index."""
        state = self.states[index]
        first, state.begun = not state.begun and not self.told[index], True
        state.at, state.reason = piece.at, piece.reason
        state.text += piece.text
        state.logprobs += piece.logprobs
        self.cached = max(self.cached, piece.cached)
        if piece.at <= self.told[index]:
            if not piece.reason:
                return b""
            piece = Piece(piece.id, piece.choice, piece.at, [], "", piece.reason)  # the client has the rest
        return self.events(index, state, piece, first)

    def events(self, index: int, state: State, piece: Piece, first: bool) -> bytes:
        """Events for a piece that the client doesn't have."""
        raise NotImplementedError

    def body(self) -> bytes:
        """All answers at once."""
        raise NotImplementedError

    def beginning(self) -> bytes:
        """What comes before anything is known."""
        return b""

    def ending(self) -> bytes:
        """What comes after all."""
        if not self.about.usage:
            return DONE
        usage = self._head + b',"choices":[],"usage":' + encode(self.usage()) + b"}\n\n"
        return self.number() + usage + DONE

    def failure(self, refusal: Refusal) -> bytes:
        """An event for what went wrong amid the stream."""
        return b"data: " + refusal.encoded() + b"\n\n"

    def progress(self, done: int, total: int) -> bytes:
        """An event that says how much of a prompt is computed."""
        return self._head + b',"choices":[],"progress":{"done":%d,"total":%d}}\n\n' % (done, total)

    def number(self, before: int | None = None) -> bytes:
        """The id of an event: what is told after it, but for the piece of the answer `before`."""
        ats = [max(state.at, told) for state, told in zip(self.states, self.told, strict=True)]
        if before is not None:
            ats[before] = self.told[before]
        return f"id: {self.id}:{'.'.join(map(str, ats))}\n".encode()

    def usage(self) -> Usage:
        """Counts of tokens."""
        prompt, new = sum(self.about.prompts), sum(state.at for state in self.states)
        return Usage(prompt, new, prompt + new, TokensDetails(self.cached))


class ChatRenderer(Renderer):
    """`/v1/chat/completions`."""

    kind = "chat.completion.chunk"

    def events(self, index: int, state: State, piece: Piece, first: bool) -> bytes:
        """A delta for the text, and one for the end."""
        head = self.number() + self._head + b',"choices":[{"index":%d,"delta":' % index
        found = b""
        if first:
            opening = b'{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
            found = self.number(index) + head[head.index(b"data:") :] + opening
        calls = self._calls(index, state) if state.reason else None
        if self.about.tools:
            # What it is to be is known at the end, or when it doesn't begin like a call.
            text = "" if calls or OPEN.startswith(state.text[: len(OPEN)].strip()) else piece.text
            if text and state.text != text and OPEN.startswith(state.text[: -len(text)][: len(OPEN)].strip()):
                text = state.text
        else:
            text = piece.text
        if text or piece.logprobs:
            logs = b"null"
            if self.about.logprobs:
                logs = encode(ChatLogprobs([_chat_logprob(each) for each in piece.logprobs]))
            delta = b'{"content":' + encode(text) + b'},"logprobs":' + logs + b',"finish_reason":null}]}\n\n'
            found += head + delta
        if calls:
            made = [{"index": n, **msgspec.to_builtins(call)} for n, call in enumerate(calls)]
            found += (
                head + b'{"tool_calls":' + encode(made) + b'},"logprobs":null,"finish_reason":null}]}\n\n'
            )
        if state.reason:
            reason = encode("tool_calls" if calls else state.reason)
            found += head + b'{},"logprobs":null,"finish_reason":' + reason + b"}]}\n\n"
        return found

    def body(self) -> bytes:
        """All answers at once."""
        choices = []
        for index, state in enumerate(self.states):
            calls = self._calls(index, state)
            message = AnsweredMessage(None if calls else state.text, tool_calls=calls)
            logs = (
                ChatLogprobs([_chat_logprob(each) for each in state.logprobs])
                if self.about.logprobs
                else None
            )
            choices.append(ChatChoice(index, message, "tool_calls" if calls else state.reason, logs))
        about = self.about
        return encode(
            ChatCompletion(self.id, about.created, about.model, choices, self.usage(), about.fingerprint)
        )

    def _calls(self, index: int, state: State) -> list[AnsweredCall] | None:
        found = calls(state.text) if self.about.tools else []
        return [
            AnsweredCall(f"call_{self.id[-24:]}{index}{number}", CalledFunction(name, arguments))
            for number, (name, arguments) in enumerate(found)
        ] or None


class CompletionRenderer(Renderer):
    """`/v1/completions`."""

    kind = "text_completion"

    def events(self, index: int, state: State, piece: Piece, first: bool) -> bytes:
        """One event, for text and end."""
        if not (piece.text or piece.reason or piece.logprobs):
            return b""
        logs = b"null"
        if self.about.logprobs:
            logs = encode(_text_logprobs(piece.logprobs, len(state.text) - len(piece.text)))
        head = self.number() + self._head + b',"choices":[{"index":%d,"text":' % index
        reason = encode(state.reason) if state.reason else b"null"
        return head + encode(piece.text) + b',"logprobs":' + logs + b',"finish_reason":' + reason + b"}]}\n\n"

    def body(self) -> bytes:
        """All answers at once."""
        about = self.about
        choices = [
            TextChoice(index, s.text, s.reason, _text_logprobs(s.logprobs, 0) if about.logprobs else None)
            for index, s in enumerate(self.states)
        ]
        return encode(
            Completion(self.id, about.created, about.model, choices, self.usage(), about.fingerprint)
        )


def calls(text: str) -> list[tuple[str, str]]:
    """The calls that an answer is, as (name, arguments in JSON); none where it is another text."""
    found = []
    text = text.strip()
    parts = text.split(OPEN)[1:] if text.startswith(OPEN) else [text]
    for part in parts:
        with suppress(ValueError, KeyError, TypeError):
            call = json.loads(part.partition(CLOSE)[0])
            found.append((str(call["name"]), json.dumps(call["arguments"], ensure_ascii=False)))
    return found


def _chat_logprob(told: list[Alternative]) -> TokenLogprob:
    (spelled, _, logprob), *others = told
    top = [TopLogprob(each.decode("utf-8", "replace"), value, list(each)) for each, _, value in others]
    return TokenLogprob(spelled.decode("utf-8", "replace"), logprob, list(spelled), top)


def _text_logprobs(told: list[list[Alternative]], offset: int) -> TextLogprobs:
    found = TextLogprobs([], [], [], [])
    for (spelled, _, logprob), *others in told:
        token = spelled.decode("utf-8", "replace")
        found.tokens.append(token)
        found.token_logprobs.append(logprob)
        found.top_logprobs.append({each.decode("utf-8", "replace"): value for each, _, value in others})
        found.text_offset.append(offset)
        offset += len(token)
    return found
