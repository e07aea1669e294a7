"""The process of a gateway: `python -m assay.gateway.main CONFIG`, in JSON."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

import uvicorn

from assay import metrics
from assay.errors import AssayError
from assay.gateway.app import application
from assay.gateway.backend import Backend
from assay.gateway.config import GatewayConfig
from assay.gateway.door import Door, Keys
from assay.gateway.protocol import guarded
from assay.serving.config import told
from assay.serving.log import Log
from assay.serving.messages import VERSION, Hello

BEAT = 0.25
"""Seconds from one sign of life to the next."""


async def serve(config: GatewayConfig, log: Log) -> None:
    """Serve until SIGTERM, and then as long as there are streams, but no longer than `drain_seconds`."""
    backend = Backend(config, Hello(VERSION, "gateway", config.name, os.getpid()), log)
    door = Door(config, backend, Keys(Path(config.keys) if config.keys else None), log)
    application(door)
    server = uvicorn.Server(
        uvicorn.Config(
            door,
            http=guarded(config.limits),
            ws="websockets-sansio",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=int(config.limits.idle_seconds),
            timeout_graceful_shutdown=int(config.drain_seconds),
            backlog=2048,
        )
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _reload, door, log)
    listening = _bound(config.host, config.port)
    beating = loop.create_task(_beat(config, backend, log))
    ending = loop.create_task(_drain(server, door, config.drain_seconds))
    log("ready", host=config.host, port=config.port)
    await server.serve(sockets=[listening])
    for task in (beating, ending):
        task.cancel()
    await backend.close()
    log("drained", left=door.in_flight)


async def _drain(server: uvicorn.Server, door: Door, seconds: float) -> None:
    """On SIGTERM: take nothing new, and end when all that runs has ended."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()
    door.draining = True
    end = time.monotonic() + seconds
    while door.in_flight and time.monotonic() < end:
        await asyncio.sleep(0.05)
    server.should_exit = True


async def _beat(config: GatewayConfig, backend: Backend, log: Log) -> None:
    """Show that the loop goes on, and how late it is."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(BEAT)
        metrics.LOOP.observe(max(0.0, time.monotonic() - before - BEAT))
        Path(config.alive).touch(0o600)
        metrics.HEARTBEAT.labels(log.process).set(time.time())
        for engine in backend.engines.values():
            engine.expire()


def _reload(door: Door, log: Log) -> None:
    try:
        door.keys.reload()
        door.backend.reload()
        log("reloaded")
    except AssayError as error:
        log("not reloaded", error=error.rule, place=error.place)


def _bound(host: str, port: int) -> socket.socket:
    """A socket that several gateways listen at."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((host, port))
    return made


def main() -> int:
    """Run the gateway that the command line describes; 1 where it can't begin."""
    config = told(sys.argv[1], GatewayConfig)
    log = Log(config.name, Path(config.log) if config.log else None)
    log.catch()
    try:
        import uvloop

        uvloop.run(serve(config, log))
    except (AssayError, OSError) as error:
        log("can't begin", error=type(error).__name__, text=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
