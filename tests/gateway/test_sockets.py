"""WebSockets: many requests over one connection, and logs."""

from __future__ import annotations

import json
import time

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from gateway.conftest import KEY
from serving.service import Service, Stream

SAID = [{"role": "user", "content": "Tell of a fox."}]


def body(**more: object) -> dict[str, object]:
    return {"model": "smollm2", "messages": SAID, "max_tokens": 12, "seed": 4, **more}


def create(socket: ClientConnection, ref: str, **more: object) -> None:
    socket.send(json.dumps({"type": "create", "ref": ref, "route": "chat", "body": body(**more)}))


def answers(socket: ClientConnection, count: int) -> dict[str, list[dict[str, object]]]:
    """What came for each ref, until so many are at their ends."""
    found: dict[str, list[dict[str, object]]] = {}
    while count:
        message = json.loads(socket.recv(timeout=30))
        found.setdefault(message["ref"], []).append(message)
        count -= message["type"] != "event"
    return found


def text(messages: list[dict[str, object]]) -> str:
    choices = [each["data"]["choices"] for each in messages if each["type"] == "event"]  # type: ignore[index]
    return "".join(choice["delta"].get("content") or "" for each in choices for choice in each)


def test_a_session_answers_many(service: Service) -> None:
    with connect(f"ws://127.0.0.1:{service.port}/v1/session") as socket:
        for number in range(6):
            create(socket, f"r{number}", seed=number)
        found = answers(socket, 6)
    for number in range(6):
        alone = Stream(service, "/v1/chat/completions", body(seed=number))
        alone.run()
        assert text(found[f"r{number}"]) == alone.texts[0]
        assert found[f"r{number}"][-1]["type"] == "done"


def test_a_request_of_a_session_is_cancelled(service: Service) -> None:
    with connect(f"ws://127.0.0.1:{service.port}/v1/session") as socket:
        create(socket, "long", max_tokens=4000, ignore_eos=True)
        socket.recv(timeout=30)
        create(socket, "short")
        socket.send(json.dumps({"type": "cancel", "ref": "long"}))
        found = answers(socket, 2)
    assert found["long"][-1]["type"] == "done" and len(found["long"]) < 2000
    assert found["short"][-1]["type"] == "done"


@pytest.mark.parametrize(
    ("sent", "ref", "param"),
    [
        ("nonsense", None, None),
        (
            '{"type": "create", "ref": "a", "route": "chat", "body": {"model": "smollm2"}}',
            "a",
            "body.messages",
        ),
        ('{"type": "create", "ref": "", "route": "chat", "body": {}}', None, "ref"),
        ('{"type": "create", "ref": "a", "route": "x", "body": {}}', None, "route"),
        ('{"type": "dance"}', None, "type"),
    ],
)
def test_what_is_no_message_is_told(service: Service, sent: str, ref: str | None, param: str | None) -> None:
    with connect(f"ws://127.0.0.1:{service.port}/v1/session") as socket:
        socket.send(sent)
        message = json.loads(socket.recv(timeout=10))
        assert (message["type"], message["ref"], message["error"]["param"]) == ("error", ref, param)
        create(socket, "after")
        assert answers(socket, 1)["after"][-1]["type"] == "done"


def test_logs_are_streamed(service: Service) -> None:
    with connect(f"ws://127.0.0.1:{service.port}/logs") as socket:
        time.sleep(0.5)
        path, said = "/v1/chat/completions", [{"role": "user", "content": "secret words"}]
        service.post(path, body(messages=said))
        events = []
        while not any(
            each["event"] == "request" and each["path"] == "/v1/chat/completions" for each in events
        ):
            events.append(json.loads(socket.recv(timeout=10)))
    assert "secret words" not in json.dumps(events)


def test_sockets_want_a_key_too(locked: Service) -> None:
    for path in ("/v1/session", "/logs"):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{locked.port}{path}")
        assert refused.value.response.status_code == 403
        with connect(
            f"ws://127.0.0.1:{locked.port}{path}", additional_headers={"Authorization": f"Bearer {KEY}"}
        ):
            pass
