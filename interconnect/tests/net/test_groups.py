"""Split routes on real Open vSwitch: weighted groups carry the shares, survive restarts and failures, and go with the job."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from typing import Any

from test_ovs import by_spine, carried, controlling, until_in_place, until_repaired

import fabric as ovs
from ferrule_fabric.model.plan import Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import JobRoutes
from ferrule_fabric.openflow.rules import AddGroup, Group

Run = Callable[[Coroutine[Any, Any, None]], None]
CONNECTIONS, BYTES_EACH = 200, 20_000
SINK = """
import socket
server = socket.create_server(("0.0.0.0", 5001), backlog=512)
print(flush=True)
for _ in range(%d):
    connection, _ = server.accept()
    while connection.recv(1 << 16): pass
    connection.close()
"""
SOURCE = """
import socket, sys
for _ in range(%d):
    with socket.create_connection((sys.argv[1], 5001), 30) as connection:
        connection.sendall(bytes(%d))
"""


def split_plan(topology: Topology, pairs: list[tuple[str, str]], first_share: float) -> RoutePlan:
    """Each pair over both spines, so much of it over the first."""
    weights = (first_share, 1 - first_share)
    return RoutePlan(topology.digest, {pair: Route(tuple(by_spine(topology, *pair, spine).paths[0] for spine in ("s2-1", "s2-2")), weights) for pair in pairs})


async def connections(fabric: ovs.Fabric, src: str, dst: str) -> None:
    """Many short connections, one after the other."""
    receiver = await asyncio.create_subprocess_exec(*fabric.command_in(dst, "timeout", "120", "python3", "-c", SINK % CONNECTIONS), stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    await receiver.stdout.readline()
    sender = await asyncio.create_subprocess_exec(*fabric.command_in(src, "timeout", "120", "python3", "-c", SOURCE % (CONNECTIONS, BYTES_EACH), fabric.spec.hosts[dst].ip))
    assert await sender.wait() == 0 and await receiver.wait() == 0


async def share_of_first(fabric: ovs.Fabric) -> float:
    moved = await carried(fabric, connections(fabric, "h1", "h6"))
    first, second = moved["s1-1", "s2-1"], moved["s1-1", "s2-2"]
    assert first + second > CONNECTIONS * BYTES_EACH
    return first / (first + second)


def test_weighted_groups_carry_the_shares(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        pairs = [("h1", "h6"), ("h2", "h7"), ("h6", "h1")]
        leaf = paper.node_index["s1-1"]
        async with controlling(fabric, paper) as controller:
            found = []
            for planned in (0.75, 0.3):
                assert await controller.install(JobRoutes(21, split_plan(paper, pairs, planned))) == []
                await until_in_place(controller)
                held = await controller.sessions[leaf].table()
                # Two pairs with the same ports and weights share a group.
                assert len(held.groups) == 1
                found.append(await share_of_first(fabric))
                assert abs(found[-1] - planned) < 0.15, found
            print(f"\n    shares of the first spine: planned 75% and 30%, carried {found[0]:.1%} and {found[1]:.1%} of {CONNECTIONS} connections")
            # A link that fails takes its bucket along.
            await until_repaired(controller, lambda: fabric.cut("s1-1", "s2-2"))
            assert await share_of_first(fabric) == 1.0 and (await controller.sessions[leaf].table()).groups == {}
            await until_repaired(controller, lambda: fabric.mend("s1-1", "s2-2"))
            assert len((await controller.sessions[leaf].table()).groups) == 1

    run(work())


def test_groups_are_reconciled_and_go_with_the_job(fabric: ovs.Fabric, paper: Topology, run: Run) -> None:
    async def work() -> None:
        job = JobRoutes(22, split_plan(paper, [("h1", "h6")], 0.6))
        leaf = paper.node_index["s1-1"]
        stale = Group((1, 2), (1, 99))
        async with controlling(fabric, paper) as controller:
            await controller.install(job)
            await controller.sessions[leaf].change([AddGroup(stale)])
        fabric.ofctl("add-group", "s1-1", "group_id=7,type=select,bucket=output:1")
        async with controlling(fabric, paper) as controller:
            assert (await controller.sessions[leaf].table()).groups == {}, "groups of jobs that this manager doesn't know are gone"
            assert "group_id=7," in fabric.ofctl("dump-groups", "s1-1"), "groups of others are left alone"
            await controller.install(job)
        async with controlling(fabric, paper) as controller:
            await controller.install(job)
            await until_in_place(controller)
            assert len((await controller.sessions[leaf].table()).groups) == 1
            await controller.remove(22)
            assert (await controller.sessions[leaf].table()).groups == {}
        fabric.ofctl("del-groups", "s1-1", "group_id=7")

    run(work())
