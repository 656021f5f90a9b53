"""The controller on real Open vSwitch switches.

The best of several times must be within what is promised (`REPAIR_LIMIT_S`, `RULES_LIMIT_S`), whatever else the machine does; all other limits are watchdogs.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

import fabric as ovs
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import JobRoutes
from ferrule_fabric.openflow.controller import Controller
from ferrule_fabric.openflow.rules import Add, Match, Rule, job_cookie

Run = Callable[[Coroutine[Any, Any, None]], None]
READY_S, IN_PLACE_S, RULES = 90, 60, 10_000
REPAIR_LIMIT_S, RULES_LIMIT_S = 0.1, 3.0
# Switches obey the latest: each controller of these tests is later than all before it, in whatever order they run.
generations = itertools.count(1)


@asynccontextmanager
async def controlling(fabric: ovs.Fabric, topology: Topology):  # type: ignore[no-untyped-def]
    controller = Controller(topology, next(generations))
    await controller.listen(unix=fabric.controller_socket)
    await asyncio.to_thread(fabric.reconnect)
    try:
        assert await controller.ready(READY_S), f"{len(controller.sessions)} switches of {len(controller.node_of)} came"
        yield controller
    finally:
        await controller.stop()


async def until_in_place(controller: Controller) -> None:
    """Waits until all switches hold what the controller wants. It may be at work still: ports come up one by one when a switch starts."""
    deadline = time.monotonic() + IN_PLACE_S
    while True:
        wrong = [node for node in controller.node_of.values() if node not in controller.sessions or await controller.table(node) != controller.compiled.tables[node]]
        if not wrong:
            return
        assert time.monotonic() < deadline, [controller.topology.node_names[node] for node in wrong]
        await asyncio.sleep(0.05)


async def until_repaired(controller: Controller, work: Callable[[], None]) -> float:
    """Does something to a link and waits until the controller has followed; how long that took it."""
    done = controller.events.counts.get("repaired", 0)
    await asyncio.to_thread(work)
    while controller.events.counts.get("repaired", 0) == done:
        await asyncio.sleep(0.005)
    return controller.events.last_s["repaired"]


def by_spine(topology: Topology, src: str, dst: str, spine: str) -> Route:
    """The route of a pair over one spine."""
    names = [src, *(topology.node_names[topology.arc_head[topology.host_uplink_arcs[topology.node_index[host]]]] for host in (src, dst)), dst]
    names.insert(2, spine)
    arcs = []
    for a, b in zip(names, names[1:]):
        number = topology.link_between(a, b)
        arcs.append(2 * number + (topology.links[number].a != a))
    return Route((Path(tuple(arcs)),))


def plan_over(topology: Topology, pairs: list[tuple[str, str]], spine: str) -> RoutePlan:
    return RoutePlan(topology.digest, {pair: by_spine(topology, *pair, spine) for pair in pairs})


async def send(fabric: ovs.Fabric, src: str, dst: str, megabytes: float) -> None:
    """A UDP-free, plain transfer by TCP from host to host."""
    address = fabric.spec.hosts[dst].ip
    sink = "import socket;s=socket.create_server(('0.0.0.0',5000));print(flush=True);c,_=s.accept()\nwhile c.recv(1<<16):pass"
    source = f"import socket;c=socket.create_connection(('{address}',5000),30);c.sendall(bytes({int(megabytes * 1e6)}))"
    receiver = await asyncio.create_subprocess_exec(*fabric.command_in(dst, "timeout", "90", "python3", "-c", sink), stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    await receiver.stdout.readline()
    sender = await asyncio.create_subprocess_exec(*fabric.command_in(src, "timeout", "90", "python3", "-c", source))
    assert await sender.wait() == 0 and await receiver.wait() == 0


async def carried(fabric: ovs.Fabric, work: Coroutine[Any, Any, None]) -> dict[tuple[str, str], int]:
    """Bytes that each link carried during some work."""
    before = fabric.counters()
    await work
    return {link: count - before[link] for link, count in fabric.counters().items()}


def test_planned_paths_carry_the_bytes(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            pairs = [("h1", "h6"), ("h6", "h1"), ("h2", "h11"), ("h11", "h2")]
            for spine, other in (("s2-1", "s2-2"), ("s2-2", "s2-1")):
                assert await controller.install(JobRoutes(7, plan_over(paper, pairs, spine))) == []
                moved = await carried(fabric, send(fabric, "h1", "h6", 2))
                assert moved["s1-1", spine] > 2_000_000 and moved["s1-1", other] < 100_000
                assert moved[spine, "s1-2"] > 2_000_000 and moved["h1", "s1-1"] > 2_000_000
            counted = await controller.counters()
            assert counted and abs(counted[int(paper.host_uplink_arcs[0])] - fabric.counters()["h1", "s1-1"]) < 10_000
            await controller.remove(7)
            await until_in_place(controller)
            for node in controller.sessions:
                assert not any(rule.cookie == job_cookie(7) for rule in (await controller.table(node)).values())
            print(f"\n    install {controller.events.last_s['installed'] * 1e3:.1f} ms, remove {controller.events.last_s['removed'] * 1e3:.1f} ms")

    run(work())


def test_links_are_discovered(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            deadline = time.monotonic() + 60
            while controller.discovery.differences(paper) and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            assert controller.discovery.differences(paper) == []
            names = {int(switch.dpid or 0): switch.name for switch in paper.switches}
            found = controller.discovery.topology(names, {}, 1e9)
            between = {frozenset((link.a, link.b)) for link in paper.links if not link.a.startswith("h")}
            assert {frozenset((link.a, link.b)) for link in found.links} == between

    run(work())


def test_a_failed_link_is_routed_around(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            pairs = [("h1", "h6"), ("h6", "h1"), ("h3", "h16")]
            await controller.install(JobRoutes(8, plan_over(paper, pairs, "s2-1")))
            times = []
            for _ in range(3):
                times.append(await until_repaired(controller, lambda: fabric.cut("s1-1", "s2-1")))
                moved = await carried(fabric, send(fabric, "h1", "h6", 0.5))
                assert moved["s1-1", "s2-2"] > 500_000 and moved["s1-1", "s2-1"] == 0
                await until_repaired(controller, lambda: fabric.mend("s1-1", "s2-1"))
            moved = await carried(fabric, send(fabric, "h1", "h6", 0.5))
            assert moved["s1-1", "s2-1"] > 500_000
            print(f"\n    repaired after PORT_STATUS in {', '.join(f'{t * 1e3:.1f}' for t in times)} ms (best must be under {REPAIR_LIMIT_S * 1e3:.0f})")
            assert min(times) < REPAIR_LIMIT_S
            await controller.remove(8)

    run(work())


def test_restarts_are_reconciled(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        stale = Rule(2000, Match(eth_src="02:00:00:00:00:01", eth_dst="02:00:00:00:00:08"), (1,), job_cookie(99))
        foreign = "cookie=0x77,priority=5,dl_type=0x8999,actions=drop"
        job = JobRoutes(9, plan_over(paper, [("h1", "h6"), ("h6", "h1")], "s2-1"))
        async with controlling(fabric, paper) as controller:
            await controller.install(job)
            node = paper.node_index["s1-1"]
            await controller.sessions[node].change([Add(stale)])
        fabric.ofctl("add-flow", "s1-1", foreign)
        # Without a controller the switches go on (fail-secure).
        await send(fabric, "h1", "h6", 0.1)
        async with controlling(fabric, paper) as controller:
            await until_in_place(controller)
            assert stale.key not in await controller.table(node), "the rules of jobs that this manager doesn't know are gone"
            assert "0x77" in fabric.ofctl("dump-flows", "s1-1"), "rules of others are left alone"
            await controller.install(job)
            await asyncio.to_thread(fabric.kill_switches)
            while controller.sessions:
                await asyncio.sleep(0.02)
            with ovs.socket_buffers(fabric.directory):
                await asyncio.to_thread(fabric.start_switches)
            assert await controller.ready(READY_S)
            await until_in_place(controller)
            await send(fabric, "h1", "h6", 0.1)
            await controller.remove(9)

    run(work())


def test_refused_rules_are_reported(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            session = next(iter(controller.sessions.values()))
            bad = Match(eth_type=0x0800, tcp_dst=80)  # a TCP port without the protocol
            with pytest.raises(Exception, match="refused"):
                await session.change([Add(Rule(5, bad, (1,)))])

    run(work())


def test_later_generations_take_over(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            session = next(iter(controller.sessions.values()))
            with pytest.raises(Exception, match=r"(?i)role"):
                await session.become_master(controller.generation - 1)

    run(work())


def test_ten_thousand_rules(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        async with controlling(fabric, paper) as controller:
            nodes = list(controller.sessions)
            share = RULES // len(nodes) + 1
            rules = [Rule(1500, Match(eth_src=f"02:01:00:00:{k >> 8:02x}:{k & 255:02x}", eth_dst="02:02:00:00:00:01"), (1,), job_cookie(5)) for k in range(share)]
            best = 1e9
            for _ in range(3):
                started = time.perf_counter()
                await asyncio.gather(*(controller.sessions[node].change([Add(rule) for rule in rules]) for node in nodes))
                best = min(best, time.perf_counter() - started)
                for node in nodes:
                    assert sum(rule.cookie == job_cookie(5) for rule in (await controller.table(node)).values()) == share
                await asyncio.gather(*(controller.sessions[node].sweep(job_cookie(5)) for node in nodes))
            count = share * len(nodes)
            print(f"\n    {count} rules on {len(nodes)} switches in {best:.2f} s: {count / best:.0f}/s (must be under {RULES_LIMIT_S} s)")
            assert best < RULES_LIMIT_S

    run(work())


def test_topology_without_datapath_ids(paper: Topology) -> None:
    nameless = replace(paper, switches=tuple(replace(switch, dpid=None) for switch in paper.switches))
    with pytest.raises(ValueError, match=r"switches\[0\].dpid"):
        Controller(nameless)
