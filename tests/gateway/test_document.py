"""The OpenAPI document: what it says is so, whatever is asked."""

from __future__ import annotations

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from serving.service import Service

OPERATIONS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/{id}"),
    ("POST", "/v1/responses/{id}/cancel"),
    ("GET", "/v1/streams/{id}"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
]


def test_the_document_has_all_routes(service: Service) -> None:
    document = json.loads(service.get("/openapi.json")[1])
    assert document["openapi"] == "3.1.0" and "security" not in document
    found = {(method.upper(), path) for path, each in document["paths"].items() for method in each}
    assert found == {*OPERATIONS, ("GET", "/health"), ("GET", "/ready")}


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nothing_that_is_asked_is_an_error_of_the_server(service: Service, method: str, path: str) -> None:
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operation = schema[path][method]
    quick = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

    @given(operation.as_strategy(), st.sampled_from(["smollm2", "minilm", "either", "x"]))
    @settings(
        max_examples=40, deadline=None, suppress_health_check=quick, phases=[Phase.generate], derandomize=True
    )
    def ask(case: schemathesis.Case, model: str) -> None:
        if isinstance(case.body, dict):
            case.body["model"] = model
            # An answer without a limit may be as long as the context.
            case.body.pop("max_completion_tokens", None)
            case.body["max_output_tokens" if path == "/v1/responses" else "max_tokens"] = 3
        response = case.call(timeout=60)
        assert response.status_code < 500 or response.status_code in (503, 504), response.text
        if response.status_code >= 400:
            assert response.json()["error"]["message"]

    ask()
