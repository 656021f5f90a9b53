"""Who may speak for a switch: over TLS the holder of its certificate, over plain TCP a listed address that takes nobody's place, over a unix socket the manager's user."""

from __future__ import annotations

import asyncio
import ssl
import stat
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from authority import Authority
from os_ken.ofproto import ofproto_v1_3 as of
from test_hostile_switches import HELLO, PATIENCE_S, Bed, Switch, message, sends
from test_hostile_switches import Peer as Said

from ferrule_fabric.errors import FabricError
from ferrule_fabric.openflow import session
from ferrule_fabric.openflow.admission import Access, Peer, networks_of, tls_context
from ferrule_fabric.openflow.controller import Controller

LOCAL = networks_of(["127.0.0.0/8"])


class Port:
    """A controller at a TCP port."""

    def __init__(self, bed: Bed, access: Access) -> None:
        self.bed, self.access, self.number = bed, access, 0

    @property
    def controller(self) -> Controller:
        return self.bed.controller

    async def connect(self, peer: Said, context: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> asyncio.Task[None]:
        """A switch connects; the task ends when its connection does, or was refused."""

        async def whole() -> None:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.number, ssl=context, local_addr=(source, 0))
            except OSError:
                return
            await peer(reader, writer)
            writer.close()

        task = asyncio.create_task(whole())
        self.bed.peers.append(task)
        return task


