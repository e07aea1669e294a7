"""A conversation as tokens: what users typed never becomes a control token."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.errors import within
from assay.llm.template import ChatTemplate, Message, checked
from assay.llm.tokenizer import Tokenizer

_PRIVATE = range(0xF0000, 0x10FFFE)
"""Code points that stand for the names of control tokens while the template is rendered."""


def encode(
    messages: Sequence[Message], template: ChatTemplate, tokenizer: Tokenizer, most: int | None = None
) -> list[int]:
    """The tokens of `messages` through the chat template, ready for the model's answer.

    The name of a control token that the template writes is that token; inside a message it is text like any
    other. Raises RequestError for messages that aren't sound, or have more than `most` tokens anyhow.
    """
    messages = checked(messages)
    names = sorted(tokenizer.control, key=lambda name: (-len(name), name))
    pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
    if not any(pattern.search(value) for message in messages for value in message.values()):
        rendered = template.render(messages)
        with within("messages"):
            return tokenizer.encode(rendered, special=True, most=most)
    typed = {character for message in messages for value in message.values() for character in value}
    free = (code for code in _PRIVATE if chr(code) not in typed)
    stand_in = {name: chr(code) for name, code in zip(names, free, strict=False)}
    hidden = [
        {key: pattern.sub(lambda found: stand_in[found.group()], value) for key, value in message.items()}
        for message in messages
    ]
    restored = str.maketrans({character: name for name, character in stand_in.items()})
    tokens: list[int] = []
    rendered = template.render(hidden)
    at = 0
    with within("messages"):
        for found in pattern.finditer(rendered):
            tokens += tokenizer.encode(rendered[at : found.start()].translate(restored), most=most)
            tokens += tokenizer.encode(found.group(), special=True)
            at = found.end()
        return tokens + tokenizer.encode(rendered[at:].translate(restored), most=most)
