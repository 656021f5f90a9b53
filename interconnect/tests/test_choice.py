"""The choice of a job's routes: phases that repeat, and never slower than D-mod-K by either model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric.manager.choice import TOLERANCE, robust_paths
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.patterns.merge import merged
from ferrule_fabric.routing.allocate import DEFAULTS, flow_paths
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.routing.fairness import estimated_time_s
from ferrule_fabric.routing.timed import phases_time_s
from ferrule_fabric.topologies.spec import topology_of


@pytest.fixture(scope="module")
def paper() -> Topology:
    return topology_of("two-level:leaves=4,spines=2,hosts=5")


def ring(ranks: int, step: int, size_bytes: int) -> TrafficMatrix:
    """Everybody sends to the rank ``step`` further on."""
    everyone = np.arange(ranks)
    return TrafficMatrix.of_pairs(ranks, everyone, (everyone + step) % ranks, np.full(ranks, size_bytes))


def test_equal_phases_are_added_up_in_order_of_their_first() -> None:
    empty = TrafficMatrix.of_pairs(8, [], [], [])
    kinds = merged([ring(8, 2, 10), ring(8, 1, 1000), empty, ring(8, 2, 30), ring(8, 1, 500)])
    assert [int(kind.bytes.sum()) for kind in kinds] == [8 * 40, 8 * 1500]
    assert [int(kind.dst[0]) for kind in kinds] == [2, 1]


def test_other_shares_are_another_kind() -> None:
    one, other = ([1000, 1000], [1000, 3000])
    phases = [TrafficMatrix.of_pairs(4, [0, 1], [2, 3], sizes) for sizes in (one, other)]
    assert len(merged(phases)) == 2
    assert not merged([])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), phases=st.integers(1, 3))
def test_a_job_is_never_slower_than_by_default(paper: Topology, seed: int, phases: int) -> None:
    generator = np.random.default_rng(seed)
    parts = []
    for _ in range(phases):
        ends = generator.integers(0, paper.host_count, (2, 12))
        ends = ends[:, ends[0] != ends[1]]
        sizes = np.asarray(generator.integers(1, 50, ends.shape[1]), dtype=np.int64) * 1_000_000
        parts.append(Demands.of_pairs(paper.host_count, ends[0], ends[1], sizes))
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("src", "dst", "bytes")]
    total = Demands.of_pairs(paper.host_count, *joined)
    fabric = fabric_of(paper)
    ours, default = robust_paths(fabric, total, parts, None, DEFAULTS), flow_paths(fabric, total, "d-mod-k")
    for time_s in (lambda paths: estimated_time_s(fabric, total, paths), lambda paths: phases_time_s(fabric, total, parts, paths)):
        assert time_s(ours) <= time_s(default) * (1 + TOLERANCE)


def test_without_a_gain_a_job_keeps_the_default_routes(paper: Topology) -> None:
    fabric = fabric_of(paper)
    one_flow = Demands.of_pairs(paper.host_count, np.array([0]), np.array([7]), np.array([1_000_000]))
    ours, default = robust_paths(fabric, one_flow, [one_flow], None, DEFAULTS), flow_paths(fabric, one_flow, "d-mod-k")
    assert np.array_equal(ours.arcs, default.arcs)


def test_two_flows_on_one_spine_are_parted(paper: Topology) -> None:
    fabric = fabric_of(paper)
    # Hosts 5 and 7 are under the second leaf; D-mod-K sends to both by one spine.
    flows = Demands.of_pairs(paper.host_count, np.array([0, 1]), np.array([5, 7]), np.array([40_000_000, 40_000_000]))
    ours, default = robust_paths(fabric, flows, [flows], None, DEFAULTS), flow_paths(fabric, flows, "d-mod-k")
    assert estimated_time_s(fabric, flows, ours) < 0.6 * estimated_time_s(fabric, flows, default)