def running(port: Port, work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await port.controller.listen(host="127.0.0.1", port=0, access=port.access)
        port.number = port.controller._servers[0].sockets[0].getsockname()[1]
        try:
            await work()
        finally:
            await port.controller.stop()
            for task in port.bed.peers:
                task.cancel()
            await asyncio.gather(*port.bed.peers, return_exceptions=True)

    asyncio.run(asyncio.wait_for(whole(), 2 * PATIENCE_S))


def client(authority: Authority, identity: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    context.check_hostname = False
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def test_certificates_name_switches(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours").make(), Authority(tmp_path, "theirs").make()
    port = Port(Bed(tmp_path), Access(tls_context(ours.issue("manager"), None, ours.certificate)))
    names = [switch.name for switch in port.bed.topology.switches]
    dpids = [int(switch.dpid or 0) for switch in port.bed.topology.switches]
    # By datapath id in the common name as ovs-pki writes it, by name, and one certificate for two.
    good = [ours.issue(f"{dpids[0]:016x} id:4711"), ours.issue(names[1]), *[ours.issue("both", dns=[f"{dpids[2]:016x}", names[3]])] * 2]

    async def work() -> None:
        for dpid, identity in zip(dpids, good):
            await port.connect(Switch(dpid), client(ours, identity))
        assert await port.controller.ready(PATIENCE_S)
        before = dict(port.controller.sessions)
        wrong: list[tuple[Path | None, Authority]] = [(good[1], ours), (None, ours), (theirs.issue(names[0]), ours), (ours.issue("late", expired=True, dns=names), ours)]
        wrong.append((ours.issue("stranger"), ours))
        for shown, authority in wrong:
            impostor = Switch(dpids[0])
            await asyncio.wait_for(await port.connect(impostor, client(authority, shown)), PATIENCE_S)
            assert impostor.roles == 0 and port.controller.sessions == before
        plain = Switch(dpids[0])
        await asyncio.wait_for(await port.connect(plain), PATIENCE_S)
        assert plain.roles == 0 and port.controller.sessions == before
        # The switch itself may come again while its old connection hasn't been found dead.
        again = Switch(dpids[0])
        await port.connect(again, client(ours, good[0]))
        while port.controller.sessions == before or not await port.controller.ready(PATIENCE_S):
            await asyncio.sleep(0.01)
        assert again.rules and await port.controller.install(port.bed.job(1)) == []

    running(port, work)


def test_plain_tcp_takes_nobodys_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = Port(Bed(tmp_path), Access(plain=networks_of(["127.0.0.1"])))

    async def work() -> None:
        switches = port.bed.good()
        unlisted = Switch(switches[0].dpid)
        await asyncio.wait_for(await port.connect(unlisted, source="127.0.0.2"), PATIENCE_S)
        assert not unlisted.roles
        for switch in switches:
            await port.connect(switch)
        assert await port.controller.ready(PATIENCE_S)
        before, impostor = dict(port.controller.sessions), Switch(switches[0].dpid)
        await asyncio.wait_for(await port.connect(impostor), PATIENCE_S)
        assert impostor.roles == 0 and port.controller.sessions == before
        # One that has gone without a word has no place any more.
        monkeypatch.setattr(session, "ALIVE_S", 0.2)
        switches[0].silent = frozenset({of.OFPT_ECHO_REQUEST})
        again = Switch(switches[0].dpid)
        await port.connect(again)
        while port.controller.sessions == before or not await port.controller.ready(PATIENCE_S):
            await asyncio.sleep(0.01)
        assert again.rules

    running(port, work)


def test_who_says_nothing_after_connecting_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake has its time, and counts as a connection meanwhile."""
    monkeypatch.setattr("ferrule_fabric.openflow.admission.HANDSHAKE_TIMEOUT_S", 0.5)
    ours = Authority(tmp_path, "ours").make()
    port = Port(Bed(tmp_path), Access(tls_context(ours.issue("manager"), None, ours.certificate)))

    async def work() -> None:
        task = await port.connect(sends(then_close=False))
        while not port.controller._open:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(task, PATIENCE_S)
        assert not port.controller._open
        await asyncio.wait_for(await port.connect(sends(HELLO * 100, then_close=False)), PATIENCE_S)

    running(port, work)


def test_without_certificates_and_addresses_nobody_gets_in(tmp_path: Path) -> None:
    port = Port(Bed(tmp_path), Access())

    async def work() -> None:
        switch = Switch(1)
        await asyncio.wait_for(await port.connect(switch), PATIENCE_S)
        assert not switch.roles

    running(port, work)


def test_the_unix_socket_is_ours_alone(tmp_path: Path) -> None:
    async def work() -> None:
        bed = Bed(tmp_path)
        await bed.controller.listen(unix=bed.path)
        assert stat.S_IMODE(bed.path.stat().st_mode) == 0o600
        await bed.controller.stop()

    asyncio.run(work())


def test_names() -> None:
    Peer(True).check(5, "s5")
    Peer(True, frozenset({"s5"})).check(5, "s5")
    for names, switch in (((), "s5"), (("s6",), "s5"), (("0000000000000006",), "0000000000000006")):
        with pytest.raises(FabricError, match="the certificate is for"):
            Peer(True, frozenset(names)).check(5, switch)
    for wrong in ("10.0.0.1/8", "everybody", "10.0.0.0/33", ""):
        with pytest.raises(FabricError, match="openflow-plain"):
            networks_of([wrong])
    with pytest.raises(FabricError, match="OpenFlow port"):
        tls_context(Path("/nowhere"), None, Path("/nowhere"))


def test_switches_without_meters_work_without(tmp_path: Path) -> None:
    class Meterless(Switch):
        def answer(self, kind: int, xid: int, body: bytes) -> bytes:
            return message(of.OFPT_ERROR, xid, struct.pack("!HH", of.OFPET_BAD_REQUEST, of.OFPBRC_BAD_TYPE)) if kind == of.OFPT_METER_MOD else super().answer(kind, xid, body)

    port = Port(Bed(tmp_path), Access(plain=LOCAL))

    async def work() -> None:
        for number, switch in enumerate(port.bed.good()):
            await port.connect(Meterless(switch.dpid) if number else switch)
        assert await port.controller.ready(PATIENCE_S)
        metered = {one.dpid: one.meter for one in port.controller.sessions.values()}
        assert [metered[switch.dpid] is None for switch in port.bed.good()] == [False, True, True, True]
        assert await port.controller.install(port.bed.job(1)) == []

    running(port, work)


def test_packets_for_the_manager_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where a switch has no meters, too."""
    now = [100.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    one = session.Session(None, None, lambda *_: None)  # type: ignore[arg-type]
    assert sum(one.may_say_more() for _ in range(10_000)) == session.PACKETS_BURST
    now[0] += 1.0
    assert sum(one.may_say_more() for _ in range(10_000)) == session.PACKETS_PER_S
