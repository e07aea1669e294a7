"""A gateway alone, whose workers do what a prompt says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import openai
import pytest

from gateway.gate import CHAT, Gate, chat, gated

CALLS = (
    '<tool_call>\n{"name": "f", "arguments": {"q": "</tool_call> <tool_call>", "n": [1, {"a": "}"}]}}'
    "\n</tool_call>"
    '\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
)
TOOLS = [{"type": "function", "function": {"name": name}} for name in "fg"]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with gated(tmp_path_factory.mktemp("gate")) as made:
        yield made


def events(data: bytes) -> list[tuple[str, str]]:
    """Ids and data."""
    return re.findall(r"^id: (.*)\n(?:event: .*\n)?data: (.*)\n$", data.decode(), re.MULTILINE)


def told(found: list[tuple[str, str]]) -> dict[int, tuple[str, list[list[str]], list[str]]]:
    """Of each answer: its text, its calls (id, name, arguments) and its ends."""
    answers: dict[int, tuple[str, list[list[str]], list[str]]] = {}
    for _, data in found:
        for choice in json.loads(data).get("choices", ()):
            text, calls, ends = answers.get(choice["index"], ("", [], []))
            delta = choice.get("delta", {"content": choice.get("text")})
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(calls):
                    calls.append([call["id"], call["function"]["name"], ""])
                calls[call["index"]][2] += call["function"]["arguments"]
            ends += [choice["finish_reason"]] * bool(choice["finish_reason"])
            answers[choice["index"]] = text + (delta.get("content") or ""), calls, ends
    return answers


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("each=1,tick=0.001|Hello, you.", {}),
        ("each=2,tick=0.001|Hello, you.", {"n": 3, "logprobs": True, "top_logprobs": 1}),
        ("each=1|Hello", {"max_tokens": 3, "stream_options": {"include_usage": True}}),
        (f"each=3,tick=0.001|{CALLS}", {"tools": TOOLS}),
        (f"each=7|{CALLS}", {"tools": TOOLS, "n": 2}),
        ("each=2|No calls at all.", {"tools": TOOLS}),
        (f"each=5|{CALLS}", {"tools": TOOLS, "max_tokens": 60}),
    ],
)
def test_a_stream_goes_on_behind_any_event(gate: Gate, text: str, more: dict[str, object]) -> None:
    _, data, _ = gate.ask("POST", CHAT, chat(text, stream=True, **more))
    whole = events(data)
    assert data.endswith(b"data: [DONE]\n\n") and data.startswith(b": keep-alive\n\n")
    assert len({id for id, _ in whole}) == len(whole) - ("stream_options" in more)
    plain = {name: value for name, value in more.items() if name != "stream_options"}
    _, body = gate.post(chat(text, **plain))
    answers = told(whole)
    for choice in body["choices"]:
        text, calls, ends = answers[choice["index"]]
        assert text == (choice["message"]["content"] or "")
        assert [each[1:] for each in calls] == [
            [call["function"]["name"], call["function"]["arguments"]]
            for call in choice["message"]["tool_calls"] or ()
        ]
        assert ends == [choice["finish_reason"]]
    for number, (last, _) in enumerate(whole):
        _, rest, _ = gate.ask("GET", f"/v1/streams/{last.split(':')[0]}", None, {"Last-Event-ID": last})
        again = told(whole[: number + 1] + events(rest))
        for index, (text, calls, ends) in answers.items():
            assert again[index][:2] == (text, calls), (number, last)
            assert {*again[index][2]} == {*ends}
        assert rest.endswith(b"data: [DONE]\n\n")


def test_calls_are_told_while_they_are_written(gate: Gate) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{gate.port}/v1", api_key="x", max_retries=0)
    said = [{"role": "user", "content": f"each=4,tick=0.001|{CALLS}"}]
    with client.chat.completions.stream(model="stub", messages=said, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        got = stream.get_final_completion().choices[0]
    assert kinds.count("tool_calls.function.arguments.delta") > 10
    assert got.finish_reason == "tool_calls" and not got.message.content
    first, second = got.message.tool_calls or ()
    assert json.loads(first.function.arguments)["q"] == "</tool_call> <tool_call>"
    assert (second.function.name, second.function.arguments) == ("g", "{}")


def test_responses_call_and_go_on(gate: Gate) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{gate.port}/v1", api_key="x", max_retries=0)
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in "fg"]
    asked = {"model": "stub", "input": f"each=6,tick=0.001|{CALLS}", "tools": tools}
    with client.responses.stream(**asked) as stream:
        events = list(stream)
    final = events[-1].response
    assert [item.name for item in final.output] == ["f", "g"]
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted({*numbers})
    for number in numbers:
        rest = client.responses.retrieve(final.id, stream=True, starting_after=number)
        assert [event.sequence_number for event in rest] == numbers[numbers.index(number) + 1 :]
    output = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "|done"} for call in final.output
    ]
    got = client.responses.create(model="stub", input=output, previous_response_id=final.id)
    assert got.output_text == "done"


def test_a_text_of_responses_goes_on(gate: Gate) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{gate.port}/v1", api_key="x", max_retries=0)
    made = list(client.responses.create(model="stub", input="each=2,tick=0.001|Hello you", stream=True))
    numbers = [event.sequence_number for event in made]
    assert numbers == sorted({*numbers})
    for at, number in enumerate(numbers, 1):
        rest = list(client.responses.retrieve(made[-1].response.id, stream=True, starting_after=number))
        later = [event.sequence_number for event in rest]
        assert later == sorted(later) and all(each > number for each in later)
        for kind in {event.type for event in made}:
            texts = ["".join(getattr(event, "delta", "x") for event in each if event.type == kind)
                     for each in (made[:at] + rest, made)]  # fmt: skip
            assert texts[0] == texts[1], (number, kind)
