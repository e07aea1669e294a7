from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import hub
from serving.service import Service, serving

KEY = "sk-of-the-tests"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[Service]:
    """A language model, an embedder, a route that is one of both, and heartbeats of a tenth of a second."""
    folder = tmp_path_factory.mktemp("service")
    config = folder / "service.toml"
    config.write_text(
        f"""
heartbeat = 0.1
threads = 2
queue = 40
[models]
smollm2 = "{smollm2_path}"
other = "{smollm2_path}"
minilm = "{hub.pull("minilm")}"
[routes.either]
smollm2 = 3
other = 1
[limits]
body = 1000000
headers = 40
header_seconds = 1.0
body_seconds = 1.0
"""
    )
    with serving(folder / "run", "--config", str(config)) as made:
        yield made


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[Service]:
    """One that wants a key."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"# keys\n{hashlib.sha256(KEY.encode()).hexdigest()} tester\n")
    flags = "--api-key-file", str(folder / "keys"), "--metrics-key", "m"
    with serving(folder / "run", f"smollm2={smollm2_path}", "--threads", "1", *flags) as made:
        yield made
