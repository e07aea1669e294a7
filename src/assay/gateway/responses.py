"""`/v1/responses`: created, streamed, looked up, cancelled."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from assay.gateway import tools
from assay.gateway.backend import GONE, Mailbox, cancel
from assay.gateway.door import Door, parsed
from assay.gateway.errors import Refusal
from assay.gateway.render import About
from assay.gateway.response_render import FIRST, Echo, ResponseRenderer
from assay.gateway.resume import found, resumed
from assay.gateway.schema.body import refused
from assay.gateway.schema.chat import (
    AsObject,
    AsSchema,
    Called,
    ChatRequest,
    Message,
    Schema,
    ToolCall,
    plain,
)
from assay.gateway.schema.responses import (
    EasyMessage,
    Item,
    ObjectFormat,
    ResponseRequest,
    SchemaFormat,
    choice,
    message,
)
from assay.gateway.schema.responses import tools as flat_tools
from assay.gateway.stream import Answering, EventStream
from assay.gateway.text import TextRoutes, fingerprint, new_id
from assay.serving.messages import Attach, Started


class ResponseRoutes:
    """Conversations that are kept for a while."""

    def __init__(self, door: Door, text: TextRoutes) -> None:
        self.door, self.backend, self.text = door, door.backend, text

    async def create(self, request: Request) -> Response:
        """Answer an input."""
        arrived, limits = time.monotonic(), self.door.config.limits
        body = await parsed(request, ResponseRequest, limits)
        if body.background and not body.store:
            raise Refusal(400, "background: only with store", param="background")
        engine = self.backend.engine(body.model, "text", body.user)
        before = await self._before(body.previous_response_id) if body.previous_response_id else []
        messages = [*before, *_messages(body.input)]
        asked = _as_chat(body, messages)
        sampling = self.text.chat_sampling(asked)
        await self.text.held(engine, sampling, asked, "text.format")
        told = [Message(role="system", content=body.instructions)] if body.instructions else []
        prompt = await self.text.rendered(engine, plain([*told, *messages]), tools.told(asked))
        echo = Echo(
            messages,
            body.instructions,
            body.previous_response_id,
            body.metadata or {},
            bool(body.background),
            body.store is not False,
            body.max_output_tokens,
            body.temperature,
            body.top_p,
            msgspec.to_builtins(body.tools or []),
            msgspec.to_builtins(body.tool_choice or "auto"),
            body.parallel_tool_calls is not False,
            msgspec.to_builtins(body.text) if body.text else {},
            body.user,
        )
        about = About(
            "response", body.model, int(time.time()), fingerprint(engine), [len(prompt)],
            tools=tools.asked(asked), extra=msgspec.msgpack.encode(echo),
        )  # fmt: skip
        renderer = ResponseRenderer(new_id("resp_"), about)
        answering = self.text.asked(
            asked, engine, [prompt], sampling, renderer, arrived, bool(body.background)
        )
        if body.stream:
            return await self.text.streamed(answering)
        if body.background:
            try:
                await answering.started(GONE + 1)  # it is lost if no engine has it
            finally:
                for call in answering.calls:
                    call.leave()
            return _json(renderer.response("queued" if not renderer.states[0].text else ""))
        return Response(await answering.body(request.receive), media_type="application/json")

    async def get(self, request: Request) -> Response:
        """What is known of a response; with `stream`, its events after the one of number `starting_after`."""
        id = _id(request)
        if request.query_params.get("stream") not in (None, "false", "true"):
            raise Refusal(400, "stream: true or false", param="stream")
        if request.query_params.get("stream") == "true":
            after = request.query_params.get("starting_after", "")
            if after and not (after.isascii() and after.isdigit() and len(after) < 10):
                raise Refusal(400, "starting_after: a whole number", param="starting_after")
            told = [max(0, int(after or 0) - FIRST)]
            answering = await resumed(self.door, id, told, time.monotonic())
            if after and isinstance(answering.renderer, ResponseRenderer):
                answering.renderer.after = int(after)
            return EventStream(answering, b"", self.door.config.heartbeat)
        return _json((await self._known(id)).response())

    async def cancel(self, request: Request) -> Response:
        """Stop a response that is made in the background."""
        id = _id(request)
        known = await self._known(id)
        if not known.echo.background:
            raise Refusal(400, "only responses made in the background can be cancelled", param="id")
        for engine in self.backend.engines.values():
            cancel(engine, id)
        return _json((await self._known(id)).response())

    async def _before(self, id: str) -> list[Message]:
        """The conversation up to a response."""
        known = await self._known(id)
        state = known.states[0]
        if not state.reason:
            raise Refusal(400, "previous_response_id: not at its end yet", param="previous_response_id")
        calls = [
            ToolCall(id=known.call(number), function=Called(name=call.name, arguments=call.arguments))
            for number, call in enumerate(state.reader.calls)
        ]
        said = Message(role="assistant", content=None if calls else state.text, tool_calls=calls or None)
        return [*known.echo.messages, said]

    async def _known(self, id: str) -> ResponseRenderer:
        """A response as far as it is. Raises Refusal."""
        box = Mailbox()
        engines = [engine for engine in self.backend.engines.values() if engine.config.kind == "text"]
        call, known = await found(engines, Attach(id, [], follow=False), box)
        try:
            about = msgspec.msgpack.decode(known.request.meta, type=About)
            renderer = ResponseRenderer(id, about)
            if about.kind != "response" or not renderer.echo.store:
                raise Refusal(404, f"no response {id}", param="id", code="unknown")
            answering = Answering(box, [call], renderer, time.monotonic())
            events, told = box.events, False
            box.events = []
            while not told:
                answering.take(events)
                told = any(isinstance(event, Started) for _, event in events)
                events = [] if told else await box.next()
        finally:
            call.close()
        return renderer


def _as_chat(body: ResponseRequest, messages: list[Message]) -> ChatRequest:
    """The same as a request for a chat completion."""
    given = body.text.format if body.text else None
    as_given: AsObject | AsSchema | None = None
    if isinstance(given, ObjectFormat):
        as_given = AsObject()
    elif isinstance(given, SchemaFormat):
        as_given = AsSchema(json_schema=Schema(name=given.name, schema=given.schema))
    return ChatRequest(
        model=body.model,
        messages=messages,
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        seed=body.seed,
        stream=body.stream,
        tools=flat_tools(body),
        tool_choice=choice(body),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=as_given,
        priority=body.priority,
        timeout=body.timeout,
    )


def _messages(given: str | list[dict[str, object]]) -> list[Message]:
    if isinstance(given, str):
        return [Message(role="user", content=given)]
    found = []
    for number, each in enumerate(given):
        kind = Item if "type" in each else EasyMessage
        try:
            found.append(message(msgspec.convert(each, type=kind)))
        except msgspec.ValidationError as error:
            refusal = refused(str(error), EasyMessage)
            inside = f".{refusal.body.param}" if refusal.body.param else ""
            refusal.body.param = f"input[{number}]{inside}"
            raise refusal from None
    return found


def _id(request: Request) -> str:
    id = str(request.path_params["id"])
    if not (id.startswith("resp_") and len(id) == 37):
        raise Refusal(404, f"no response {id[:80]}", param="id", code="unknown")
    return id


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
