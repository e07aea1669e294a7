"""A whole service: from what a person asks for to the processes that there are to be."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import msgspec

from assay.errors import RequestError
from assay.gateway.config import GatewayConfig, Limits, ModelConfig, Route
from assay.llm.source import open_source
from assay.serving.children import Spec
from assay.serving.config import EngineConfig, TokenizerConfig
from assay.settings import child_environment


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The flags of `assay serve`, and what only its configuration file says: `routes`, `limits`, `adapters`
    of models, `heartbeat`, `origins`.
    """

    models: dict[str, str]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 1
    max_batch_tokens: int = 4096
    slice_ms: float = 50.0
    queue: int = 256
    context: int | None = None
    cache_tokens: int | None = None
    quantize: str | None = None
    api_key_file: str | None = None
    metrics_key: str | None = None
    journal: str | None = None
    drain_seconds: float = 30.0
    heartbeat: float = 15.0
    routes: dict[str, dict[str, float]] = {}
    limits: Limits = Limits()
    origins: list[str] = []
    adapters: dict[str, dict[str, str]] = {}


def specs(service: Service, folder: Path) -> list[Spec]:
    """The processes, in the order of starting. `folder` is where their sockets, logs and records lie. Raises
    AssayError for a model that can't be served.
    """
    for name in ("log", "metrics", "children", "alive", "config"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    environment = child_environment("PROMETHEUS_", {"PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")})
    kinds = {name: _kind(name, path) for name, path in service.models.items()}
    write_routes(service, folder)
    journal = (
        str(folder) if service.journal is None else None if service.journal == "none" else service.journal
    )
    found = []

    def spec(name: str, module: str, config: msgspec.Struct, where: str) -> None:
        path, data = folder / "config" / f"{name}.json", msgspec.json.encode(config)
        path.touch(0o600)
        path.write_bytes(data)
        argv = (sys.executable, "-m", module, str(path))
        found.append(
            Spec(
                name,
                argv,
                str(folder / "alive" / name),
                where,
                sha256(data).hexdigest(),
                tuple(sorted(environment.items())),
            )
        )

    def files(name: str) -> dict[str, str]:
        return {"alive": str(folder / "alive" / name), "log": str(folder / "log" / f"{name}.jsonl")}

    for name, path in service.models.items():
        texts = kinds[name] == "text"
        process = f"engine-{name}"
        socket = str(folder / f"{process}.sock")
        engine = EngineConfig(
            name=name,
            model=path,
            socket=socket,
            threads=service.threads,
            journal=journal,
            queue=service.queue,
            slice_ms=service.slice_ms,
            max_batch_tokens=service.max_batch_tokens,
            context=service.context,
            cache_tokens=service.cache_tokens if texts else None,
            drain_seconds=service.drain_seconds,
            adapters=service.adapters.get(name, {}),
            quantize=service.quantize,
            **files(process),
        )
        spec(process, "assay.serving.engine_worker", engine, f"{path}")
    sockets = []
    for number in range(2):
        process = f"tokenizer-{number}"
        sockets.append(str(folder / f"{process}.sock"))
        config = TokenizerConfig(name=process, models=service.models, socket=sockets[-1], **files(process))
        spec(process, "assay.serving.tokenizer_worker", config, "standby" if number else "active")
    models = [
        ModelConfig(name, kinds[name], str(folder / f"engine-{name}.sock"), int(Path(path).stat().st_mtime))
        for name, path in service.models.items()
    ]
    for number in range(service.workers):
        process = f"gateway-{number}"
        gateway = GatewayConfig(
            name=process,
            host=service.host,
            port=service.port,
            models=models,
            tokenizers=sockets,
            routes=str(folder / "routes.json"),
            keys=service.api_key_file,
            limits=service.limits,
            heartbeat=service.heartbeat,
            logs=str(folder / "log"),
            metrics=str(folder / "metrics"),
            metrics_key=service.metrics_key,
            origins=service.origins,
            drain_seconds=service.drain_seconds,
            **files(process),
        )
        spec(process, "assay.gateway.main", gateway, f"http://{service.host}:{service.port}")
    return found


def write_routes(service: Service, folder: Path) -> None:
    """Where gateways read them. Raises RequestError for routes of models that there aren't."""
    _held(service)
    found = [Route(name, weights) for name, weights in service.routes.items()]
    new = folder / "routes.new"
    new.write_bytes(msgspec.json.encode(found))
    new.replace(folder / "routes.json")


def _held(service: Service) -> None:
    """Raise RequestError for routes and adapters of models that there aren't."""
    for route, weights in service.routes.items():
        if route in service.models:
            raise RequestError("a route with a model's name", place=f"routes.{route}")
        for name, weight in weights.items():
            if name not in service.models:
                want = ", ".join(service.models)
                raise RequestError("no such model", place=f"routes.{route}", want=want, got=name)
            if not 0 <= weight < float("inf"):
                raise RequestError("a weight out of range", place=f"routes.{route}.{name}", got=str(weight))
        if not sum(weights.values()) > 0:
            raise RequestError("a route without weight", place=f"routes.{route}", want="more than 0 in all")
    for name in service.adapters:
        if name not in service.models:
            raise RequestError(
                "no such model", place=f"adapters.{name}", want=", ".join(service.models), got=name
            )


def _kind(name: str, path: str) -> str:
    if Path(path).suffix == ".onnx":
        want = "a language model or an embedder"
        raise RequestError("graphs are not served yet", place=name, want=want, got=path)
    with open_source(Path(path)) as source:
        return "vectors" if source.model.embeds else "text"
