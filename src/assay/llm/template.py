"""Messages of a conversation to the text that the model continues."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

from assay.errors import AssayError, FormatError, RequestError
from assay.llm.fields import refused, text
from assay.llm.tool_messages import MORE, checked_calls

LONGEST_SOURCE = 1 << 16  # characters of a template
# What a template may do and make, in characters; a loop step is 16 of them (see sandbox.py).
_BUDGET, _BUDGET_PER_MESSAGE, _BUDGET_PER_CHARACTER = 1 << 22, 1 << 12, 32

Message = Mapping[str, object]
ROLES = ("system", "developer", "user", "assistant", "tool")

_PROBE: list[Message] = [
    {"role": "user", "content": "Is this a probe?"},
    {"role": "assistant", "content": "It is."},
    {"role": "user", "content": "Thank you."},
]


class ChatTemplate:
    """A model's own jinja2 template, sandboxed and metered: it ends soon and in little memory, or by error.

    Threads may share it.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        """Compile `source` and try it on a short conversation. `bos` and `eos` are the texts of these tokens.

        Raises FormatError when it doesn't compile, fails, or leaves out what the user said.
        """
        # jinja2 takes longer to import than all of assay, and not every program chats.
        from assay.llm import sandbox

        if not isinstance(source, str) or len(source) > LONGEST_SOURCE:
            got = f"{len(source):,} characters" if isinstance(source, str) else type(source).__name__
            raise refuse("bad chat template", want=f"at most {LONGEST_SOURCE:,} characters", got=got)
        self._environment = sandbox.MeteredEnvironment()
        self._lock = threading.Lock()
        self._tokens = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = self._environment.from_string(source)
            probe = self.render(_PROBE)
        except RequestError as error:
            raise refuse("the chat template refuses a plain conversation", got=error.got) from error
        except AssayError:
            raise
        except Exception as error:  # jinja2's own errors, and Python's on the code that jinja2 makes
            raise _failed("a chat template that doesn't compile", error) from error
        if str(_PROBE[-1]["content"]) not in probe:
            raise refuse("the chat template leaves out messages", want="what the user said last")

    @cached_property
    def knows_tools(self) -> bool:
        """Whether the template tells the model of tools."""
        tool = {"type": "function", "function": {"name": "probe", "description": "", "parameters": {}}}
        try:
            return "probe" in self.render([{"role": "user", "content": "Is it?"}], tools=[tool])
        except AssayError:
            return False

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, object]] = (),
    ) -> str:
        """The text of `messages`, ended with the beginning of an answer if `add_generation_prompt`. `tools`
        are passed on to a template that knows of them.

        Raises RequestError naming the field that is wrong, or with the template's own refusal; FormatError
        when the template fails on these messages.
        """
        messages = checked(messages)
        size = sum(len(str(each)) for message in (*messages, *tools) for each in message.values())
        with self._lock:
            self._environment.budget = (
                _BUDGET + _BUDGET_PER_MESSAGE * len(messages) + _BUDGET_PER_CHARACTER * size
            )
            try:
                return self._template.render(
                    messages=messages,
                    add_generation_prompt=add_generation_prompt,
                    tools=list(tools) or None,
                    documents=None,
                    **self._tokens,
                )
            except AssayError:
                raise
            except Exception as error:  # whatever the template's operations raise
                raise _failed("the chat template fails on these messages", error) from error


def refuse(rule: str, *, want: str = "", got: str = "", hint: str = "") -> FormatError:
    """The error of a template that can't be used."""
    return FormatError(rule, place="tokenizer.chat_template", want=want, got=got, hint=hint)


def _failed(rule: str, error: Exception) -> FormatError:
    line = getattr(error, "lineno", None)
    return refuse(rule, got=f"{f'line {line}: ' if line else ''}{type(error).__name__}: {error}"[:500])


def checked(messages: Sequence[Message]) -> list[Message]:
    """A copy of `messages`, each a dict of the strings `role` and `content`, and where there are tools
    `tool_calls`, `tool_call_id` and `name`.

    Content may be empty. Raises RequestError naming the field, as in `messages[1].content`.
    """
    if not isinstance(messages, list | tuple) or not messages:
        hint = "generate() takes a prompt" if isinstance(messages, str) else ""
        raise refused("messages", "a list of at least one message", messages, hint)
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if not isinstance(message, dict):
            raise refused(place, "a dict", message)
        more = MORE.get(str(message.get("role")), ())
        for key in message:
            if key not in ("role", "content", *more):
                raise RequestError(
                    "an unknown field", place=f"{place}.{key}", want=", ".join(("role", "content", *more))
                )
        for key in ("role", "content", *(key for key in more if key in message and key != "tool_calls")):
            text(f"{place}.{key}", message.get(key))
        if message["role"] not in ROLES:
            raise refused(f"{place}.role", ", ".join(ROLES), message["role"])
    return [
        {**message, "tool_calls": checked_calls(message, f"messages[{number}]")}
        if "tool_calls" in message
        else dict(message)
        for number, message in enumerate(messages)
    ]
