"""A gateway alone, whose workers do what a prompt says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.gate import Gate, chat, gated


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with gated(tmp_path_factory.mktemp("gate")) as made:
        yield made


def test_an_answer(gate: Gate) -> None:
    status, body = gate.post(chat("Hello"))
    assert status == 200 and body["choices"][0]["message"]["content"] == "Hello"
