"""Tools that a model may call: told to it in the prompt, and answers held to calls of them."""

from __future__ import annotations

import msgspec

from assay.gateway.calls import grammar
from assay.gateway.errors import Refusal
from assay.gateway.schema.chat import AsText, ChatRequest, Choice


def asked(body: ChatRequest) -> bool:
    """Whether the answer may be calls."""
    return bool(body.tools) and body.tool_choice != "none"


def told(body: ChatRequest) -> bytes:
    """The tools as templates know them, in JSON; empty for none."""
    return msgspec.json.encode(body.tools) if body.tools and asked(body) else b""


def constraint(body: ChatRequest) -> dict[str, object]:
    """The field of `Sampling` that holds an answer to calls. Raises Refusal."""
    choice, given = body.tool_choice, body.tools or []
    if choice not in (None, "none") and not given:
        raise Refusal(400, "tool_choice: only with tools", param="tool_choice")
    names = [tool.function.name for tool in given]
    if len({*names}) < len(names):
        raise Refusal(400, "tools: each name once", param="tools")
    if not asked(body):
        return {}
    if body.response_format and not isinstance(body.response_format, AsText):
        raise Refusal(400, "response_format: not beside tools", param="response_format")
    if isinstance(choice, Choice):
        if choice.function.name not in names:
            text = f"tool_choice.function.name: no such tool; there are {', '.join(names)}"
            raise Refusal(400, text, param="tool_choice.function.name")
        given = [tool for tool in given if tool.function.name == choice.function.name]
    told = [(tool.function.name, tool.function.parameters) for tool in given]
    return {"grammar": grammar(told, choice in (None, "auto"), body.parallel_tool_calls is not False)}
