"""Keeps the switches at what is wanted: default routes and the routes of jobs, over the links that are up.

`Controller` owns the state (topology with what has failed, jobs, compiled rules) and the sessions. All changes go one after another (`_lock`); each ends
when every switch that is connected has passed its last barrier. A switch that connects, for the first time or again, is brought to what is wanted by
reading its table first. Failing links lead to new default routes and, for jobs' pairs that used them, to new paths by `reroute`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow import codec, discovery, update
from ferrule_fabric.openflow.admission import Access, Peer, admitted
from ferrule_fabric.openflow.compiler import GROUPS_MAX, TABLE_ENTRIES_MAX, Compiled, JobRoutes, compile_rules
from ferrule_fabric.openflow.labels import LABELS_MAX, Labels
from ferrule_fabric.openflow.reroute import Reroute, reroute_least_used
from ferrule_fabric.openflow.rules import Add, RemoveGroup, Steer, Table, groups_of, job_cookie
from ferrule_fabric.openflow.session import Session, SwitchError

log = logging.getLogger("ferrule_fabric.openflow")

PROBE_INTERVAL_S, RETRY_S = 5.0, 1.0
OCCUPIED = "is connected and answers; a plain TCP connection doesn't take its place"
# Connections beyond two for each switch of the topology: unauthenticated ones, and switches that have not said yet who they are.
STRANGERS_MAX = 64


@dataclass
class Events:
    """What has happened, for metrics and tests: counts, and how long the last of each took in seconds."""

    counts: dict[str, int] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, seconds: float | None = None, by: int = 1) -> None:
        """One more of this kind."""
        self.counts[name] = self.counts.get(name, 0) + by
        if seconds is not None:
            self.last_s[name] = seconds


class Controller:
    """See the module's head. ``generation`` grows with every start of a manager; switches obey the latest. With ``queues`` switches have a table before that of
    the routes, in which packets get the queue of their class (`classify`)."""

    def __init__(
        self,
        topology: Topology,
        generation: int = 1,
        entries_max: int = TABLE_ENTRIES_MAX,
        broadcast: bool = True,
        reroute: Reroute = reroute_least_used,
        on_change: Callable[[], None] = lambda: None,
        groups_max: int = GROUPS_MAX,
        labels_max: int = LABELS_MAX,
        keep_labels: Callable[[Labels], None] = lambda labels: None,
        queues: bool = False,
    ) -> None:
        self.topology, self.generation, self.groups_max, self.labels_max, self.keep_labels = topology, generation, groups_max, labels_max, keep_labels
        self.entries_max, self.broadcast, self.reroute, self.on_change = entries_max, broadcast, reroute, on_change
        self._routes = codec.ROUTES_AFTER_QUEUES if queues else 0
        self.steers: frozenset[Steer] = frozenset({Steer()}) if queues else frozenset()
        self.node_of: dict[int, int] = {}
        for place, switch in enumerate(topology.switches):
            if switch.dpid is None:
                raise FabricError(f"topology.switches[{place}].dpid", "isn't known, and OpenFlow needs it")
            if switch.dpid in self.node_of:
                raise FabricError(f"topology.switches[{place}].dpid", f"{switch.dpid} is used twice")
            self.node_of[switch.dpid] = topology.host_count + place
        self.link_of: dict[tuple[int, int], int] = {}
        for number, link in enumerate(topology.links):
            for name, port in ((link.a, link.a_port), (link.b, link.b_port)):
                if port is not None:
                    self.link_of[topology.node_index[name], port] = number
        self.jobs: dict[int, JobRoutes] = {}
        self.planned: dict[int, JobRoutes] = {}
        self.compiled: Compiled = self._with_discovery(compile_rules(topology, (), entries_max, broadcast))
        self._kept: Labels = {}
        self.sessions: dict[int, Session] = {}
        self.discovery = discovery.Discovery()
        self.events = Events()
        self._lock = asyncio.Lock()
        self._ports_down: set[tuple[int, int]] = set()
        self._port_work = asyncio.Event()
        self._port_since: float | None = None
        self._routed_at = 0.0
        self._half_way = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._open: set[Session] = set()
        self._access = Access()
        self._servers: list[asyncio.Server] = []

    @staticmethod
    def _with_discovery(compiled: Compiled) -> Compiled:
        for table in compiled.tables.values():
            table[discovery.RULE.key] = discovery.RULE
        return compiled

    # Life

    async def listen(self, unix: Path | None = None, host: str | None = None, port: int = 6653, access: Access | None = None) -> None:
        """Starts to accept switches, on a unix socket of our user, a TCP address, or both. Over TCP only those get in that ``access`` lets in."""
        self._access = access or self._access
        if unix is not None:
            unix.unlink(missing_ok=True)
            old = os.umask(0o177)
            try:
                self._servers.append(await asyncio.start_unix_server(self._on_connect, unix))
            finally:
                os.umask(old)
        if host is not None:
            self._servers.append(await asyncio.start_server(self._on_connect, host, port))
        for work in (self._repair_forever(), self._probe_forever()):
            self._background.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """Ends all sessions; switches keep their rules (fail-secure)."""
        for server in self._servers:
            server.close()
        for session in list(self._open):
            session.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, *self._tasks, return_exceptions=True)

    async def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        session = Session(reader, writer, self._on_event, self._routes)
        if len(self._open) >= 2 * len(self.node_of) + STRANGERS_MAX:
            session.close()
            log.warning("switch refused", extra={"dpid": None, "reason": "too many connections"})
            return
        self._open.add(session)
        reading: asyncio.Task[None] | None = None
        try:
            peer = await admitted(writer, self._access)
            reading = asyncio.create_task(session.run())
            await session.open()
            await self._welcome(session, peer)
            await reading
        except (SwitchError, FabricError, ConnectionError) as error:
            log.warning("switch refused", extra={"dpid": session.dpid, "reason": str(error)})
        finally:
            session.close()
            self._open.discard(session)
            if reading is not None:
                await asyncio.gather(reading, return_exceptions=True)
            node = self.node_of.get(session.dpid or -1)
            if node is not None and self.sessions.get(node) is session:
                del self.sessions[node]
                log.info("switch gone", extra={"switch": self.topology.node_names[node]})
                self._note_switch(node)
            if task is not None:
                self._tasks.discard(task)

    async def _welcome(self, session: Session, peer: Peer) -> None:
        node = self.node_of.get(session.dpid or -1)
        if node is None:
            raise FabricError(f"switch {session.dpid}", "isn't in the topology")
        peer.check(session.dpid or 0, self.topology.node_names[node])
        await self._check_vacant(node, peer)
        await session.become_master(self.generation)
        started = time.perf_counter()
        # From here on the switch refuses what an older session of its own still sends; nobody should wait for that.
        old = self.sessions.pop(node, None)
        if old is not None:
            old.close()
        await session.limit_packets()
        held = await session.table()
        if held.others or held.spoilt:
            log.warning("switch holds rules with our mark that are not ours", extra={"switch": self.topology.node_names[node], "rules": held.others, "groups": len(held.spoilt)})
        await session.change([RemoveGroup(number) for number in sorted(held.spoilt)])
        table, groups = held.table, held.groups
        if discovery.RULE.key in table:
            # An earlier manager's may be without the meter.
            await session.change([Add(discovery.RULE)])
        standing = held.steers
        while True:
            # Nobody else waits for this switch: the others change on meanwhile, until it has caught up.
            wanted, steers = self.compiled, self.steers
            for one in update.in_one_round({node: table}, wanted, {node: groups}, self.entries_max):
                await session.change(one.changes[node])
            table = wanted.tables.get(node, {})
            groups = groups_of(table.values())
            await session.steer(standing, steers)
            standing = steers
            # Where routes have moved to another table, those of before go when nothing leads to them any more.
            await session.clear(held.misplaced)
            held.misplaced = ()
            async with self._lock:
                if self.compiled is not wanted or self.steers is not steers:
                    continue
                if session.closed:
                    raise SwitchError("the switch is gone")
                if node in self.sessions:
                    if not peer.proved:
                        raise FabricError(f"switch {self.topology.node_names[node]}", OCCUPIED)
                    self.sessions[node].close()
                self.sessions[node] = session
                break
        self.events.add("reconciled", time.perf_counter() - started)
        log.info("switch ready", extra={"switch": self.topology.node_names[node], "rules": len(self.compiled.tables[node]), "kept": len(held.table)})
        for port in session.ports.values():
            self._note_port(node, port)
        self._probe(node)

    async def _check_vacant(self, node: int, peer: Peer) -> None:
        """A connection that has proved nothing doesn't take the place of one that lives. Raises `FabricError`."""
        old = self.sessions.get(node)
        if old is not None and not peer.proved and await old.answers():
            raise FabricError(f"switch {self.topology.node_names[node]}", OCCUPIED)

    # Links

    def _on_event(self, session: Session, message: codec.Message) -> None:
        node = self.node_of.get(session.dpid or -1)
        if node is None:
            return
        if isinstance(message, codec.PortChange):
            self._note_port(node, message.port)
        elif isinstance(message, codec.PacketIn):
            self.events.add("packets_in")
            if not session.may_say_more():
                self.events.add("packets_ignored")
                return
            # What a host says about links is not believed.
            link = self.link_of.get((node, message.port))
            if link is None or self.topology.arc_between_switches[2 * link]:
                self.discovery.on_packet(session.dpid or 0, message.port, message.data)

    def _note_port(self, node: int, port: codec.Port) -> None:
        end = (node, port.number)
        if end not in self.link_of or port.up == (end not in self._ports_down):
            return
        (self._ports_down.discard if port.up else self._ports_down.add)(end)
        if not port.up:
            self.discovery.forget((self._dpid(node), port.number))
        log.info("link up" if port.up else "link down", extra={"switch": self.topology.node_names[node], "port": port.number})
        self._port_since = self._port_since or time.perf_counter()
        self._port_work.set()

    def _note_switch(self, node: int) -> None:
        """A switch that has gone says nothing about its links: its neighbors' ports do."""
        for number in [end for end in self._ports_down if end[0] == node]:
            self._ports_down.discard(number)
        self._port_work.set()
        self.on_change()

    def _dpid(self, node: int) -> int:
        return self.topology.switches[node - self.topology.host_count].dpid or 0

    def current(self) -> Topology:
        """The topology with the links that are down now."""
        down = {self.link_of[end] for end in self._ports_down}
        links = tuple(link if link.up == (number not in down) else replace(link, up=number not in down) for number, link in enumerate(self.topology.links))
        return replace(self.topology, links=links)

    async def _repair_forever(self) -> None:
        while True:
            await self._port_work.wait()
            self._port_work.clear()
            since, self._port_since = self._port_since, None
            changed = False
            try:
                async with self._lock:
                    changed = await self._follow_links()
            except Exception as error:  # whatever it was, the next failure must be repaired
                log.error("repair failed", extra={"reason": str(error)}, exc_info=not isinstance(error, FabricError | SwitchError))
                self._port_since = self._port_since or since
                asyncio.get_running_loop().call_later(RETRY_S, self._port_work.set)
            if changed and since is not None:
                self.events.add("repaired", max(self._routed_at - since, 0.0))
                log.info("repaired", extra={"seconds": round(self.events.last_s["repaired"], 6)})

    async def _follow_links(self) -> bool:
        """Whether the links are others than before, or a change wasn't brought to its end: the second end of a link tells nothing new."""
        topology = self.current()
        if topology.links == self.topology.links and not self._half_way:
            return False
        self.topology = topology
        # From the plans as they were made, so that a link that comes back is used again.
        self.jobs = {number: replace(job, plan=self.reroute(topology, job.plan)) for number, job in self.planned.items()}
        await self._settle()
        return True

    def _probe(self, node: int) -> None:
        session = self.sessions.get(node)
        if session is not None:
            for number, port in session.ports.items():
                if port.up and number < 0xFFFFFF00:
                    session.emit(number, discovery.probe(self._dpid(node), number))

    async def _probe_forever(self) -> None:
        while True:
            for node in list(self.sessions):
                self._probe(node)
            await asyncio.sleep(PROBE_INTERVAL_S)

    # Jobs

    def restore(self, jobs: Sequence[JobRoutes], labels: Labels | None = None) -> None:
        """Takes over jobs of an earlier run, and the labels kept then, before any switch is connected."""
        self.planned = {job.number: job for job in jobs}
        self.jobs = {job.number: replace(job, plan=self.reroute(self.topology, job.plan)) for job in jobs}
        listed = [self.jobs[number] for number in sorted(self.jobs)]
        self.compiled = self._with_discovery(compile_rules(self.topology, listed, self.entries_max - 1, self.broadcast, None, self.groups_max, self.labels_max, labels))
        self._kept = self.compiled.labels

    def restore_queues(self, queue_of: Mapping[int, int]) -> None:
        """As `classify`, before any switch is connected."""
        self.steers = frozenset({Steer(), *(Steer(dscp, queue) for dscp, queue in queue_of.items())})

    async def install(self, job: JobRoutes) -> list[tuple[tuple[str, str], str]]:
        """Installs a job's routes, in place of those that it has. Returns pairs that take default routes nevertheless, with why."""
        async with self._lock:
            started = time.perf_counter()
            job.plan.check(self.topology)
            before = self.planned.get(job.number), self.jobs.get(job.number)
            self.planned[job.number] = job
            self.jobs[job.number] = replace(job, plan=self.reroute(self.topology, job.plan))
            try:
                await self._settle()
            except FabricError:
                for held, value in zip((self.planned, self.jobs), before):
                    held.pop(job.number, None)
                    if value is not None:
                        held[job.number] = value
                self._port_work.set()
                raise
            self.events.add("installed", time.perf_counter() - started)
            return [(pair, why) for number, pair, why in self.compiled.left_out if number == job.number]

    async def remove(self, number: int) -> None:
        """Removes all rules of a job."""
        async with self._lock:
            started = time.perf_counter()
            if self.planned.pop(number, None) is not None:
                self.jobs.pop(number, None)
                try:
                    await self._settle()
                except FabricError:
                    self._port_work.set()
                    raise
                await self._everywhere({node: session.sweep(job_cookie(number)) for node, session in self.sessions.items()})
            self.events.add("removed", time.perf_counter() - started)

    async def classify(self, queue_of: Mapping[int, int]) -> None:
        """Has packets take queues by their DSCP value; those of other values take queue 0."""
        assert self._routes, "a controller without queues"
        wanted = frozenset({Steer(), *(Steer(dscp, queue) for dscp, queue in queue_of.items())})
        async with self._lock:
            if wanted == self.steers:
                return
            before, self.steers = self.steers, wanted
            await self._everywhere({node: session.steer(before, self.steers) for node, session in self.sessions.items()})

    async def _settle(self) -> None:
        """Brings all switches to what follows from topology and jobs. ``_routed_at`` is when the new routes stood; what only old ones used goes after."""
        jobs = [self.jobs[number] for number in sorted(self.jobs)]
        self._half_way = True
        passed = update.steps(self.topology, self.compiled, jobs, self.entries_max - 1, self.broadcast, self.groups_max, self.labels_max)
        self._keep(passed[-1].labels)
        for compiled in passed:
            wanted = self._with_discovery(compiled)
            for one in update.rounds(self.compiled, wanted):
                if one.drain:
                    self._routed_at = time.perf_counter()
                    await asyncio.sleep(update.DRAIN_S)
                await self._everywhere({node: self.sessions[node].change(changes) for node, changes in one.changes.items() if node in self.sessions})
                self.events.add("rules_added", by=sum(isinstance(change, Add) for changes in one.changes.values() for change in changes))
                self._routed_at = self._routed_at if one.drain else time.perf_counter()
            self.compiled = wanted
        self._half_way = False
        self.on_change()

    def _keep(self, labels: Labels) -> None:
        """Has labels noted before they are installed: after a crash their numbers mustn't come to mean anything else while switches hold them."""
        if labels != self._kept:
            self.keep_labels(dict(self.compiled.labels) | {number: dict(self.compiled.labels.get(number, {})) | dict(steps) for number, steps in labels.items()})
            log.info("path labels", extra={"labels": len(labels), "before": len(self._kept), "table_entries": self.entries_max})
            self._kept = labels

    async def _everywhere(self, work: Mapping[int, object]) -> None:
        """Does work at all switches at once. One that fails is disconnected: it is brought in line when it connects again."""
        results = await asyncio.gather(*work.values(), return_exceptions=True)  # type: ignore[call-overload]
        for node, result in zip(work, results):
            if isinstance(result, SwitchError | ConnectionError):
                log.warning("switch failed", extra={"switch": self.topology.node_names[node], "reason": str(result)})
                session = self.sessions.pop(node, None)
                if session is not None:
                    session.close()
            elif isinstance(result, BaseException):
                raise result

    # Looking

    async def table(self, node: int) -> Table:
        """What a switch really holds of ours."""
        return (await self.sessions[node].table()).table

    async def counters(self) -> dict[int, int]:
        """Bytes carried by each arc so far, as the switches at their tails (for hosts' uplinks: heads) count them."""
        async def one(node: int) -> tuple[int, dict[int, tuple[int, int]]]:
            with suppress(SwitchError, KeyError):  # it may go at any time
                return node, await self.sessions[node].counters()
            return node, {}

        found = dict(await asyncio.gather(*(one(node) for node in list(self.sessions))))
        carried: dict[int, int] = {}
        for arc in range(self.topology.arc_count):
            tail, head = int(self.topology.arc_tail[arc]), int(self.topology.arc_head[arc])
            out, into = self.topology.arc_ports(arc)
            if tail in found and out in found[tail]:
                carried[arc] = found[tail][out][1]
            elif head in found and into in found[head]:
                carried[arc] = found[head][into][0]
        return carried

    async def ready(self, timeout_s: float) -> bool:
        """Waits until all switches are connected; False if they aren't in time."""
        deadline = time.monotonic() + timeout_s
        while len(self.sessions) < len(self.node_of):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True
