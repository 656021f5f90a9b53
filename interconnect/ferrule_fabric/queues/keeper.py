"""Keeps the queues at what running jobs want: on all OVSDB servers, again after a failure, and after a restart of the manager or of a switch.

What stands in OVSDB is read each time, so nothing needs to be remembered: a manager that starts removes what an earlier one has left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.queues.ovsdb import Connection, Server
from ferrule_fabric.queues.rows import DATABASE, Change, capacities, change, selection

log = logging.getLogger("ferrule_fabric.queues")

LOOK_INTERVAL_S = 30.0
RETRY_S = 2.0
NAMED = 3


class Keeper:
    """``classes`` are those that ports have queues for; ``trouble`` is what is wrong, by server, and in ``missing`` are switches that no server has."""

    def __init__(self, topology: Topology, servers: Sequence[Server]) -> None:
        self.servers = tuple(servers)
        self.classes: tuple[str, ...] = ()
        self.trouble: dict[str, str] = {}
        self.missing: tuple[str, ...] = ()
        self.ports = 0
        self._wanted = capacities(topology)
        self._names = {int(switch.dpid or 0): switch.name for switch in topology.switches}
        self._lock, self._failed = asyncio.Lock(), asyncio.Event()

    async def want(self, classes: Sequence[str]) -> str:
        """Has ports get queues for these classes, and no others. Returns what is wrong, nothing if all ports have them."""
        async with self._lock:
            self.classes = tuple(classes)
            await self._settle()
        wrong = [f"{name}: {why}" for name, why in self.trouble.items()]
        if self.missing and classes and not wrong:
            wrong.append(f"no OVSDB server has {', '.join(self.missing[:NAMED])}{' …' if len(self.missing) > NAMED else ''}")
        return "; ".join(wrong)

    async def look_forever(self) -> None:
        """Mends what has changed, every now and then, and sooner after a failure."""
        while True:
            self._failed.clear()
            async with self._lock:
                await self._settle()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._failed.wait(), LOOK_INTERVAL_S)
                await asyncio.sleep(RETRY_S)

    async def _settle(self) -> None:
        found = await asyncio.gather(*(self._apply(server) for server in self.servers))
        before, self.trouble = self.trouble, {}
        seen: set[int] = set()
        self.ports = 0
        for server, result in zip(self.servers, found):
            if isinstance(result, str):
                self.trouble[server.name] = result
                continue
            seen |= result.bridges
            self.ports += result.ports
            if result.foreign:
                self.trouble[server.name] = f"ports with QoS of somebody else: {', '.join(result.foreign[:NAMED])}{' …' if len(result.foreign) > NAMED else ''}"
            if result.operations:
                log.info("queues", extra={"server": server.name, "classes": self.classes, "ports": result.ports, "changes": len(result.operations)})
        self.missing = tuple(name for dpid, name in sorted(self._names.items()) if dpid not in seen)
        if self.trouble:
            self._failed.set()
        for name, why in self.trouble.items():
            if before.get(name) != why:
                log.warning("no queues", extra={"server": name, "reason": why})

    async def _apply(self, server: Server) -> Change | str:
        """Brings one server in line; the reason if that fails."""
        try:
            async with Connection(server) as connection:
                selected = [result.get("rows", []) for result in await connection.transact(DATABASE, selection())]
                wanted = change(selected, self._wanted, self.classes)
                if wanted.operations:
                    await connection.transact(DATABASE, wanted.operations)
                return wanted
        except FabricError as error:
            return error.problem
