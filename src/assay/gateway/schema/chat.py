"""`/v1/chat/completions`: what is asked."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.gateway.schema.body import Body, SamplingBody, StreamOptions

Json = dict[str, Annotated[object, Meta(extra_json_schema={"description": "any value"})]]


class TextPart(Body):
    """A piece of a message."""

    text: str
    type: Literal["text"]


class Function(Body):
    """What a model may call: `parameters` is a JSON schema."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class Tool(Body):
    """Something to be called."""

    function: Function
    type: Literal["function"]


class Called(Body):
    """What a model called, and the arguments as JSON."""

    name: str
    arguments: str


class ToolCall(Body):
    """A call in an earlier answer."""

    id: str
    function: Called
    type: Literal["function"] = "function"


class ChosenFunction(Body):
    """By its name."""

    name: str


class Choice(Body):
    """This one must be called."""

    function: ChosenFunction
    type: Literal["function"]


class Message(Body):
    """What was said. An assistant's may have `tool_calls`; a tool's answer says which call it is to."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: list[Json] | None = None


class Schema(Body):
    """A JSON schema that the answer is held to."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    schema: Json
    description: str | None = None
    strict: bool | None = None


class AsText(Body, tag_field="type", tag="text"):
    """Any text."""


class AsObject(Body, tag_field="type", tag="json_object"):
    """Any JSON object."""


class AsSchema(Body, tag_field="type", tag="json_schema"):
    """JSON of a schema."""

    json_schema: Schema


Format = AsText | AsObject | AsSchema


class ChatRequest(SamplingBody, kw_only=True):
    """A conversation, and how it is to be continued."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=4096)]
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    stream_options: StreamOptions | None = None
    response_format: Format | None = None
    tools: Annotated[list[Tool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | Choice | None = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, str] | None = None
    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None
    modalities: Annotated[list[Literal["text"]], Meta(max_length=1)] | None = None


def plain(messages: list[Message]) -> bytes:
    """The messages as chat templates know them, in JSON."""
    found = []
    for message in messages:
        content = message.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        each: dict[str, object] = {"role": message.role, "content": content or ""}
        if message.tool_calls:
            each["tool_calls"] = message.tool_calls
        if message.tool_call_id is not None:
            each["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            each["name"] = message.name
        found.append(each)
    return msgspec.json.encode(found)
