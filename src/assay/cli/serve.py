"""Serve language models and embedders over OpenAI's protocol.

Starts an engine for each model, two tokeniser workers and the gateways, and starts again what
ends. A model is a name, a path, or NAME=PATH. SIGTERM or Ctrl-C lets running answers end, SIGHUP
reads keys again. Processes that a killed `assay serve` left behind go on, and the next one takes
them over. A configuration file (TOML) has the same names as the flags, with tables [models],
[routes.NAME], [limits]; flags go before it.

    assay serve smollm2
    assay serve chat=./model.gguf minilm --port 9000 --threads 2
    assay serve smollm2 --api-key-file keys.txt --journal redis://localhost:6379/0
    assay serve --config service.toml
    assay serve --new-key >> keys.txt
"""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import signal
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assay import settings
from assay.cli import interrupt, options, streams
from assay.cli.command import NO, Argument, Report, Values
from assay.cli.model import find_weights
from assay.cli.progress import Bars
from assay.cli.text import table
from assay.errors import AssayError, FormatError, RequestError, within
from assay.gateway.service import Service, specs, write_routes
from assay.serving.children import Child
from assay.serving.log import Log

if TYPE_CHECKING:
    from assay.serving.supervisor import Supervisor

SLACK = 10.0
"""Seconds beyond those for draining after which processes are killed."""
LONGEST_PATH = 90
"""Bytes of the folder's name: a socket's path has at most 107."""

ARGUMENTS = (
    Argument("models", "names, paths, or NAME=PATH", nargs="*"),
    Argument("--host", "address to listen at (default: 127.0.0.1)", "HOST"),
    Argument("--port", "port to listen at (default: 8000)", "N", options.whole(1)),
    Argument("--workers", "gateway processes (default: 1)", "N", options.whole(1)),
    Argument("--threads", "threads of each engine; no result depends on it", "N", options.whole(1)),
    Argument("--max-batch-tokens", "tokens of a step at most (default: 4096)", "N", options.whole(1)),
    Argument("--slice-ms", "milliseconds of a step, about (default: 50)", "X", options.number),
    Argument("--queue", "requests that wait at most; more get 429 (default: 256)", "N", options.whole(1)),
    Argument("--context", "tokens of a prompt and its answer (default: the model's)", "N", options.whole(1)),
    Argument("--cache-tokens", "tokens that the cache holds of all requests", "N", options.whole(1)),
    Argument("--quantize", options.ROUNDED, "TYPE", options.KINDS),
    Argument("--api-key-file", "lines of SHA-256 of keys; requests need one then", "FILE"),
    Argument("--metrics-key", "the key that /metrics wants instead", "KEY"),
    Argument("--journal", "a folder, a redis:// URL, or none (default: the run folder)", "URL"),
    Argument(
        "--drain-seconds", "how long running answers may take at the end (default: 30)", "X", options.number
    ),
    Argument("--run-dir", "folder for sockets, logs and the journal (default: by port)", "FOLDER"),
    Argument("--config", "a TOML file with the same, and routes and limits", "FILE"),
    Argument(
        "--new-key", "make a key: it is told on standard error, its line for the file on standard output"
    ),
    Argument("--json", "print what happens as lines of JSON"),
)


def run(arguments: Values) -> Report | None:
    if arguments.new_key:
        key = f"sk-{secrets.token_urlsafe(32)}"
        streams.complain(f"key {key}")
        return Report(None, [f"{hashlib.sha256(key.encode()).hexdigest()} {time.strftime('%Y-%m-%d')}"])
    service = _service(arguments)
    folder = _folder(arguments.run_dir, service.port)
    told = _Told(arguments.json)
    processes = specs(service, folder)
    settings.gather_metrics(folder / "metrics")
    from assay.serving.supervisor import Supervisor

    supervisor = Supervisor(folder, processes, Log("supervisor", folder / "log-supervisor"), told)
    asked = _Asked()
    with interrupt.calls(lambda *_: asked.stop()):
        signal.signal(signal.SIGTERM, lambda *_: asked.stop())
        signal.signal(signal.SIGHUP, lambda *_: asked.reload())
        supervisor.start()
        told.table(supervisor)
        began, ready = time.monotonic(), False
        while not asked.stopping:
            supervisor.watch(0.25)
            if not ready and _ready(service):
                ready = True
                told.ready(service, time.monotonic() - began)
            if asked.reloading:
                asked.reloading = False
                _reload(arguments, folder, told)
                supervisor.reload()
        told.say("draining", "running answers may end; again Ctrl-C kills")
        clean = supervisor.stop(service.drain_seconds + SLACK)
    return None if clean else Report(None, [], NO)


