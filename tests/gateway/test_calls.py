"""Calls are read as they were written, wherever their pieces end."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from assay.gateway.calls import CLOSE, MIDDLE, OPEN, Reader, grammar

NASTY = st.sampled_from(
    ["<tool_call>", "</tool_call>", '"', "\\", "{", "}", "]", '{"name": "', "\n", "ü", ""]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NASTY | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NASTY | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True)
ARGUMENTS = st.dictionaries(NASTY | st.text(max_size=3), VALUES, max_size=3)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=3)


def written(calls: list[tuple[str, dict[str, object]]], indent: int | None, plain: bool) -> str:
    return "\n".join(
        OPEN + name + MIDDLE + json.dumps(value, indent=indent, ensure_ascii=plain) + CLOSE
        for name, value in calls
    )


def pieces(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(ends)]


@given(CALLS, st.none() | st.just(1), st.booleans(), st.lists(st.integers(0, 1 << 20), max_size=30))
def test_any_calls_in_any_pieces(
    calls: list[tuple[str, dict[str, object]]], indent: int | None, plain: bool, cuts: list[int]
) -> None:
    reader, told = Reader(), dict[int, list[str]]()
    for piece in pieces(written(calls, indent, plain), cuts):
        for number, call in reader.feed(piece):
            assert bool(call.name) == (number not in told), "a name once, and first"
            told.setdefault(number, []).append(call.name or call.arguments)
    assert [(call.name, json.loads(call.arguments)) for call in reader.calls] == calls
    assert [(name, "".join(rest)) for name, *rest in told.values()] == [
        (call.name, call.arguments) for call in reader.calls
    ]
    assert not reader.text


@given(CALLS, st.integers(0, 1 << 20))
def test_half_a_call_is_half_its_arguments(calls: list[tuple[str, dict[str, object]]], cut: int) -> None:
    text, reader = written(calls[:1], None, True), Reader()
    reader.feed(text[: cut % len(text)])
    for call in reader.calls:
        assert call.name == calls[0][0] and json.dumps(calls[0][1]).startswith(call.arguments)


@given(st.text().filter(lambda text: not text.startswith("<")), st.lists(st.integers(0, 99), max_size=5))
def test_what_begins_otherwise_is_text(text: str, cuts: list[int]) -> None:
    reader = Reader()
    assert not [call for piece in pieces(text, cuts) for call in reader.feed(piece)]
    assert reader.text == text and not reader.calls


def test_the_grammar_takes_what_is_read() -> None:
    """Schemas that refer to what is in them, too."""
    import llguidance

    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    nested = {"type": "object", "properties": {"at": {"$ref": "#/$defs/P"}}, "required": ["at"],
              "additionalProperties": False, "$defs": {"P": point}}  # fmt: skip
    tools = [("go", nested), ("g-h", None)]
    bytes_only = llguidance.LLTokenizer("byte")

    def takes(said: str, /, **more: bool) -> bool:
        made = grammar(tools, **{"text": True, "several": True, **more})
        assert not llguidance.LLMatcher.validate_grammar_with_warnings(made, bytes_only)[0]
        matcher = llguidance.LLMatcher(bytes_only, made, log_level=0)
        data = [*said.encode()]
        return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())

    one = written([("go", {"at": {"x": 1}})], None, True)
    two = written([("g-h", {"q": "</tool_call>"}), ("go", {"at": {"x": 2}})], None, True)
    assert takes(one) and takes(two) and takes("Hello <b>\nyou") and takes("")
    assert takes(one, several=False) and not takes(two, several=False)
    assert not takes("Hello", text=False) and takes(two, text=False)
    assert not takes("<b>") and not takes(written([("go", {"at": {}})], None, True))
    assert not takes(written([("stop", {})], None, True))
