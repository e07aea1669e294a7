"""The OpenAPI document: from the very types that bodies are held against."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from assay.gateway.errors import ErrorAnswer
from assay.gateway.schema import answers, others
from assay.gateway.schema.chat import ChatRequest
from assay.gateway.schema.responses import ResponseRequest

ASKED = (400, 401, 404, 408, 413, 429, 431, 500, 503, 504)
"""Refusals of what asks an engine."""


class Operation(NamedTuple):
    """A route as the document has it."""

    path: str
    method: str
    about: str
    body: type | None = None
    answer: type | None = None
    stream: bool = False
    refused: tuple[int, ...] = ASKED


C, T, E = ChatRequest, others.CompletionRequest, others.EmbeddingRequest
SOME = (400, 401, 404, 500)
OPERATIONS = (
    Operation("/v1/chat/completions", "post", "Continue a conversation.", C, answers.ChatCompletion, True),
    Operation("/v1/completions", "post", "Continue texts.", T, answers.Completion, True),
    Operation("/v1/responses", "post", "Answer an input.", ResponseRequest, dict, True),
    Operation("/v1/responses/{id}", "get", "A response as far as it is.", None, dict, True, SOME),
    Operation("/v1/responses/{id}/cancel", "post", "Stop a background response.", None, dict),
    Operation("/v1/streams/{id}", "get", "Go on with a stream.", None, None, True, SOME),
    Operation("/v1/embeddings", "post", "Vectors of texts.", E, answers.Embeddings),
    Operation("/v1/models", "get", "Models and routes.", None, answers.ModelList, False, SOME),
    Operation("/v1/models/{name}", "get", "One of them.", None, answers.ModelCard, False, SOME),
    Operation("/tokenize", "post", "A text's tokens.", others.TokenizeRequest, answers.Tokenized),
    Operation("/detokenize", "post", "The text of tokens.", others.DetokenizeRequest, answers.Detokenized),
)  # fmt: skip
OPEN = ("/health", "/ready")


def document(keys: bool) -> bytes:
    """The document, in JSON. `keys`: requests need one."""
    kinds = [each for op in OPERATIONS for each in (op.body, op.answer) if each and each is not dict]
    refs, components = msgspec.json.schema_components(
        [*kinds, ErrorAnswer], ref_template="#/components/schemas/{name}"
    )
    for made in components.values():
        if made.get("additionalProperties") is False:  # of a request: what has a default may be left out
            for each in made["properties"].values():
                each.pop("default", None)
    schemas = dict(zip([*kinds, ErrorAnswer], refs, strict=True)) | {dict: {"type": "object"}}
    paths: dict[str, dict[str, object]] = {}
    for op in OPERATIONS:
        paths.setdefault(op.path, {})[op.method] = _operation(op, schemas)
    for path in OPEN:
        answer = {"application/json": {"schema": {"type": "object"}}}
        told = {code: {"description": "It is, or not.", "content": answer} for code in ("200", "503")}
        paths[path] = {
            "get": {"summary": path[1:], "operationId": path[1:], "responses": told, "security": []}
        }
    found: dict[str, object] = {
        "openapi": "3.1.0",
        "info": {"title": "Assay", "version": "1", "description": "Language models over OpenAI's protocol."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if keys:
        found["security"] = [{"key": []}]
    return msgspec.json.encode(found)


def _operation(op: Operation, schemas: dict[type, dict[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    if op.answer:
        content["application/json"] = {"schema": schemas[op.answer]}
    if op.stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    failure = {"application/json": {"schema": schemas[ErrorAnswer]}}
    responses: dict[str, object] = {"200": {"description": "Done.", "content": content}}
    responses |= {str(code): {"description": "Refused.", "content": failure} for code in op.refused}
    name = op.path.strip("/").replace("/", "_").replace("{", "").replace("}", "")
    made: dict[str, object] = {"summary": op.about, "operationId": f"{op.method}_{name}"}
    made["responses"] = responses
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for part in op.path.split("/")
        if part.startswith("{")
    ]
    if op.path == "/v1/responses/{id}":
        choices = {"type": "string", "enum": ["true", "false"]}
        parameters.append({"name": "stream", "in": "query", "required": False, "schema": choices})
        number = {"type": "integer", "minimum": 0, "maximum": 999999999}
        parameters.append({"name": "starting_after", "in": "query", "required": False, "schema": number})
    if op.path == "/v1/streams/{id}":
        text = {"type": "string"}
        parameters.append({"name": "last_event_id", "in": "query", "required": False, "schema": text})
    if parameters:
        made["parameters"] = parameters
    if op.body:
        content = {"application/json": {"schema": schemas[op.body]}}
        made["requestBody"] = {"required": True, "content": content}
    return made
