"""A conversation as tokens: what users typed never becomes a control token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from assay.errors import within
from assay.llm.template import ChatTemplate, Message, checked
from assay.llm.tokenizer import Tokenizer
from assay.llm.tool_messages import in_words

_PRIVATE = range(0xF0000, 0x10FFFE)
"""Code points that stand for the names of control tokens while the template is rendered."""


def encode(
    messages: Sequence[Message],
    template: ChatTemplate,
    tokenizer: Tokenizer,
    most: int | None = None,
    tools: Sequence[Mapping[str, object]] = (),
) -> list[int]:
    """The tokens of `messages` through the chat template, ready for the model's answer. `tools` are told to
    the model, in words where the template knows nothing of them.

    The name of a control token that the template writes is that token; inside a message it is text like any
    other. Raises RequestError for messages that aren't sound, or have more than `most` tokens anyhow.
    """
    messages = checked(messages)
    if (
        tools or any(message.keys() - {"role", "content"} for message in messages)
    ) and not template.knows_tools:
        messages, tools = in_words(messages, tools), ()
    names = sorted(tokenizer.control, key=lambda name: (-len(name), name))
    pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
    texts = list(_texts([list(messages), list(tools)]))
    if not any(map(pattern.search, texts)):
        rendered = template.render(messages, tools=tools)
        with within("messages"):
            return tokenizer.encode(rendered, special=True, most=most)
    typed = set("".join(texts))
    free = (code for code in _PRIVATE if chr(code) not in typed)
    stand_in = {name: chr(code) for name, code in zip(names, free, strict=False)}

    def hidden(value: object) -> object:
        if isinstance(value, str):
            return pattern.sub(lambda found: stand_in[found.group()], value)
        if isinstance(value, Mapping):
            return {hidden(key): hidden(each) for key, each in value.items()}
        return [hidden(each) for each in value] if isinstance(value, list | tuple) else value

    restored = str.maketrans({character: name for name, character in stand_in.items()})
    tokens: list[int] = []
    rendered = template.render(
        cast("list[Message]", hidden(list(messages))), tools=cast("list[Message]", hidden(list(tools)))
    )
    at = 0
    with within("messages"):
        for found in pattern.finditer(rendered):
            tokens += tokenizer.encode(rendered[at : found.start()].translate(restored), most=most)
            tokens += tokenizer.encode(found.group(), special=True)
            at = found.end()
        return tokens + tokenizer.encode(rendered[at:].translate(restored), most=most)


def _texts(value: object) -> Iterator[str]:
    """All texts in what JSON can hold."""
    if isinstance(value, str):
        yield value
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    for each in value if isinstance(value, list | tuple) else ():
        yield from _texts(each)
