"""What a service counts and times: every metric, its unit and its meaning, in one place.

The processes of a service write into files of one folder, so that what is read at `/metrics` is the sum over
all of them and over their restarts (prometheus_client's multiprocess mode). That folder is said by the
environment before this is imported; without it, the metrics are this process's own.
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

WAITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SHORT = (0.0001, 0.0003, 0.001, 0.003, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def _counter(name: str, help: str, *labels: str) -> Counter:
    return Counter(f"assay_{name}", help, labels)


def _gauge(name: str, help: str, *labels: str) -> Gauge:
    return Gauge(f"assay_{name}", help, labels, multiprocess_mode="livemostrecent")


def _sum(name: str, help: str, *labels: str) -> Gauge:
    return Gauge(f"assay_{name}", help, labels, multiprocess_mode="livesum")


def _histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(f"assay_{name}", help, labels, buckets=buckets)


REQUESTS = _counter("http_requests", "Answers of the gateway, by route and status.", "route", "status")
SHED = _counter("requests_shed", "Requests turned away at the door, by the reason.", "reason")
CONNECTIONS = _sum("connections_active", "Open connections of clients.")
SOCKETS = _sum("ws_connections_active", "Open WebSockets.")
STREAMS = _sum("streams_active", "Answers that are being streamed.")
RESUMED = _counter(
    "streams_resumed", "Streams that went on where a client, a gateway or an engine had stopped."
)
TTFT = _histogram(
    "ttft_seconds", "From a request's arrival at the gateway to its first token.", WAITS, "model"
)
DURATION = _histogram(
    "request_seconds", "From a request's arrival at the gateway to its end.", WAITS, "model"
)
LOOP = _histogram("gateway_loop_delay_seconds", "How late the gateway's event loop is.", SHORT)
TOKENIZER = _histogram("tokenizer_latency_seconds", "From asking a tokeniser worker to its answer.", SHORT)
TAKEOVERS = _counter("tokenizer_takeovers", "Times that the standby took over.")

QUEUE = _histogram(
    "queue_seconds", "From a request's arrival at the engine to its first step.", WAITS, "model"
)
BETWEEN = _histogram("inter_token_seconds", "From one token of an answer to the next.", WAITS, "model")
PROMPT_TOKENS = _counter("prompt_tokens", "Tokens of prompts that were admitted.", "model")
CACHED_TOKENS = _counter("cached_tokens", "Tokens of prompts that were in the cache already.", "model")
NEW_TOKENS = _counter("generation_tokens", "Tokens that were drawn.", "model")
FINISHED = _counter("requests_finished", "Answers, by how they ended.", "model", "reason")
BATCH = _histogram("batch_tokens", "Tokens of a step.", SIZES, "model")
STEP = _histogram("step_seconds", "A step of the engine.", WAITS, "model")
WAITING = _gauge("batch_queue_length", "Requests that wait for their first step.", "model")
RUNNING = _gauge("requests_running", "Requests that share the engine's steps.", "model")
BLOCKS = _gauge("kv_blocks", "Blocks of the cache.", "model")
BLOCKS_FREE = _gauge("kv_blocks_free", "Blocks of the cache that no running request holds.", "model")
PREEMPTIONS = _counter("preemptions", "Requests that gave their blocks back and began again later.", "model")
HEARTBEAT = _gauge("heartbeat_timestamp_seconds", "When a process last showed that it goes on.", "process")
RESTARTS = _counter("restarts", "Processes that the supervisor started again.", "process")
JOURNAL_LAG = _gauge("journal_lag_seconds", "Age of the oldest tokens not yet in the journal.", "model")
JOURNAL_OFF = _gauge("journal_off", "1 while the service goes on without its journal.", "model")


def exposition(folder: str | None) -> bytes:
    """All metrics in Prometheus's text format: of all processes that write to `folder`, or this one's own."""
    if folder is None:
        return bytes(generate_latest(REGISTRY))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return bytes(generate_latest(registry))


def dead(pid: int, folder: str) -> None:
    """A process is gone: its gauges no longer count, its counters do."""
    mark_process_dead(pid, path=folder)  # type: ignore[no-untyped-call]
