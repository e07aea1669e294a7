"""What workers are told by their supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def told(argument: str, kind: type[T]) -> T:
    """The configuration on a command line: JSON, or a file of it, which other users can't read as they can a
    command line.
    """
    data = argument.encode() if argument.startswith("{") else Path(argument).read_bytes()
    return msgspec.json.decode(data, type=kind)


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a supervisor says: `model` as `assay.load` takes it, `socket` and `alive` files, the latter
    touched at each sign of life; `journal` a folder or a URL. The others are flags of `assay serve`.
    """

    name: str
    model: str
    socket: str
    alive: str
    threads: int
    log: str | None = None
    journal: str | None = None
    queue: int = 256
    slice_ms: float = 50.0
    max_batch_tokens: int = 4096
    context: int | None = None
    cache_tokens: int | None = None
    drain_seconds: float = 30.0
    adapters: dict[str, str] = {}
    quantize: str | None = None


class TokenizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a supervisor says: names of models and the paths of their files or folders."""

    name: str
    models: dict[str, str]
    socket: str
    alive: str
    log: str | None = None