def _reload(arguments: Values, folder: Path, told: _Told) -> None:
    """Read the configuration's routes again; what isn't sound is told, and nothing changes."""
    try:
        write_routes(_service(arguments), folder)
        told.say("reloaded", "keys and routes")
    except AssayError as error:
        told.say("not reloaded", str(error))


class _Asked:
    """What signals asked for."""

    stopping = reloading = False

    def stop(self) -> None:
        if self.stopping:
            interrupt.end()
        self.stopping = True

    def reload(self) -> None:
        self.reloading = True


class _Told:
    """Says what happens, in lines for people or in JSON."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._begun = False

    def __call__(self, what: str, child: Child) -> None:
        if self._begun or self._json:
            self.say(what, child.spec.name, pid=child.pid)

    def say(self, what: str, text: str, **more: object) -> None:
        """One line."""
        line = json.dumps({"event": what, "text": text, **more}) if self._json else f"{what}  {text}"
        print(line, flush=True)

    def table(self, supervisor: Supervisor) -> None:
        """What runs where."""
        self._begun = True
        if not self._json:
            rows = [(name, child.pid, child.spec.where) for name, child in supervisor.children.items()]
            print("\n".join(table([("process", "pid", "where"), *rows])), flush=True)

    def ready(self, service: Service, seconds: float) -> None:
        """Requests are served."""
        url = f"http://{service.host}:{service.port}"
        names = ", ".join([*service.models, *service.routes])
        self.say("ready", f"{url}/v1 after {seconds:.1f} s: {names}")


def _service(arguments: Values) -> Service:
    """What is asked for, with models found, and fetched where they aren't here. Raises AssayError."""
    given: dict[str, object] = {}
    if arguments.config:
        path = Path(arguments.config)
        try:
            given = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FormatError("a configuration that can't be read", place=str(path), got=str(error)) from None
    known = {field.name for field in msgspec.structs.fields(Service)}
    flags = {name: value for name, value in vars(arguments).items() if name in known and value is not None}
    models = {**_mapping(given.get("models", {})), **dict(_named(each) for each in flags.pop("models", []))}
    given |= flags
    if not models:
        raise RequestError(
            "no model", place="MODEL", want="a name, a path, or NAME=PATH", hint="assay serve smollm2"
        )
    with Bars() as progress:
        paths = {name: str(find_weights(where, progress).resolve()) for name, where in models.items()}
    defaults = {"threads": settings.THREADS.get()}
    try:
        service = msgspec.convert({**defaults, **given, "models": paths}, Service)
    except msgspec.ValidationError as error:
        raise RequestError(
            "a configuration that isn't sound", place=arguments.config or "", got=str(error)
        ) from None
    if service.api_key_file:
        from assay.gateway.door import Keys

        with within("--api-key-file"):
            Keys(Path(service.api_key_file))
        service = msgspec.structs.replace(service, api_key_file=str(Path(service.api_key_file).resolve()))
    return service


def _mapping(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise RequestError("no table of models", place="models", want="names and paths")
    return value


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if equals:
        return name, path
    return Path(text).stem if "/" in text or "." in text else text, text


def _folder(given: str | None, port: int) -> Path:
    """The private folder of this service. Raises RequestError."""
    folder = Path(given).resolve() if given else settings.CACHE.get() / "serve" / str(port)
    if len(str(folder)) > LONGEST_PATH:
        hint = "choose a shorter one with --run-dir"
        raise RequestError("a folder with too long a name", place="--run-dir", got=str(folder), hint=hint)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise RequestError("a folder that can't be used", place=str(folder), got=str(error)) from None
    return folder


def _ready(service: Service) -> bool:
    host = "127.0.0.1" if service.host in ("0.0.0.0", "") else service.host
    connection = http.client.HTTPConnection(host, service.port, timeout=1.0)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
