"""Events: heartbeats, ids, and streams that go on."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from serving.service import Service, Stream

CHAT = "/v1/chat/completions"


def body(**more: object) -> dict[str, object]:
    said = [{"role": "user", "content": "Tell of a fox."}]
    return {"model": "smollm2", "messages": said, "max_tokens": 24, "seed": 4, **more}


@pytest.mark.parametrize("more", [{}, {"n": 2}, {"logprobs": True, "top_logprobs": 2}, {"stop": ["the"]}])
def test_a_stream_goes_on_after_each_of_its_events(service: Service, more: dict[str, object]) -> None:
    whole = Stream(service, CHAT, body(**more))
    whole.run()
    for number in range(1, len(whole.ids) + 1):
        part = Stream(service, CHAT, body(**more))
        part.run(most=number)
        assert part.ids == whole.ids[:number] or part.id != whole.id
        part.run()
        assert (part.texts, part.ends) == (whole.texts, whole.ends), number


def test_tool_calls_go_on(service: Service) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    asked = body(tools=[tool], tool_choice="required", max_tokens=60, temperature=0, stream=True)

    def arguments(events: list[str]) -> str:
        data = [
            json.loads(line[6:]) for event in events for line in event.splitlines() if '"tool_calls"' in line
        ]
        calls = [each["choices"][0]["delta"]["tool_calls"] for each in data]
        return "".join(call["function"]["arguments"] for each in calls for call in each)

    events = service.post(CHAT, asked)[1].decode().split("\n\n")
    for number, event in enumerate(events):
        if event.startswith("id: "):
            last = event.splitlines()[0].removeprefix("id: ")
            _, again = service.get(f"/v1/streams/{last.split(':')[0]}", {"Last-Event-ID": last})
            rest = again.decode().split("\n\n")
            assert arguments(events[: number + 1] + rest) == arguments(events), number
    assert arguments(events)


def test_comments_keep_a_slow_stream_alive(service: Service) -> None:
    words = " ".join(f"word{number}" for number in range(1500))
    asked = body(messages=[{"role": "user", "content": words}], max_tokens=1, stream=True,
                 stream_options={"include_progress": True})  # fmt: skip
    lines = service.post(CHAT, asked)[1].decode().splitlines()
    assert lines[0] == ": keep-alive"
    progress = [json.loads(line[6:])["progress"] for line in lines if '"progress"' in line]
    assert len(progress) > 2 and progress == sorted(progress, key=lambda each: each["done"])
    assert lines.count(": keep-alive") >= 1 and lines[-2] == "data: [DONE]"


def test_a_client_that_leaves_frees_its_blocks(service: Service) -> None:
    def used() -> float:
        text = service.get("/metrics")[1].decode()
        found = {
            line.split("{")[0]: float(line.split()[-1])
            for line in text.splitlines()
            if 'model="other"' in line and line.startswith(("assay_requests_running", "assay_batch_queue"))
        }
        return sum(found.values())

    for wait in (0.0, 0.02, 0.3):
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        connection.request(
            "POST", CHAT, json.dumps(body(model="other", max_tokens=4000, stream=True, ignore_eos=True))
        )
        answer = connection.getresponse()
        answer.readline()
        time.sleep(wait)
        connection.close()
        answer.close()
        end = time.monotonic() + 5
        while used():
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_last_event_of_another_stream_is_refused(service: Service) -> None:
    stream = Stream(service, CHAT, body(max_tokens=2))
    stream.run()
    for last in ("x", "chatcmpl-" + "0" * 32 + ":1", stream.last + ".x"):
        assert service.get(f"/v1/streams/{stream.id}", {"Last-Event-ID": last})[0] == 400
