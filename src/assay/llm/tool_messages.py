"""Tools in a conversation: for templates that know of them as these want it, for others in words.

In words they are told as the Hermes models were trained with: in the system's message, calls between
<tool_call> and </tool_call>, what a tool gave between <tool_response> and </tool_response>.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from assay.errors import RequestError
from assay.llm.fields import refused, text

Json = Mapping[str, object]
OPEN, CLOSE = "<tool_call>", "</tool_call>"
MORE = {"assistant": ("tool_calls",), "tool": ("tool_call_id", "name")}
"""Fields of messages beside role and content, by role."""
_TOLD = """\
You may call functions. They are, one a line, as JSON:
<tools>
{tools}
</tools>
To call one, answer with nothing but its name and arguments as JSON, like this:
<tool_call>
{{"name": "function's name", "arguments": {{"argument's name": "value"}}}}
</tool_call>"""


def checked_calls(message: Json, place: str) -> list[dict[str, object]]:
    """The calls of a message, arguments as objects. Raises RequestError naming the field."""
    given = message["tool_calls"]
    if message.get("role") != "assistant" or not isinstance(given, list) or not given:
        raise refused(f"{place}.tool_calls", "calls, of an assistant's message", given)
    found = list[dict[str, object]]()
    for number, call in enumerate(given):
        at = f"{place}.tool_calls[{number}].function"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise refused(at, "a name and arguments", function)
        arguments = function.get("arguments", {})
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                arguments = None
        if not isinstance(arguments, dict):
            raise refused(f"{at}.arguments", "an object, or one as JSON", function.get("arguments"))
        name = text(f"{at}.name", function.get("name"))
        id = text(f"{place}.tool_calls[{number}].id", call.get("id", ""))
        found.append({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    return found


def in_words(messages: Sequence[Json], tools: Sequence[Json]) -> list[Json]:
    """The conversation for a template that knows nothing of tools."""
    found: list[Json] = []
    for message in messages:
        content = str(message["content"])
        if message.get("tool_calls"):
            parts = [content] * bool(content)
            for call in message["tool_calls"]:  # type: ignore[attr-defined]
                parts.append(f"{OPEN}\n{json.dumps(call['function'], ensure_ascii=False)}\n{CLOSE}")
            content = "\n".join(parts)
        role = message["role"]
        if role == "tool":
            role, content = "user", f"<tool_response>\n{content}\n</tool_response>"
        found.append({"role": role, "content": content})
    if tools:
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        told = _TOLD.format(tools=lines)
        if found[0]["role"] == "system":
            found[0] = {"role": "system", "content": f"{found[0]['content']}\n\n{told}"}
        else:
            found.insert(0, {"role": "system", "content": told})
    return found


def checked_tools(tools: object) -> list[dict[str, object]]:
    """Raises RequestError for what isn't a list of objects."""
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RequestError("tools are objects", place="tools", want="a list of objects")
    return tools
