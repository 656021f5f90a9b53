"""Tests that need root, namespaces and Open vSwitch; skipped with the reason where these are missing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "interconnect/bed"), str(ROOT / "testbeds/ovs"), str(ROOT / "interconnect/tests")]

from standing import spec_of

import fabric as ovs
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.fat_tree import two_level

TEST_TIMEOUT_S = 60


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


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a test's coroutine, with a watchdog."""

    def bounded(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(work, TEST_TIMEOUT_S))

    return bounded
