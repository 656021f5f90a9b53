"""Runs the service: OpenFlow on one side, HTTP on the other, one event loop, log lines as JSON on standard error."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.api import create_app
from ferrule_fabric.manager.guard import CONNECTIONS_MAX, GuardedProtocol
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import GROUPS_MAX, TABLE_ENTRIES_MAX
from ferrule_fabric.openflow.labels import LABELS_MAX
from ferrule_fabric.store.database import PatternStore

_OWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


@dataclass(frozen=True)
class Settings:
    """How the service runs. ``api`` and ``openflow`` are ``unix:PATH`` or ``HOST:PORT``."""

    store: str
    api: str
    openflow: str
    token: str | None = None
    group: int | None = None
    entries_max: int = TABLE_ENTRIES_MAX
    algorithm: str = "ferrule-time"
    admins: tuple[int, ...] = ()
    groups_max: int = GROUPS_MAX
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_clients: str | None = None
    web: str | None = None
    labels_max: int = LABELS_MAX


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and whatever the call adds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {"time": round(record.created, 6), "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= {key: value for key, value in record.__dict__.items() if key not in _OWN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def address_of(text: str, what: str) -> Path | tuple[str, int]:
    """``unix:PATH`` or ``HOST:PORT``."""
    if text.startswith("unix:"):
        return Path(text[5:]).absolute()
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise FabricError(what, f"must be unix:PATH or HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def _check(settings: Settings) -> None:
    if not settings.api.startswith("unix:") and not settings.token and not settings.tls_clients:
        raise FabricError("--api", "over TCP needs --token-file or --tls-clients")
    if settings.web and (not settings.token or settings.tls_certificate or not settings.api.startswith("unix:")):
        raise FabricError("--web", "goes with --api unix:PATH and --token-file, without TLS")
    if settings.tls_clients and not settings.tls_certificate:
        raise FabricError("--tls-clients", "needs --tls-certificate")


async def serve(topology: Topology, settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
    _check(settings)
    state = State(settings.store)
    try:
        await _serve(topology, settings, state)
    finally:
        state.close()


async def _serve(topology: Topology, settings: Settings, state: State) -> None:
    log = logging.getLogger("ferrule_fabric.manager")
    with PatternStore(settings.store) as patterns:
        manager = Manager(topology, state, patterns, frozenset({0, os.geteuid(), *settings.admins}), settings.entries_max, settings.algorithm, settings.groups_max, settings.labels_max)
        openflow = address_of(settings.openflow, "--openflow")
        if isinstance(openflow, Path):
            await manager.controller.listen(unix=openflow)
        else:
            await manager.controller.listen(host=openflow[0], port=openflow[1])
        counting = asyncio.create_task(manager.count_forever())
        warming = asyncio.create_task(manager.warm_up())
        expiring = asyncio.create_task(manager.expire_forever())
        server, sockets = _http(manager, settings)
        log.info("serving", extra={"api": settings.api, "openflow": settings.openflow, "generation": manager.controller.generation, "jobs": len(manager.jobs)})
        try:
            await server.serve(sockets=sockets)
        finally:
            for task in (counting, warming, expiring):
                task.cancel()
            await asyncio.gather(counting, warming, expiring, return_exceptions=True)
            manager.close()
            await manager.controller.stop()
            log.info("stopped", extra={"jobs": len(manager.jobs)})


def _http(manager: Manager, settings: Settings) -> tuple[uvicorn.Server, list[socket.socket]]:
    app = create_app(manager, settings.token)
    config = uvicorn.Config(app, http=GuardedProtocol, ws="none", lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=5, limit_concurrency=CONNECTIONS_MAX)
    # X-Forwarded-For isn't believed: any client could claim another caller's address.
    config.proxy_headers = False
    if settings.tls_certificate:
        config.ssl_certfile, config.ssl_keyfile, config.ssl_ca_certs = settings.tls_certificate, settings.tls_key, settings.tls_clients
        config.ssl_cert_reqs = 2 if settings.tls_clients else 0
    sockets = [_listening(address_of(settings.api, "--api"), settings.group)]
    if settings.web:
        sockets.append(_listening(address_of(settings.web, "--web"), None))
    return uvicorn.Server(config), sockets


def _listening(address: Path | tuple[str, int], group: int | None) -> socket.socket:
    if isinstance(address, Path):
        address.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        old = os.umask(0o177)
        try:
            listening.bind(str(address))
        finally:
            os.umask(old)
        # Anybody may ask; what one may do depends on the user id that the kernel tells us.
        if group is not None:
            os.chown(address, -1, group)
            os.chmod(address, 0o660)
        else:
            os.chmod(address, 0o666)
    else:
        listening = socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listening.listen(1024)
    return listening


def run(topology: Topology, settings: Settings) -> None:
    """The command's body."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    started = time.monotonic()
    asyncio.run(serve(topology, settings))
    logging.getLogger("ferrule_fabric.manager").info("ended", extra={"after_s": round(time.monotonic() - started, 3)})
