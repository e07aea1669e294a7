"""`/v1/streams/{id}`: a stream goes on where its client stopped, whatever happened to whom in between."""

from __future__ import annotations

import re
import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from assay import metrics
from assay.gateway.backend import Call, Engine, Event, Mailbox
from assay.gateway.door import Door
from assay.gateway.errors import Refusal
from assay.gateway.render import About, ChatRenderer, CompletionRenderer, Renderer
from assay.gateway.response_render import ResponseRenderer
from assay.gateway.stream import Answering, EventStream
from assay.serving.messages import Attach, Known

RENDERERS: dict[str, type[Renderer]] = {
    "chat": ChatRenderer,
    "completion": CompletionRenderer,
    "response": ResponseRenderer,
}
_ID = re.compile(r"[a-z]+[-_][0-9a-f]{32}")
_PLACE = re.compile(r"([a-z]+[-_][0-9a-f]{32}):(\d{1,9}(?:\.\d{1,9}){0,4095})")


async def found(engines: list[Engine], question: Attach, box: Mailbox) -> tuple[Call, Known]:
    """The request, attached to, and whose it is. Raises Refusal."""
    id = question.id
    last = Refusal(404, f"no stream {id}", param="id", code="unknown")
    for engine in sorted(engines, key=lambda each: each.link.peer is None):
        call = engine.ask(question, box)
        try:
            events, known = list[tuple[Call, Event]](), None
            while known is None:
                events += await box.next()
                known = next((each for _, each in events if isinstance(each, Known)), None)
            box.events = [each for each in events if each[1] is not known] + box.events
            return call, known
        except BaseException as error:
            call.leave()
            if not isinstance(error, Refusal):
                raise
            if error.status != 404:
                last = error
    raise last


async def resumed(door: Door, id: str, told: list[int], arrived: float) -> Answering:
    """What comes after `told` tokens of each answer. Raises Refusal."""
    box = Mailbox()
    engines = [engine for engine in door.backend.engines.values() if engine.config.kind == "text"]
    first, known = await found(engines, Attach(id, [], follow=False), Mailbox())
    first.close()
    about = msgspec.msgpack.decode(known.request.meta, type=About)
    calls, n = list[Call](), about.n
    try:
        for number in range(len(about.prompts)):
            each, mine = id + (f"-{number}" if number else ""), told[number * n : (number + 1) * n]
            question = Attach(each, [], mark=mine) if about.history else Attach(each, mine)
            calls.append((await found([first.engine], question, box))[0])
    except BaseException:
        for call in calls:
            call.leave()
        raise
    metrics.RESUMED.inc()
    return Answering(box, calls, RENDERERS[about.kind](id, about, told), arrived)


class ResumeRoutes:
    """Streams again."""

    def __init__(self, door: Door) -> None:
        self.door = door

    async def stream(self, request: Request) -> Response:
        """The rest of a stream: after the event that `Last-Event-ID`, or `last_event_id`, names; else all."""
        id = request.path_params["id"]
        if not _ID.fullmatch(id):
            raise Refusal(404, f"no stream {id[:80]}", param="id", code="unknown")
        last = request.headers.get("last-event-id") or request.query_params.get("last_event_id", "")
        place = _PLACE.fullmatch(last)
        if last and not (place and place[1] == id):
            raise Refusal(400, "Last-Event-ID: not of this stream", param="Last-Event-ID")
        told = [int(each) for each in place[2].split(".")] if place else []
        answering = await resumed(self.door, id, told, time.monotonic())
        return EventStream(answering, b"", self.door.config.heartbeat)
