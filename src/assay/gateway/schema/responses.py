"""`/v1/responses`: what is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from assay.gateway.schema.body import Body, Name
from assay.gateway.schema.chat import (
    Called,
    Choice,
    ChosenFunction,
    Function,
    Json,
    Message,
    TextPart,
    Tool,
    ToolCall,
)


class InputText(Body, tag_field="type", tag="input_text"):
    """What was said."""

    text: str


class OutputText(Body, tag_field="type", tag="output_text"):
    """What was answered."""

    text: str
    annotations: list[Json] | None = None
    logprobs: list[Json] | None = None


class Said(Body, tag_field="type", tag="message"):
    """A message."""

    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[InputText | OutputText]
    id: str | None = None
    status: str | None = None


class FunctionCall(Body, tag_field="type", tag="function_call"):
    """A call in an earlier answer."""

    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class FunctionOutput(Body, tag_field="type", tag="function_call_output"):
    """What it gave."""

    call_id: str
    output: str
    id: str | None = None
    status: str | None = None


Item = Said | FunctionCall | FunctionOutput


class EasyMessage(Body):
    """A message without a type."""

    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[InputText | OutputText]


class FlatTool(Body):
    """Something to be called."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    type: Literal["function"]
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class FlatChoice(Body):
    """This one must be called."""

    name: str
    type: Literal["function"]


class PlainFormat(Body, tag_field="type", tag="text"):
    """Any text."""


class ObjectFormat(Body, tag_field="type", tag="json_object"):
    """Any JSON object."""


class SchemaFormat(Body, tag_field="type", tag="json_schema"):
    """JSON of a schema."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    schema: Json
    description: str | None = None
    strict: bool | None = None


class TextOptions(Body):
    """What the text is to be."""

    format: PlainFormat | ObjectFormat | SchemaFormat | None = None
    verbosity: None = None


class ResponseRequest(Body, kw_only=True):
    """An input, or the next one after an earlier response. `background`: it goes on when nobody listens."""

    model: Name
    input: str | Annotated[list[Json], Meta(min_length=1, max_length=4096)]
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = 1.0
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool | None = False
    background: bool | None = False
    store: bool | None = True
    metadata: dict[str, str] | None = None
    tools: Annotated[list[FlatTool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | FlatChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    timeout: Annotated[float, Meta(gt=0, le=86400)] | None = None
    truncation: Literal["disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None
    include: Annotated[list[str], Meta(max_length=0)] | None = None
    reasoning: None = None


def tools(request: ResponseRequest) -> list[Tool] | None:
    """The tools as `/v1/chat/completions` has them."""
    return [
        Tool(
            function=Function(name=t.name, description=t.description, parameters=t.parameters),
            type="function",
        )
        for t in request.tools or []
    ] or None


def choice(request: ResponseRequest) -> Literal["none", "auto", "required"] | Choice | None:
    """Which must be called."""
    given = request.tool_choice
    if isinstance(given, FlatChoice):
        return Choice(function=ChosenFunction(name=given.name), type="function")
    return given


def message(item: Item | EasyMessage) -> Message:
    """An item as a message of a conversation."""
    if isinstance(item, FunctionCall):
        call = ToolCall(id=item.call_id, function=Called(name=item.name, arguments=item.arguments))
        return Message(role="assistant", tool_calls=[call])
    if isinstance(item, FunctionOutput):
        return Message(role="tool", content=item.output, tool_call_id=item.call_id)
    content = item.content
    if isinstance(content, list):
        return Message(role=item.role, content=[TextPart(text=part.text, type="text") for part in content])
    return Message(role=item.role, content=content)
