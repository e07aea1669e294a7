"""What `/v1/responses` answers with: an object with items, or events that build it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from assay.gateway.errors import Refusal
from assay.gateway.render import Renderer, State, encode
from assay.gateway.schema.chat import Message
from assay.serving.messages import Piece

RUNNING = "in_progress"
FIRST = 4
"""Events before the text have numbers 0 to 3; a piece after which `at` tokens are told has FIRST + at."""


class Echo(Struct, omit_defaults=True):
    """What of the request is told again, and the conversation for the next one."""

    messages: list[Message]
    instructions: str | None = None
    previous_response_id: str | None = None
    metadata: dict[str, str] = {}
    background: bool = False
    store: bool = True
    max_output_tokens: int | None = None
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    tools: list[dict[str, object]] = []
    tool_choice: str | dict[str, object] = "auto"
    parallel_tool_calls: bool = True
    text: dict[str, object] = {}
    user: str | None = None


class ResponseRenderer(Renderer):
    """One answer."""

    kind = "response"
    after = -1
    """The client has the events up to this number."""

    @property
    def echo(self) -> Echo:
        """What the request was."""
        return msgspec.msgpack.decode(self.about.extra, type=Echo)

    def beginning(self) -> bytes:
        """The first events, for a client that has none."""
        if self.told[0]:
            return b""
        nothing = self.response(RUNNING) | {"output": [], "usage": None}  # whatever has come meanwhile
        return self._event("response.created", 0, response=nothing) + self._event(
            "response.in_progress", 1, response=nothing
        )

    def opening(self, state: State, piece: Piece) -> bytes:
        """The message, and its text, begin."""
        if state.begun or self._whole(state) or not (piece.text or piece.reason):
            return b""
        item = {"id": self._item, "type": "message", "role": "assistant", "status": RUNNING, "content": []}
        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        return self._event("response.output_item.added", 2, output_index=0, item=item) + self._event(
            "response.content_part.added", 3, part=_part(""), **place
        )

    def events(self, index: int, state: State, piece: Piece) -> bytes:
        """A delta; at the end all that closes the items."""
        found = b""
        if piece.text and not self._whole(state):
            found = self._event(
                "response.output_text.delta", FIRST + state.at, item_id=self._item, output_index=0,
                content_index=0, delta=piece.text, logprobs=[],
            )  # fmt: skip
        return found + (self._closing(state) if state.reason else b"")

    def ending(self) -> bytes:
        """All was said by the last event."""
        return b""

    def body(self) -> bytes:
        """The response."""
        return encode(self.response())

    def failure(self, refusal: Refusal) -> bytes:
        """An event for what went wrong amid the stream."""
        return self._event("error", FIRST + self.states[0].at, code=refusal.body.code or refusal.body.type,
                           message=refusal.body.message, param=refusal.body.param)  # fmt: skip

    def response(self, status: str = "") -> dict[str, object]:
        """The whole object, as far as it is known."""
        state, echo, about = self.states[0], self.echo, self.about
        ends = {"": RUNNING, "length": "incomplete", "cancelled": "cancelled"}
        status = status or ends.get(state.reason, "completed")
        usage = self.usage()
        counts = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": self.cached},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.total_tokens,
        }
        told = {name: value for name, value in msgspec.structs.asdict(echo).items() if name != "messages"}
        return {
            **told,
            "id": self.id,
            "object": "response",
            "created_at": about.created,
            "model": about.model,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": self._output(status) if state.text or state.reason else [],
            "text": echo.text or {"format": {"type": "text"}},
            "truncation": "disabled",
            "usage": counts if state.reason else None,
        }

    def call(self, number: int) -> str:
        """The id of a call."""
        return f"call_{self.id[-24:]}0{number}"

    def _whole(self, state: State) -> bool:
        """Whether the answer is calls: they are told when they are whole."""
        return self.about.tools and not state.reader.text and bool(state.text)

    @property
    def _item(self) -> str:
        return f"msg_{self.id[-32:]}"

    def _output(self, status: str) -> list[dict[str, object]]:
        state = self.states[0]
        made = state.reader.calls if state.reason else []
        if not made:
            ended = "completed" if status == "completed" else "incomplete" if state.reason else RUNNING
            item = {"id": self._item, "type": "message", "role": "assistant", "status": ended}
            return [item | {"content": [_part(state.text)]}]
        return [
            {
                "id": f"fc_{self.id[-32:]}{number}",
                "type": "function_call",
                "status": "completed",
                "call_id": self.call(number),
                "name": call.name,
                "arguments": call.arguments,
            }
            for number, call in enumerate(made)
        ]

    def _closing(self, state: State) -> bytes:
        number, found = FIRST + state.at + 1, b""
        response = self.response()
        output = self._output(str(response["status"]))
        for index, item in enumerate(output):
            place = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                done = {"text": state.text, "logprobs": [], "content_index": 0}
                found += self._event("response.output_text.done", number, **place, **done)
                part = {"part": _part(state.text), "content_index": 0}
                found += self._event("response.content_part.done", number + 1, **place, **part)
            else:
                opened = item | {"status": RUNNING, "arguments": ""}
                found += self._event("response.output_item.added", number, output_index=index, item=opened)
                kind, called = "response.function_call_arguments", {"arguments": item["arguments"]}
                found += self._event(f"{kind}.delta", number + 1, **place, delta=item["arguments"])
                found += self._event(f"{kind}.done", number + 2, **place, **called, name=item["name"])
            found += self._event("response.output_item.done", number + 3, output_index=index, item=item)
            number += 4
        status = response["status"]
        kind = "incomplete" if status == "incomplete" else "completed"
        return found + self._event(f"response.{kind}", number, response=response)

    def _event(self, kind: str, number: int, **fields: object) -> bytes:
        if number <= self.after:
            return b""
        data = encode({"type": kind, "sequence_number": number, **fields})
        return self.number() + f"event: {kind}\n".encode() + b"data: " + data + b"\n\n"


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
