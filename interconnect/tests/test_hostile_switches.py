"""The controller against switches, and strangers, that misbehave: whatever one of them does, the others get their rules."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from os_ken.ofproto import ofproto_v1_3 as of

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, Flow
from ferrule_fabric.openflow import codec, controller, session
from ferrule_fabric.openflow.compiler import JobRoutes
from ferrule_fabric.openflow.controller import Controller
from ferrule_fabric.openflow.labels import Labels
from ferrule_fabric.routing.allocate import allocate
from ferrule_fabric.topologies.spec import topology_of

PATIENCE_S = 60.0
STRANGER = 999
Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def message(kind: int, xid: int, body: bytes = b"", version: int = codec.VERSION) -> bytes:
    return codec.HEADER.pack(version, kind, codec.HEADER.size + len(body), xid) + body


class Switch:
    """Answers as a switch with empty tables that takes everything. ``silent`` are kinds of messages (or of multipart requests, as kind and number) that it doesn't answer."""

    def __init__(self, dpid: int, silent: frozenset[object] = frozenset(), hello_xid: int = 77) -> None:
        self.dpid, self.silent, self.hello_xid = dpid, silent, hello_xid
        self.rules = self.roles = 0
        self.writer: asyncio.StreamWriter | None = None

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        writer.write(message(of.OFPT_HELLO, self.hello_xid))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                _, kind, length, xid = codec.HEADER.unpack(await reader.readexactly(codec.HEADER.size))
                body = await reader.readexactly(length - codec.HEADER.size)
                writer.write(self.answer(kind, xid, body))

    def answer(self, kind: int, xid: int, body: bytes) -> bytes:
        part = struct.unpack_from("!H", body)[0] if kind == of.OFPT_MULTIPART_REQUEST else None
        self.rules += kind == of.OFPT_FLOW_MOD
        self.roles += kind == of.OFPT_ROLE_REQUEST
        if kind in self.silent or (kind, part) in self.silent:
            return b""
        if kind == of.OFPT_FEATURES_REQUEST:
            return message(of.OFPT_FEATURES_REPLY, xid, struct.pack("!QIBB2xII", self.dpid, 0, 1, 0, 0, 0))
        if kind == of.OFPT_MULTIPART_REQUEST:
            return message(of.OFPT_MULTIPART_REPLY, xid, struct.pack("!HH4x", part, 0))
        if kind == of.OFPT_ROLE_REQUEST:
            return message(of.OFPT_ROLE_REPLY, xid, body)
        answers = {of.OFPT_BARRIER_REQUEST: of.OFPT_BARRIER_REPLY, of.OFPT_ECHO_REQUEST: of.OFPT_ECHO_REPLY}
        return message(answers[kind], xid, body) if kind in answers else b""


def sends(*parts: bytes, then_close: bool = True) -> Peer:
    """A peer that says this, whatever it hears, and then goes or stays."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
        await writer.drain()
        while not then_close and await reader.read(1 << 16):
            pass

    return peer


class Bed:
    """A controller and whoever connects to it."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.topology: Topology = topology_of("two-level:leaves=2,spines=2,hosts=2")
        self.controller = Controller(self.topology, **more)  # type: ignore[arg-type]
        self.path = folder / "of.sock"
        self.peers: list[asyncio.Task[None]] = []

    async def connect(self, peer: Peer) -> asyncio.Task[None]:
        reader, writer = await asyncio.open_unix_connection(self.path)

        async def whole() -> None:
            with contextlib.suppress(ConnectionError):
                await peer(reader, writer)
            writer.close()

        task = asyncio.create_task(whole())
        self.peers.append(task)
        return task

    def good(self) -> list[Switch]:
        return [Switch(int(switch.dpid or 0)) for switch in self.topology.switches]

    def job(self, number: int) -> JobRoutes:
        flows = [Flow("h1", "h3", 1000), Flow("h2", "h4", 1000), Flow("h3", "h1", 1000)]
        return JobRoutes(number, allocate(self.topology, Demands.of_flows(flows, self.topology), "greedy"))


