"""Runs the service: OpenFlow on one side, HTTP on the other, one event loop, log lines as JSON on standard error."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.allocation import Allocations, Slurm
from ferrule_fabric.manager.lifetimes import expire_forever, reconcile_forever
from ferrule_fabric.manager.listening import Interfaces, address_of, serve_all, servers_of
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.admission import Access, networks_of, tls_context
from ferrule_fabric.openflow.compiler import GROUPS_MAX, TABLE_ENTRIES_MAX
from ferrule_fabric.openflow.labels import LABELS_MAX
from ferrule_fabric.queues.ovsdb import Server, client_context, server_of
from ferrule_fabric.store.database import PatternStore

_OWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}


@dataclass(frozen=True)
class Switches:
    """Where switches connect to (``HOST:PORT`` or ``unix:PATH``) and how they show who they are: by certificates of the authority ``switches``, or, without any
    proof, by an address of the networks ``plain``."""

    listen: str
    certificate: str | None = None
    key: str | None = None
    authority: str | None = None
    plain: tuple[str, ...] = ()

    def access(self) -> Access:
        """Who may connect over TCP. Raises `FabricError` where nobody could, or it isn't clear."""
        if self.certificate or self.authority or self.key:
            if not (self.certificate and self.authority):
                raise FabricError("--openflow", "TLS needs both --openflow-certificate and --openflow-switches")
            if self.plain:
                raise FabricError("--openflow-plain", "doesn't go with --openflow-certificate: the port has TLS or not")
            return Access(tls=tls_context(Path(self.certificate), Path(self.key) if self.key else None, Path(self.authority)))
        if not self.plain and not self.listen.startswith("unix:"):
            raise FabricError("--openflow", "over TCP needs --openflow-certificate and --openflow-switches; --openflow-plain ADDRESS lets switches in without proof")
        return Access(plain=networks_of(self.plain))


@dataclass(frozen=True)
class Settings:
    """How the service runs. With ``slurm`` users may start jobs on the hosts that Slurm has given them; ``ovsdb`` names the servers for queues."""

    store: str
    interfaces: Interfaces
    switches: Switches
    entries_max: int = TABLE_ENTRIES_MAX
    algorithm: str = "ferrule-time"
    admins: tuple[int, ...] = ()
    groups_max: int = GROUPS_MAX
    labels_max: int = LABELS_MAX
    slurm: bool = False
    ovsdb: tuple[str, ...] = ()


def ovsdb_servers(settings: Settings) -> tuple[Server, ...]:
    """Where queues are set up; over TLS with the certificates of the OpenFlow port. Raises `FabricError`."""
    switches = settings.switches
    tls = None
    if any(text.startswith("ssl:") for text in settings.ovsdb) and switches.certificate and switches.authority:
        tls = client_context(Path(switches.certificate), Path(switches.key) if switches.key else None, Path(switches.authority))
    return tuple(server_of(text, tls) for text in settings.ovsdb)


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and whatever the call adds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {"time": round(record.created, 6), "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= {key: value for key, value in record.__dict__.items() if key not in _OWN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


async def serve(topology: Topology, settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT."""
    settings.interfaces.check()
    access, ovsdb = settings.switches.access(), ovsdb_servers(settings)
    state = State(settings.store)
    try:
        await _serve(topology, settings, state, access, ovsdb)
    finally:
        state.close()


async def _serve(topology: Topology, settings: Settings, state: State, access: Access, ovsdb: tuple[Server, ...]) -> None:
    log = logging.getLogger("ferrule_fabric.manager")
    with PatternStore(settings.store) as patterns:
        scheduler = Slurm() if settings.slurm else None
        admins = frozenset({0, os.geteuid(), *settings.admins})
        limits = settings.entries_max, settings.algorithm, settings.groups_max, settings.labels_max
        manager = Manager(topology, state, patterns, admins, *limits, Allocations(scheduler), ovsdb)
        tasks: list[asyncio.Task[None]] = []
        try:
            servers = servers_of(manager, settings.interfaces)
            openflow = address_of(settings.switches.listen, "--openflow")
            if isinstance(openflow, Path):
                await manager.controller.listen(unix=openflow)
            else:
                await manager.controller.listen(host=openflow[0], port=openflow[1], access=access)
            work = [manager.count_forever(), manager.warm_up(), expire_forever(manager), *([reconcile_forever(manager, scheduler)] if scheduler else [])]
            if manager.queues is not None:
                work.append(manager.queues.look_forever())
            tasks += [asyncio.create_task(one) for one in work]
            log.info("serving", extra={"api": settings.interfaces.api, "openflow": settings.switches.listen, "generation": manager.controller.generation, "jobs": len(manager.jobs)})
            await serve_all(servers)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            manager.close()
            await manager.controller.stop()
            log.info("stopped", extra={"jobs": len(manager.jobs)})


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
