"""Calls of tools as a model writes them: the grammar that holds it to them, and their reading.

    <tool_call>
    {"name": "a name", "arguments": {…}}
    </tool_call>

One or several, with a line's end between them, and nothing else; an answer that doesn't begin with "<" is
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OPEN, MIDDLE, CLOSE = '<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"
_HEAD = re.compile(re.escape(OPEN) + r"([\w-]+)" + re.escape(MIDDLE))
_TURN = re.compile(r'[{}\[\]"]')
_QUOTE = re.compile(r'\\.|"', re.DOTALL)


def grammar(tools: Sequence[tuple[str, Mapping[str, object] | None]], text: bool, several: bool) -> str:
    """Lark's, for llguidance. `tools` are names and schemas of arguments. Each schema stands for itself: what
    it refers to is in it. `text`: the answer may also be one.
    """
    names = [f"call_{number}" for number in range(len(tools))]
    rules = ["start: calls" + " | text" * text]
    rules += [r"text: /([^<](.|\n)*)?/"] * text
    rules.append("calls: call" + ' ("\\n" call)*' * several)
    rules.append(f"call: {json.dumps(OPEN)} ({' | '.join(names)}) {json.dumps(CLOSE)}")
    for number, (name, schema) in enumerate(tools):
        rules.append(f"call_{number}: {json.dumps(name + MIDDLE)} arguments_{number}")
        rules.append(f"arguments_{number}: %json {json.dumps({'type': 'object', **(schema or {})})}")
    return "\n".join(rules) + "\n"


@dataclass
class Call:
    """One of them, as far as it is written."""

    name: str
    arguments: str = ""


class Reader:
    """An answer while it is written: `calls` so far, or `text`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.text = ""
        self._rest = ""
        self._depth = 0
        self._inside = self._quoted = False
        """Whether arguments are being read, and whether a text in them is."""

    def feed(self, piece: str) -> list[tuple[int, Call]]:
        """What a piece adds to calls: their numbers, and a name where one begins, else more arguments."""
        if self.text or not (self._rest or self.calls or piece.startswith("<")):
            self.text += piece
            return []
        self._rest += piece
        found = list[tuple[int, Call]]()
        while self._rest:
            if self._inside:
                more = self._arguments()
                if more:
                    self.calls[-1].arguments += more
                    found.append((len(self.calls) - 1, Call("", more)))
                if self._inside:
                    break
            head = _HEAD.search(self._rest)
            if head is None:
                break
            self.calls.append(Call(head[1]))
            found.append((len(self.calls) - 1, Call(head[1])))
            self._rest, self._inside = self._rest[head.end() :], True
        return found

    def _arguments(self) -> str:
        """Take arguments from what is unread, up to the bracket that closes what they stand in."""
        at, text = 0, self._rest
        while turn := (_QUOTE if self._quoted else _TURN).search(text, at):
            at = turn.end()
            if turn[0] == '"':
                self._quoted = not self._quoted
            elif turn[0] in "{[":
                self._depth += 1
            elif turn[0] in "}]":
                self._depth -= 1
                if self._depth < 0:
                    self._depth, self._inside, self._rest = 0, False, text[at:]
                    return text[: at - 1]
        half = self._quoted and at < len(text) and text.endswith("\\")  # an escape waits for the rest of it
        end = len(text) - half
        self._rest = text[end:]
        return text[:end]
