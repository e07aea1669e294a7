"""Pieces of answers to what the protocol says: events of a stream, or one whole body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec import Struct

from assay.gateway.calls import Call, Reader
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
    """One answer so far, of which the client was `shown` so many tokens; it has `begun` with the first."""

    at: int = 0
    shown: int = 0
    text: str = ""
    reason: str = ""
    logprobs: list[list[Alternative]] = field(default_factory=list)
    begun: bool = False
    reader: Reader = field(default_factory=Reader)
    news: list[tuple[int, Call]] = field(default_factory=list)
    """What the last piece added to calls."""


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
        for state, at in zip(self.states, self.told, strict=True):
            state.shown, state.at = at, 0 if about.history else at
            state.begun = at > 0
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
        state.at, state.reason = piece.at, piece.reason
        state.text += piece.text
        state.logprobs += piece.logprobs
        self.cached = max(self.cached, piece.cached)
        if self.about.tools:
            state.news = state.reader.feed(piece.text)
        if piece.at <= self.told[index]:
            if not piece.reason:
                return b""
            state.news = []
            piece = Piece(piece.id, piece.choice, piece.at, [], "", piece.reason)  # the client has the rest
        shown = state.shown
        found = self.opening(state, piece)
        state.shown = max(shown, piece.at)
        found += self.events(index, state, piece)
        if found:
            state.begun = True
        else:
            state.shown = shown
        return found

    def opening(self, state: State, piece: Piece) -> bytes:
        """Events that come before those of a piece: a client that has them doesn't have the piece."""
        return b""

    def events(self, index: int, state: State, piece: Piece) -> bytes:
        """Events for a piece that the client doesn't have: one, if streams go on behind any of them."""
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
        return self.number() + b"data: " + refusal.encoded() + b"\n\n"

    def progress(self, done: int, total: int) -> bytes:
        """An event that says how much of a prompt is computed."""
        told = b',"choices":[],"progress":{"done":%d,"total":%d}}\n\n' % (done, total)
        return self.number() + self._head + told

    def number(self) -> bytes:
        """The id of an event: what the client has with it."""
        return f"id: {self.id}:{'.'.join([str(state.shown) for state in self.states])}\n".encode()

    def usage(self) -> Usage:
        """Counts of tokens."""
        prompt, new = sum(self.about.prompts), sum(state.at for state in self.states)
        return Usage(prompt, new, prompt + new, TokensDetails(self.cached))


class ChatRenderer(Renderer):
    """`/v1/chat/completions`."""

    kind = "chat.completion.chunk"

    def events(self, index: int, state: State, piece: Piece) -> bytes:
        """A delta."""
        parts = list[bytes]()
        if self.about.tools and not state.reader.text:
            made = [self._delta(index, *each) for each in state.news]
            parts += [b'"tool_calls":' + encode(made)] * bool(made)
        elif piece.text:
            parts.append(b'"content":' + encode(piece.text))
        if not (parts or piece.reason or piece.logprobs):
            return b""
        if not state.begun:
            parts.insert(0, b'"role":"assistant"' if parts else b'"role":"assistant","content":""')
        logs = reason = b"null"
        if self.about.logprobs:
            logs = encode(ChatLogprobs([_chat_logprob(each) for each in piece.logprobs]))
        if piece.reason:
            reason = encode(self._reason(state))
        head = self.number() + self._head + b',"choices":[{"index":%d,"delta":{' % index
        tail = b'},"logprobs":' + logs + b',"finish_reason":' + reason + b"}]}\n\n"
        return head + b",".join(parts) + tail

    def body(self) -> bytes:
        """All answers at once."""
        choices, about = [], self.about
        for index, state in enumerate(self.states):
            calls = [
                AnsweredCall(self._call(index, number), CalledFunction(call.name, call.arguments))
                for number, call in enumerate(state.reader.calls)
            ]
            message = AnsweredMessage(None if calls else state.text, tool_calls=calls or None)
            logs = ChatLogprobs([_chat_logprob(each) for each in state.logprobs]) if about.logprobs else None
            choices.append(ChatChoice(index, message, self._reason(state), logs))
        return encode(
            ChatCompletion(self.id, about.created, about.model, choices, self.usage(), about.fingerprint)
        )

    def _reason(self, state: State) -> str:
        return "tool_calls" if state.reader.calls and state.reason == "stop" else state.reason

    def _call(self, index: int, number: int) -> str:
        return f"call_{self.id[-24:]}{index}{number}"

    def _delta(self, index: int, number: int, call: Call) -> dict[str, object]:
        """Of a call: its beginning, or more of its arguments."""
        if not call.name:
            return {"index": number, "function": {"arguments": call.arguments}}
        begun = {"name": call.name, "arguments": ""}
        return {"index": number, "id": self._call(index, number), "type": "function", "function": begun}


class CompletionRenderer(Renderer):
    """`/v1/completions`."""

    kind = "text_completion"

    def events(self, index: int, state: State, piece: Piece) -> bytes:
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
