"""What a gateway is told by its supervisor."""

from __future__ import annotations

import msgspec


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model under its name: "text" or "vectors", and its engine's socket."""

    name: str
    kind: str
    socket: str
    created: int = 0


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name that stands for several models: a user is given one of them, always the same, as often as its
    weight says.
    """

    name: str
    weights: dict[str, float]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is refused at the door. Seconds, bytes and counts."""

    body: int = 2 << 20
    depth: int = 64
    headers: int = 64
    header_bytes: int = 32 << 10
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    in_flight: int = 1024
    per_key: int = 256


class GatewayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tokenizers` are sockets, the first one active. `keys` is a file of SHA-256 digests of API keys and
    `routes` one of Routes in JSON; both are read again at SIGHUP. Pages of `origins` may ask from a browser;
    "*" is any.
    """

    name: str
    host: str
    port: int
    models: list[ModelConfig]
    tokenizers: list[str]
    alive: str
    routes: str | None = None
    keys: str | None = None
    limits: Limits = Limits()
    heartbeat: float = 15.0
    log: str | None = None
    logs: str | None = None
    metrics: str | None = None
    metrics_key: str | None = None
    drain_seconds: float = 30.0
    origins: list[str] = []
