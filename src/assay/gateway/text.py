"""`/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from assay.gateway import tools
from assay.gateway.backend import Engine, Mailbox
from assay.gateway.door import Door, parsed
from assay.gateway.errors import Refusal
from assay.gateway.render import About, ChatRenderer, CompletionRenderer, Renderer
from assay.gateway.schema.body import SamplingBody, sampling
from assay.gateway.schema.chat import AsObject, AsSchema, ChatRequest, plain
from assay.gateway.schema.others import CompletionRequest, inputs
from assay.gateway.stream import Answering, EventStream
from assay.llm.request import SEEDS, Sampling
from assay.serving.messages import Encode, Grammar, Render, Submit, Tokens

ANY_OBJECT = '{"type":"object"}'
NAMES = {"json_schema": "response_format"}
"""What the protocol calls fields of `Sampling`."""


def new_id(prefix: str) -> str:
    """An id that nobody guesses."""
    return f"{prefix}{os.urandom(16).hex()}"


class TextRoutes:
    """Texts in, texts out."""

    def __init__(self, door: Door) -> None:
        self.door, self.backend, self.limits = door, door.backend, door.config.limits

    async def chat(self, request: Request) -> Response:
        """Continue a conversation."""
        body = await parsed(request, ChatRequest, self.limits)
        return await self._answer(request, bool(body.stream), await self.chat_answering(body))

    async def complete(self, request: Request) -> Response:
        """Continue texts."""
        body = await parsed(request, CompletionRequest, self.limits)
        return await self._answer(request, bool(body.stream), await self.complete_answering(body))

    async def chat_answering(self, body: ChatRequest) -> Answering:
        """A conversation, asked. Raises Refusal."""
        arrived = time.monotonic()
        engine = self.backend.engine(body.model, "text", body.user)
        asked = self.chat_sampling(body)
        await self.held(engine, asked, body, "response_format")
        prompt = await self.rendered(engine, plain(body.messages), tools.told(body))
        about = self._about("chat", body, engine, [prompt], asked.n)
        about.logprobs, about.tools = bool(body.logprobs), tools.asked(body)
        renderer = ChatRenderer(new_id("chatcmpl-"), about)
        return self.asked(body, engine, [prompt], asked, renderer, arrived)

    async def complete_answering(self, body: CompletionRequest) -> Answering:
        """Texts, asked. Raises Refusal."""
        arrived = time.monotonic()
        engine = self.backend.engine(body.model, "text", body.user)
        asked = sampling(body, NAMES, max_tokens=body.max_tokens, top_logprobs=body.logprobs)
        await self.held(engine, asked, body, "")
        prompts = []
        for each in inputs(body.prompt, "prompt", 64):
            prompts.append(await self.encoded(engine, each, "prompt") if isinstance(each, str) else each)
        about = self._about("completion", body, engine, prompts, asked.n)
        about.logprobs = body.logprobs is not None
        renderer = CompletionRenderer(new_id("cmpl-"), about)
        return self.asked(body, engine, prompts, asked, renderer, arrived)

    def _about(
        self,
        kind: Literal["chat", "completion"],
        body: ChatRequest | CompletionRequest,
        engine: Engine,
        prompts: list[list[int]],
        n: int,
    ) -> About:
        options = body.stream_options
        if options and not body.stream:
            raise Refusal(400, "stream_options: only with stream", param="stream_options")
        about = About(kind, body.model, int(time.time()), fingerprint(engine), [*map(len, prompts)], n)
        about.usage = bool(options and options.include_usage)
        about.progress = bool(options and options.include_progress)
        return about

    def chat_sampling(self, body: ChatRequest) -> Sampling:
        """How tokens of a conversation's answer are chosen. Raises Refusal."""
        if body.max_tokens and body.max_completion_tokens:
            raise Refusal(400, "max_tokens: only one of both", param="max_tokens")
        if body.top_logprobs and not body.logprobs:
            raise Refusal(400, "top_logprobs: only with logprobs", param="top_logprobs")
        more: dict[str, object] = {
            "max_tokens": body.max_completion_tokens or body.max_tokens,
            "top_logprobs": body.top_logprobs,
        }
        if isinstance(body.response_format, AsSchema):
            more["json_schema"] = body.response_format.json_schema.schema
        elif isinstance(body.response_format, AsObject):
            more["json_schema"] = ANY_OBJECT
        return sampling(body, NAMES, **more, **tools.constraint(body))

    async def rendered(self, engine: Engine, messages: bytes, given: bytes) -> list[int]:
        """A conversation's tokens. Raises Refusal."""
        answer = await self.backend.tokenizers.ask(
            Render("", engine.config.name, messages, given, context(engine))
        )
        return short(answer, engine, "messages")

    async def encoded(self, engine: Engine, text: str, place: str) -> list[int]:
        """A prompt's tokens. Raises Refusal."""
        answer = await self.backend.tokenizers.ask(Encode("", engine.config.name, text, most=context(engine)))
        return short(answer, engine, place)

    async def held(self, engine: Engine, asked: Sampling, body: SamplingBody, format: str) -> None:
        """Raise Refusal for a constraint that answers can't be held to, with a pointer to what it is."""
        given = list[tuple[str, str, str]]()
        if isinstance(body, ChatRequest) and tools.asked(body):
            for number, tool in enumerate(body.tools or []):
                if tool.function.parameters is not None:
                    schema = msgspec.json.encode(tool.function.parameters).decode()
                    given.append((f"tools[{number}].function.parameters", "json_schema", schema))
            format = "tools"
        if asked.constraint:
            kind, text = asked.constraint
            given.append((format if kind == "json_schema" or format == "tools" else kind, kind, text))
        for place, kind, text in given:
            try:
                await self.backend.tokenizers.ask(Grammar("", engine.config.name, kind, text))
            except Refusal as refusal:
                inside = (refusal.body.param or "").partition(".")[2]
                refusal.body.param = f"{place}.{inside}" if inside else place
                refusal.body.message = f"{refusal.body.param}: {refusal.body.message}"
                raise

    def asked(
        self,
        body: SamplingBody,
        engine: Engine,
        prompts: Sequence[list[int]],
        asked: Sampling,
        renderer: Renderer,
        arrived: float,
        background: bool = False,
    ) -> Answering:
        """Ask the engine."""
        box = Mailbox()
        seed = asked.seed if asked.seed is not None else secrets.randbelow(SEEDS)
        meta = msgspec.msgpack.encode(renderer.about)
        answering = Answering(box, [], renderer, arrived)
        try:
            for number, prompt in enumerate(prompts):
                submit = Submit(
                    renderer.id + (f"-{number}" if number else ""),
                    prompt,
                    replace(asked, seed=seed),
                    priority=body.priority,
                    timeout=body.timeout,
                    background=background,
                    progress=renderer.about.progress,
                    logprobs=renderer.about.logprobs,
                    meta=meta,
                )
                answering.add(engine.ask(submit, box))
        except Refusal:
            answering.end()
            raise
        return answering

    async def streamed(self, answering: Answering) -> Response:
        """Events. Raises Refusal where the engine refuses at once."""
        try:
            begun = await answering.started()
        except BaseException:
            answering.end()
            raise
        return EventStream(answering, begun, self.door.config.heartbeat)

    async def _answer(self, request: Request, stream: bool, answering: Answering) -> Response:
        if stream:
            return await self.streamed(answering)
        return Response(await answering.body(request.receive), media_type="application/json")


def context(engine: Engine) -> int | None:
    """The most tokens of a prompt and its answer, as far as the engine has said so."""
    known = engine.about.get("context")
    return known if isinstance(known, int) else None


def fingerprint(engine: Engine) -> str:
    """What answers depend on beside the request: the model's bytes and the numerics version."""
    return (
        "fp_"
        + sha256(f"{engine.about.get('digest')}{engine.about.get('numerics')}".encode()).hexdigest()[:16]
    )


def short(answer: object, engine: Engine, place: str) -> list[int]:
    """The tokens, if there is room for one more. Raises Refusal."""
    assert isinstance(answer, Tokens)
    most, count = context(engine), len(answer.tokens)
    if most is not None and count >= most:
        text = (
            f"{place}: the model's context is {most} tokens; the prompt has {count}, none is left to answer"
        )
        raise Refusal(400, text, param=place, code="context_length_exceeded")
    if not count:
        raise Refusal(400, f"{place}: wanted at least one token; got none", param=place)
    return answer.tokens
