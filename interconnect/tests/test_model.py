"""The data model: invariants, documents, refusals that say where."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric import Demands, FabricError, Flow, Hop, Host, Link, Path, Placement, Route, RoutePlan, Switch, Topology, TrafficMatrix
from ferrule_fabric.model import documents


def two_leaves() -> Topology:
    """h1, h2 on leaf l1; h3 on l2; spines s1 and s2. Arc numbers: link i is 2i up, 2i+1 down."""
    hosts = tuple(Host(f"h{i}", f"02:00:00:00:00:0{i}", f"10.0.0.{i}") for i in (1, 2, 3))
    switches = tuple(Switch(name, dpid) for dpid, name in enumerate(("l1", "l2", "s1", "s2"), 1))
    links = (
        Link("h1", "l1", 1e9, 1, 1),
        Link("h2", "l1", 1e9, 1, 2),
        Link("h3", "l2", 1e9, 1, 1),
        Link("l1", "s1", 1e9, 101, 1),
        Link("l1", "s2", 1e9, 102, 1),
        Link("l2", "s1", 1e9, 101, 2),
        Link("l2", "s2", 1e9, 102, 2),
    )
    return Topology("two leaves", hosts, switches, links)


def plan_over_s1(topology: Topology) -> RoutePlan:
    return RoutePlan(topology.digest, {("h1", "h3"): Route((Path((0, 6, 11, 5)), Path((0, 8, 13, 5))), (0.75, 0.25))}, "7", "test")


def test_paths_name_switches_and_ports() -> None:
    topology = two_leaves()
    assert topology.path_nodes((0, 6, 11, 5)) == ("h1", "l1", "s1", "l2", "h3")
    assert topology.path_hops((0, 6, 11, 5)) == (Hop("l1", 1, 101), Hop("s1", 1, 2), Hop("l2", 101, 1))
    assert topology.host_uplink_arcs.tolist() == [0, 2, 4]
    with pytest.raises(FabricError, match=r"path.arcs\[1\]: arc 11 leaves s1, but the arc before it enters l1"):
        topology.path_nodes((0, 11))


def test_failed_links_keep_their_numbers() -> None:
    topology = two_leaves()
    broken = topology.with_failed([3])
    assert broken.digest == topology.digest
    assert plan_over_s1(topology).uses_failed_links(broken) == (("h1", "h3"),)
    assert plan_over_s1(topology).uses_failed_links(broken.with_restored([3])) == ()
    with pytest.raises(FabricError, match="no link 99"):
        topology.with_failed([99])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ((Link("h1", "x", 1.0),), r"topology.links\[0\].b: 'x' is neither"),
        ((Link("h1", "h1", 1.0),), "to itself"),
        ((Link("h1", "l1", 0.0),), "capacity_bps: must be positive"),
        ((Link("h1", "l1", float("nan")),), "must be positive"),
        ((Link("h1", "l1", 1.0, 1, 1), Link("h2", "l1", 1.0, 1, 1)), r"links\[1\].b_port: port 1 of 'l1' already carries links\[0\]"),
        ((Link("h1", "l1", 1.0, 0, 1),), "a_port: must be between"),
    ],
)
def test_wrong_links_are_refused(links: tuple[Link, ...], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        Topology("t", (Host("h1"), Host("h2")), (Switch("l1"),), links)


def test_names_are_unique() -> None:
    with pytest.raises(FabricError, match=r"switches\[0\].name: 'a' is used twice"):
        Topology("t", (Host("a"),), (Switch("a"),), ())


@pytest.mark.parametrize(
    ("arcs", "message"),
    [((0, 6, 11), "not from h1 to h3"), ((0, 6, 7, 6, 11, 5), "visits a node twice"), ((0, 3, 2, 6, 11, 5), "twice|through a host"), ((0, 77), "no arc 77")],
)
def test_plans_are_checked(arcs: tuple[int, ...], message: str) -> None:
    topology = two_leaves()
    with pytest.raises(FabricError, match=message):
        RoutePlan(topology.digest, {("h1", "h3"): Route((Path(arcs),))}).check(topology)


def test_weights_add_up() -> None:
    with pytest.raises(FabricError, match="add up to 1"):
        Route((Path((0,)), Path((1,))), (0.5, 0.6))


def test_demands_leave_out_a_host_and_itself() -> None:
    topology = two_leaves()
    traffic = TrafficMatrix.of_pairs(4, [0, 0, 1, 3], [1, 2, 2, 0], [10, 20, 30, 40], [1, 2, 3, 4])
    demands = Demands.of_traffic(traffic, Placement(("h1", "h1", "h2", "h3")), topology)
    assert demands.flows(topology) == (Flow("h1", "h2", 50, 5), Flow("h3", "h1", 40, 4))
    again = Demands.of_flows(demands.flows(topology), topology)
    assert np.array_equal(again.bytes, demands.bytes)
    with pytest.raises(FabricError, match=r"placement.hosts\[0\]: 'l1' is not a host"):
        Placement(("l1",)).host_numbers(topology)


def test_documents_come_back() -> None:
    topology = two_leaves().with_failed([4])
    assert documents.topology_from_json(documents.topology_to_json(topology)) == topology
    plan = plan_over_s1(topology)
    assert documents.plan_from_json(documents.plan_to_json(plan), topology) == plan
    placement = Placement(("h1", "h3"))
    assert documents.placement_from_json(documents.placement_to_json(placement)) == placement
    for kind in ("topology", "traffic", "placement", "route-plan"):
        assert documents.schema(kind)["additionalProperties"] is False


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 10**12), st.integers(0, 10**6)), max_size=60))
def test_traffic_comes_back(pairs: list[tuple[int, int, int, int]]) -> None:
    columns = list(zip(*pairs)) if pairs else [(), (), (), ()]
    traffic = TrafficMatrix.of_pairs(10, *columns)
    expected = np.zeros((10, 10), dtype=np.int64)
    for s, d, volume, _ in pairs:
        expected[s, d] += volume
    assert np.array_equal(traffic.dense_bytes(), expected)
    again = documents.traffic_from_json(documents.traffic_to_json(traffic))
    assert np.array_equal(again.dense_bytes(), expected)
    assert np.array_equal(again.dense_messages(), traffic.dense_messages())
    dense = TrafficMatrix.of_dense(expected, traffic.dense_messages())
    assert np.array_equal(dense.bytes, traffic.bytes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"topology.version: "),
        ({"surplus": 1}, r"topology.surplus: "),
        ({"links": [{"a": "h1", "b": "l1", "capacity_bps": -1}]}, r"topology.links\[0\].capacity_bps"),
        ({"hosts": [{"name": "h1", "mac": "nonsense"}]}, r"topology.hosts\[0\].mac"),
        ({"hosts": 3}, r"topology.hosts"),
    ],
)
def test_wrong_documents_are_refused(change: dict[str, object], message: str) -> None:
    document = json.loads(documents.topology_to_json(two_leaves())) | change
    with pytest.raises(FabricError, match=message):
        documents.topology_from_json(json.dumps(document))


@settings(max_examples=200)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_noise_is_refused(noise: str | bytes) -> None:
    for reader in (documents.topology_from_json, documents.traffic_from_json, documents.placement_from_json, lambda text: documents.plan_from_json(text, two_leaves())):
        with pytest.raises(FabricError):
            reader(noise)


def test_a_plan_of_another_topology_is_refused() -> None:
    topology = two_leaves()
    other = Topology("other", topology.hosts, topology.switches, topology.links[:-1])
    with pytest.raises(FabricError, match="the plan is for topology"):
        documents.plan_from_json(documents.plan_to_json(plan_over_s1(topology)), other)
