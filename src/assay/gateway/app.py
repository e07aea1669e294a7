"""All routes."""

from __future__ import annotations

import asyncio
import base64
import hmac

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from assay import metrics
from assay.gateway.backend import Engine, Mailbox
from assay.gateway.door import Door, parsed
from assay.gateway.errors import Gone, Refusal
from assay.gateway.openapi import document
from assay.gateway.responses import ResponseRoutes
from assay.gateway.resume import ResumeRoutes
from assay.gateway.schema.answers import (
    Detokenized,
    Embedding,
    Embeddings,
    EmbeddingUsage,
    ModelCard,
    ModelList,
    Tokenized,
)
from assay.gateway.schema.others import DetokenizeRequest, EmbeddingRequest, TokenizeRequest, inputs
from assay.gateway.sockets import SocketRoutes
from assay.gateway.text import TextRoutes, context, new_id
from assay.serving.messages import Decode, Embed, Encode, Text, Tokens, Vectors


class Routes:
    """What isn't an answer of a language model."""

    def __init__(self, door: Door) -> None:
        self.door, self.backend, self.limits = door, door.backend, door.config.limits

    async def health(self, request: Request) -> Response:
        """Alive: this process answers."""
        return _json({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Ready: every engine is there, and its steps go on."""
        engines = {name: engine.ready for name, engine in self.backend.engines.items()}
        ready = self.backend.ready and not self.door.draining
        found = {"ready": ready, "draining": self.door.draining, "engines": engines,
                 "tokenizers": self.backend.tokenizers.there}  # fmt: skip
        return _json(found, 200 if ready else 503)

    async def openapi(self, request: Request) -> Response:
        """What can be asked, for programs."""
        return Response(document(self.door.keys.wanted), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        """Prometheus's text format."""
        key, given = self.door.config.metrics_key, request.headers.get("authorization", "")
        if key and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            raise Refusal(401, "a key is wanted for metrics", code="invalid_api_key")
        data = await asyncio.to_thread(metrics.exposition, self.door.config.metrics)
        return Response(data, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def models(self, request: Request) -> Response:
        """Models and routes."""
        return _json(ModelList([self._card(name) for name in self.backend.names]))

    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        if name not in self.backend.names:
            raise Refusal(404, f"no model {name[:80]!r}", param="model", code="model_not_found")
        return _json(self._card(name))

    async def embed(self, request: Request) -> Response:
        """The vectors of texts."""
        body = await parsed(request, EmbeddingRequest, self.limits)
        engine = self.backend.engine(body.model, "vectors", body.user)
        texts = []
        for number, each in enumerate(inputs(body.input, "input", 2048)):
            if isinstance(each, str):
                if not each:
                    raise Refusal(400, f"input[{number}]: the text is empty", param=f"input[{number}]")
                try:
                    question = Encode("", engine.config.name, each, most=context(engine))
                    answer = await self.backend.tokenizers.ask(question)
                except Refusal as refusal:
                    refusal.body.param = f"input[{number}]"
                    raise
                assert isinstance(answer, Tokens)
                texts.append(answer.tokens)
            else:
                texts.append(each)
        box = Mailbox()
        call = engine.ask(Embed(new_id("embd-"), texts), box)
        vectors = None
        try:
            while vectors is None:
                vectors = next((event for _, event in await box.next() if isinstance(event, Vectors)), None)
        finally:
            call.close()
        data = await asyncio.to_thread(_embeddings, vectors, body)
        return Response(data, media_type="application/json")

    async def tokenize(self, request: Request) -> Response:
        """A text's tokens."""
        body = await parsed(request, TokenizeRequest, self.limits)
        engine = self._any(body.model)
        question = Encode("", engine.config.name, body.prompt, ends=body.add_special_tokens)
        answer = await self.backend.tokenizers.ask(question)
        assert isinstance(answer, Tokens)
        return _json(Tokenized(answer.tokens, len(answer.tokens), context(engine)))

    async def detokenize(self, request: Request) -> Response:
        """The text of tokens."""
        body = await parsed(request, DetokenizeRequest, self.limits)
        question = Decode("", self._any(body.model).config.name, body.tokens)
        answer = await self.backend.tokenizers.ask(question)
        assert isinstance(answer, Text)
        return _json(Detokenized(answer.text))

    def _any(self, name: str) -> Engine:
        kind = self.backend.engines[name].config.kind if name in self.backend.engines else "text"
        return self.backend.engine(name, kind, None)

    def _card(self, name: str) -> ModelCard:
        engine = self.backend.engines.get(name)
        if engine is None:
            return ModelCard(name, 0)
        return ModelCard(name, engine.config.created, context(engine))


def _embeddings(vectors: Vectors, body: EmbeddingRequest) -> bytes:
    rows, found = np.frombuffer(vectors.values, "<f4").reshape(-1, vectors.width), list[Embedding]()
    for number, row in enumerate(rows):
        spelled = body.encoding_format == "base64"
        found.append(Embedding(number, base64.b64encode(row.tobytes()).decode() if spelled else row.tolist()))
    usage = EmbeddingUsage(vectors.tokens, vectors.tokens)
    return msgspec.json.encode(Embeddings(found, body.model, usage))


def application(door: Door) -> Starlette:
    """The application behind the door."""
    routes, text, resume = Routes(door), TextRoutes(door), ResumeRoutes(door)
    responses = ResponseRoutes(door, text)
    sockets = SocketRoutes(door, text)
    made = Starlette(
        routes=[
            Route("/health", routes.health, methods=["GET"]),
            Route("/ready", routes.ready, methods=["GET"]),
            Route("/openapi.json", routes.openapi, methods=["GET"]),
            WebSocketRoute("/v1/session", sockets.session),
            WebSocketRoute("/logs", sockets.logs),
            Route("/metrics", routes.metrics, methods=["GET"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{name:path}", routes.model, methods=["GET"]),
            Route("/v1/chat/completions", text.chat, methods=["POST"]),
            Route("/v1/completions", text.complete, methods=["POST"]),
            Route("/v1/responses", responses.create, methods=["POST"]),
            Route("/v1/responses/{id}", responses.get, methods=["GET"]),
            Route("/v1/responses/{id}/cancel", responses.cancel, methods=["POST"]),
            Route("/v1/embeddings", routes.embed, methods=["POST"]),
            Route("/v1/streams/{id}", resume.stream, methods=["GET"]),
            Route("/tokenize", routes.tokenize, methods=["POST"]),
            Route("/detokenize", routes.detokenize, methods=["POST"]),
        ],
        middleware=_for_browsers(door.config.origins),
        exception_handlers={
            Refusal: _refused,
            HTTPException: _named,
            Gone: _left,
            ClientDisconnect: _left,
            Exception: _failed,
        },
    )
    door.app = made
    return made


def _for_browsers(origins: list[str]) -> list[Middleware]:
    """Pages of these origins may ask."""
    if not origins:
        return []
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["retry-after"],
    )
    return [cors]


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return Response(error.encoded(), error.status, dict(error.headers), media_type="application/json")


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _failed(request: Request, error: Exception) -> Response:
    return await _refused(request, Refusal(500, "an error of the server; it is in its log"))


async def _named(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path[:80]}: {error.detail}"
    return Response(Refusal(error.status_code, text).encoded(), error.status_code, error.headers,
                    media_type="application/json")  # fmt: skip


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