def running(bed: Bed, work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await bed.controller.listen(unix=bed.path)
        try:
            await work()
        finally:
            await bed.controller.stop()
            for task in bed.peers:
                task.cancel()
            await asyncio.gather(*bed.peers, return_exceptions=True)

    asyncio.run(asyncio.wait_for(whole(), 2 * PATIENCE_S))


HELLO = message(of.OFPT_HELLO, 5)
BAD: dict[str, Peer] = {
    "goes at once": sends(),
    "goes after hello": sends(HELLO),
    "another version": sends(message(of.OFPT_HELLO, 1, version=1), message(of.OFPT_ERROR, 2, b"\0\0\0\0", version=1)),
    "a web browser": sends(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "zeros": sends(bytes(100_000)),
    "random bytes": sends(bytes(range(256)) * 10),
    "too short": sends(HELLO, codec.HEADER.pack(4, of.OFPT_ECHO_REQUEST, 3, 1)),
    "half a message": sends(HELLO, codec.HEADER.pack(4, of.OFPT_ECHO_REQUEST, 65535, 1), then_close=False),
    "malformed features": sends(HELLO, message(of.OFPT_FEATURES_REPLY, 2, b"x"), then_close=False),
    "a barrier for features": sends(HELLO, message(of.OFPT_BARRIER_REPLY, 2), then_close=False),
    "an error for features": sends(HELLO, message(of.OFPT_ERROR, 2, struct.pack("!HH", 1, 1)), then_close=False),
    "parts without end": sends(HELLO, *[message(of.OFPT_MULTIPART_REPLY, 2, struct.pack("!HH4x", of.OFPMP_PORT_DESC, 1))] * 1000, then_close=False),
    "not in the topology": Switch(STRANGER),
    "silent": sends(then_close=False),
    "no ports": Switch(1, frozenset({(of.OFPT_MULTIPART_REQUEST, of.OFPMP_PORT_DESC)})),
    "no role": Switch(1, frozenset({of.OFPT_ROLE_REQUEST})),
    "no table": Switch(1, frozenset({(of.OFPT_MULTIPART_REQUEST, of.OFPMP_FLOW)})),
    "no barrier": Switch(1, frozenset({of.OFPT_BARRIER_REQUEST})),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_switches_end_and_good_ones_work(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_TIMEOUT_S", 3.0)
    bed = Bed(tmp_path)

    async def work() -> None:
        ended = await bed.connect(BAD[name])
        # A client end that goes by itself may be gone before it is heard.
        await asyncio.wait_for(ended, PATIENCE_S)
        monkeypatch.setattr(session, "ANSWER_TIMEOUT_S", PATIENCE_S)
        switches = bed.good()
        for switch in switches:
            await bed.connect(switch)
        assert await bed.controller.ready(PATIENCE_S)
        assert await bed.controller.install(bed.job(1)) == []
        assert all(switch.rules for switch in switches)

    running(bed, work)


def test_the_number_of_a_hello_answers_nothing(tmp_path: Path) -> None:
    """Any transaction id may be in a switch's own messages, also that of our first request."""
    bed = Bed(tmp_path)

    async def work() -> None:
        for number, switch in enumerate(bed.good()):
            switch.hello_xid = 1 + number
            await bed.connect(switch)
        assert await bed.controller.ready(PATIENCE_S)

    running(bed, work)


def test_nobody_waits_for_a_switch_that_comes_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_TIMEOUT_S", 10 * PATIENCE_S)
    bed = Bed(tmp_path)

    async def work() -> None:
        *switches, last = bed.good()
        for switch in switches:
            await bed.connect(switch)
        last.silent = frozenset({of.OFPT_BARRIER_REQUEST})
        await bed.connect(last)
        while len(bed.controller.sessions) < len(switches) or not last.roles:
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(bed.controller.install(bed.job(1)), PATIENCE_S) == []
        # When it comes again it gets what is wanted by now, the job's rules too.
        again = Switch(last.dpid)
        await bed.connect(again)
        assert await bed.controller.ready(PATIENCE_S) and again.rules == len(bed.controller.compiled.tables[bed.controller.node_of[last.dpid]])

    running(bed, work)


def test_a_switch_that_asks_and_does_not_read_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "UNREAD_BYTES_MAX", 1 << 18)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(HELLO)
        while True:
            writer.write(message(of.OFPT_ECHO_REQUEST, 1, bytes(60_000)))
            await writer.drain()

    bed = Bed(tmp_path)

    async def work() -> None:
        await asyncio.wait_for(await bed.connect(peer), PATIENCE_S)
        assert not bed.controller.sessions

    running(bed, work)


def test_strangers_cant_take_all_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "STRANGERS_MAX", 5)
    bed = Bed(tmp_path)

    async def work() -> None:
        most = 5 + 2 * len(bed.topology.switches)
        tasks = [await bed.connect(sends(then_close=False)) for _ in range(most + 20)]
        while sum(task.done() for task in tasks) < 20:
            await asyncio.sleep(0.01)
        assert len(bed.controller._open) <= most
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    running(bed, work)


def test_a_change_that_fails_half_way_is_brought_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store, which must know of labels first, refuses: the job takes default routes, and rules are as they were."""
    monkeypatch.setattr(controller, "RETRY_S", 0.05)
    refusals = [1]

    def keep(labels: Labels) -> None:
        if refusals:
            raise FabricError("manager's state", "database is locked")

    bed = Bed(tmp_path, keep_labels=keep)

    async def work() -> None:
        for switch in bed.good():
            await bed.connect(switch)
        assert await bed.controller.ready(PATIENCE_S)
        before = {node: dict(table) for node, table in bed.controller.compiled.tables.items()}
        # As if the tables were so small that labels are needed.
        bed.controller._kept = {2: {}}
        with pytest.raises(FabricError, match="locked"):
            await bed.controller.install(bed.job(1))
        assert bed.controller.compiled.tables == before and not bed.controller.jobs
        refusals.clear()
        while bed.controller._half_way:
            await asyncio.sleep(0.01)
        assert bed.controller.compiled.tables == before
        assert await bed.controller.install(bed.job(1)) == []

    running(bed, work)
