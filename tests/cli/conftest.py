from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import assay
from assay.cli.dispatch import execute


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process."""

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        capfd.readouterr()
        code = execute(arguments)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def smollm2() -> assay.LanguageModel:
    return assay.load("smollm2", threads=2, context=1024, cache_tokens=4096)


@pytest.fixture
def loaded(smollm2: assay.LanguageModel, monkeypatch: pytest.MonkeyPatch) -> assay.LanguageModel:
    """Commands get this model instead of loading it each time."""
    monkeypatch.setattr("assay.cli.model.load", lambda name, **options: smollm2)
    return smollm2
