"""InfiniBand tables: every LID reaches its host without a loop, paths of the plan are kept where trees allow it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_openflow_rules import SPECS, TOPOLOGIES, random_plan

from ferrule_fabric.errors import FabricError
from ferrule_fabric.infiniband.opensm import lft_file
from ferrule_fabric.infiniband.tables import forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.openflow.splits import heaviest


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.integers(0, 3))
def test_every_lid_reaches_its_host(spec: str, seed: int, lmc: int) -> None:
    topology = TOPOLOGIES[spec]
    plan = random_plan(topology, random.Random(seed), 0.4)
    base = {node: 8 * (node + 1) for node in range(topology.node_count)}
    tables = forwarding_tables(topology, plan, base, lmc)
    arc_of = {(int(topology.arc_tail[arc]), topology.arc_ports(arc)[0]): arc for arc in range(topology.arc_count)}

    def walk(node: int, lid: int) -> list[int]:
        arcs: list[int] = []
        while node >= topology.host_count and tables.ports[node][lid]:
            arcs.append(arc_of[node, tables.ports[node][lid]])
            node = int(topology.arc_head[arcs[-1]])
            assert len(arcs) <= topology.node_count, "a loop"
        assert base[node] <= lid < base[node] + (1 << lmc)
        return arcs

    for node in range(topology.host_count, topology.node_count):
        for other in range(topology.node_count):
            for lid in range(base[other], base[other] + (1 << lmc if other < topology.host_count else 1)):
                walk(node, lid)
    for pair, route in plan:
        arcs = heaviest(route)
        if pair not in tables.left_out:
            assert walk(int(topology.arc_head[arcs[0]]), tables.lid_of[pair]) == list(arcs[1:])


def test_what_is_refused() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    plan = random_plan(topology, random.Random(1), 0.2)
    base = {node: 8 * (node + 1) for node in range(topology.node_count)}
    with pytest.raises(FabricError, match="guid"):
        lft_file(topology, forwarding_tables(topology, plan, base, 0))
    with pytest.raises(FabricError, match="LMC"):
        forwarding_tables(topology, plan, base, 8)
    with pytest.raises(FabricError, match="LID of"):
        forwarding_tables(topology, plan, base | {1: 9}, 1)
    with pytest.raises(FabricError, match="subnet manager"):
        lids_from_ibnetdiscover('Switch 4 "S-01" # "x" lid 3 lmc 0\n')
    with pytest.raises(FabricError, match="unicast"):
        lids_from_ibnetdiscover('Switch 4 "S-01" # "x" lid 65000 lmc 0\n')
