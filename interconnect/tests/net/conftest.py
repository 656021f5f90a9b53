"""Tests that need root, namespaces and Open vSwitch; skipped with the reason where these are missing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "interconnect/bed"), str(ROOT / "testbeds/ovs"), str(ROOT / "interconnect/tests")]

from standing import spec_of

import fabric as ovs
from fabric import started_ticks
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.fat_tree import two_level

TEST_TIMEOUT_S = 200


@pytest.fixture(scope="module")
def paper() -> Topology:
    """The fabric of the paper: 4 leaves, 2 spines, 20 hosts."""
    return two_level(4, 2, 5, 1e9)


@pytest.fixture(scope="module")
def fabric(paper: Topology) -> Iterator[ovs.Fabric]:
    why = ovs.missing()
    if why:
        pytest.skip(why)
    with ovs.Fabric.up(spec_of(paper)) as standing:
        yield standing


@pytest.fixture(autouse=True)
def whole_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever came of a test, the next one finds switches that run and links that are up."""
    standing = [request.getfixturevalue(name) for name in ("fabric", "small") if name in request.fixturenames]
    yield
    for one in standing:
        restore(one)


def restore(standing: ovs.Fabric) -> None:
    """Starts the switches if they don't run, and mends every link that is cut."""
    try:
        running = started_ticks(int((standing.directory / "ovs-vswitchd.pid").read_text())) is not None
    except (OSError, ValueError):
        running = False
    if not running:
        with ovs.socket_buffers(standing.directory):
            standing.start_switches()
    down = {device["ifname"] for device in json.loads(ovs.run(["ip", "-j", "-n", standing.switch_netns, "link", "show"])) if "UP" not in device["flags"]}
    for number, cable in enumerate(standing.spec.cables):
        if {standing.device(number, end) for end in "ab"} & down:
            standing.mend(cable.a[0], cable.b[0])


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a test's coroutine, with a watchdog."""

    def bounded(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(work, TEST_TIMEOUT_S))

    return bounded
