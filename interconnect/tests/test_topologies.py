"""Generators have the sizes their papers state; readers understand what writers write and say where they don't."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric import FabricError, Topology
from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.topologies import direct, fat_tree
from ferrule_fabric.topologies.graphml import from_graphml, to_graphml
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover
from ferrule_fabric.topologies.spec import topology_of

SPECS = [
    ("two-level:leaves=4,spines=2,hosts=5", 20, 6, 28),
    ("xgft:m=5x4,w=1x2", 20, 6, 28),
    ("xgft:m=2x3x4,w=1x2x3", 24, 12 + 8 + 6, 24 + 24 + 24),
    ("fat-tree:k=4,oversubscription=2.5", 16, 20, 48),
    ("torus:size=4x3x2,hosts=2", 48, 24, 48 + 24 + 24 + 12),
    ("hyperx:size=4x3,hosts=1", 12, 12, 12 + 3 * 6 + 4 * 3),
    ("dragonfly:groups=9,routers=4,globals=2,hosts=2", 72, 36, 72 + 54 + 36),
    ("dragonfly+:groups=4,leaves=4,spines=3,globals=1,hosts=4", 64, 28, 64 + 48 + 6),
    ("random:switches=20,degree=4,hosts=2,seed=3", 40, 20, 80),
]


def graph_of(topology: Topology) -> networkx.MultiGraph:
    graph = networkx.MultiGraph()
    graph.add_nodes_from(topology.node_names)
    graph.add_edges_from((link.a, link.b) for link in topology.links if link.up)
    return graph


@pytest.mark.parametrize(("spec", "hosts", "switches", "links"), SPECS)
def test_sizes(spec: str, hosts: int, switches: int, links: int) -> None:
    topology = topology_of(spec)
    assert (topology.host_count, len(topology.switches), len(topology.links)) == (hosts, switches, links)
    graph = graph_of(topology)
    assert networkx.is_connected(graph)
    assert all(graph.degree[host.name] == 1 for host in topology.hosts)
    assert topology_of(spec) == topology


def test_a_fat_tree_has_the_right_number_of_shortest_paths() -> None:
    graph = graph_of(fat_tree.k_ary(4))
    assert len(list(networkx.all_shortest_paths(graph, "h1", "h2"))) == 1
    assert len(list(networkx.all_shortest_paths(graph, "h1", "h3"))) == 2
    assert len(list(networkx.all_shortest_paths(graph, "h1", "h16"))) == 4


def test_oversubscription_is_the_ratio_of_capacities() -> None:
    topology = fat_tree.k_ary(8, 1e9, 2.5)
    into_leaf = sum(link.capacity_bps for link in topology.links if link.b == "s1-1")
    out_of_leaf = sum(link.capacity_bps for link in topology.links if link.a == "s1-1")
    assert into_leaf / out_of_leaf == 2.5


def test_dragonfly_joins_every_pair_of_groups_once() -> None:
    topology = direct.dragonfly(9, 4, 2, 1)
    joined = [frozenset((link.a[1:].split("-")[0], link.b[1:].split("-")[0])) for link in topology.links if link.a[0] == "r"]
    between = [pair for pair in joined if len(pair) == 2]
    assert len(between) == len(set(between)) == 36
    degree = graph_of(topology).degree
    assert {degree[switch.name] for switch in topology.switches} == {3 + 2 + 1}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ring:size=4", "unknown kind 'ring'"),
        ("torus:hosts=1", "needs size="),
        ("torus:size=4y4", "numbers joined by x"),
        ("torus:size=4x4,color=red", "has no option 'color'"),
        ("torus:size=100000x100000", "at most 200000"),
        ("fat-tree:k=3", "must be even"),
        ("random:switches=5,degree=3,hosts=1", "even number of ends"),
        ("dragonfly:groups=20,routers=2,globals=1,hosts=1", "don't reach 19 other groups"),
        ("two-level:leaves=4,spines=0,hosts=5", "must be positive"),
        ("file:absent.json", "absent.json: No such file"),
        ("torus:size=1x2,failed=3", "only 0 of 3 links can fail"),
    ],
)
def test_wrong_specs_are_refused(spec: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        topology_of(spec)


def test_random_failures_leave_the_network_connected() -> None:
    topology = topology_of("torus:size=4x4,failed=8,failure_seed=2")
    assert int((~topology.arc_up).sum()) == 16
    assert networkx.is_connected(graph_of(topology))


@pytest.mark.parametrize("spec", [spec for spec, *_ in SPECS])
def test_graphml_comes_back(spec: str) -> None:
    topology = topology_of(spec).with_failed([1])
    again = from_graphml(to_graphml(topology), topology.name)
    assert set(again.hosts) == set(topology.hosts)
    assert {s.name: (s.dpid, s.level) for s in again.switches} == {s.name: (s.dpid, s.level) for s in topology.switches}
    assert sorted(map(repr, again.links)) == sorted(map(repr, topology.links))


def test_graphml_of_others() -> None:
    directed = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="c" for="edge" attr.name="capacity" attr.type="double"/>
    <graph edgedefault="directed"><node id="0"/><node id="1"/><node id="2"/>
    <edge source="0" target="1"><data key="c">5e9</data></edge><edge source="1" target="0"><data key="c">5e9</data></edge>
    <edge source="2" target="1"/><edge source="1" target="2"/></graph></graphml>"""
    topology = from_graphml(directed)
    assert [host.name for host in topology.hosts] == ["0", "2"]
    assert sorted(link.capacity_bps for link in topology.links) == [1e9, 5e9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not GraphML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><graphml/>", "document type"),
        ('<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"><node id="a"/></graph></graphml>', "no node is a host"),
        (
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="c" for="edge" attr.name="capacity" attr.type="string"/><graph edgedefault="undirected">'
            '<node id="h1"/><node id="s"/><edge source="h1" target="s"><data key="c">-3</data></edge></graph></graphml>',
            r"edge 0 \(h1 -- s\): capacity must be a positive",
        ),
    ],
)
def test_wrong_graphml_is_refused(text: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        from_graphml(text)


LISTING = """#
# Topology file: generated on Sun Nov 22 2026
#
vendid=0x0
devid=0x0
sysimgguid=0x100000
switchguid=0x200000(200000)
Switch	8 "S-0000000000200000"		# "leaf 1" base port 0 lid 1 lmc 0
[1]	"H-0000000000100000"[1](100001) 		# "node01 HCA-1" lid 2 4xEDR
[2]	"H-0000000000100010"[1](100011) 		# "node02 HCA-1" lid 3 4xEDR
[3]	"S-0000000000200001"[1]		# "spine" lid 4 4xHDR

vendid=0x0
Switch	8 "S-0000000000200001"		# "spine" base port 0 lid 4 lmc 0
[1]	"S-0000000000200000"[3]		# "leaf 1" lid 1 4xHDR

Ca	1 "H-0000000000100000"		# "node01 HCA-1"
[1](100001) 	"S-0000000000200000"[1]		# lid 2 lmc 0 "leaf 1" lid 1 4xEDR

Ca	1 "H-0000000000100010"		# "node02 HCA-1"
[1](100011) 	"S-0000000000200000"[2]		# lid 3 lmc 0 "leaf 1" lid 1 4xEDR
"""


def test_ibnetdiscover() -> None:
    topology = from_ibnetdiscover(LISTING)
    assert [host.name for host in topology.hosts] == ["node01", "node02"]
    assert [(switch.name, switch.guid) for switch in topology.switches] == [("leaf 1", 0x200000), ("spine", 0x200001)]
    assert sorted((link.capacity_bps, link.a_port, link.b_port) for link in topology.links) == [(1e11, 1, 1), (1e11, 1, 2), (2e11, 3, 1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"S-0000000000200000"[3]', '"S-0000000000200000"[2]', r":11: says that port 3 .* leads to port 1 .* but that one leads to port 2"),
        ('[2]\t"H-0', '[1]\t"H-0', ":10: port 1 .* occurs twice"),
        ('[3]\t"S-0000000000200001"[1]', '[3]\tgarbage', ":11: not a port line"),
        ('"S-0000000000200001"[1]\t', '"S-1234"[1]\t', ":11: 'S-1234' has no block"),
    ],
)
def test_wrong_listings_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        from_ibnetdiscover(LISTING.replace(old, new, 1))
    with pytest.raises(FabricError, match="isn't the output"):
        from_ibnetdiscover("hello\n")


@settings(max_examples=100)
@given(st.text(max_size=300), st.integers(0, len(LISTING)))
def test_noise_is_refused_or_read(noise: str, at: int) -> None:
    for reader, text in ((from_ibnetdiscover, LISTING[:at] + noise + LISTING[at:]), (from_graphml, noise)):
        try:
            reader(text)
        except FabricError:
            pass


def test_files_are_read_by_suffix(tmp_path: Path) -> None:
    topology = topology_of("torus:size=3x3")
    (tmp_path / "a.json").write_text(topology_to_json(topology))
    (tmp_path / "a.graphml").write_text(to_graphml(topology))
    (tmp_path / "a.txt").write_text(LISTING)
    assert topology_of("file:a.json", tmp_path) == topology
    assert topology_of("file:a.graphml", tmp_path).host_count == 9
    assert topology_of("file:a.txt", tmp_path).host_count == 2


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_xgft_levels_have_the_sizes_of_the_paper(m: list[int], w: list[int]) -> None:
    topology = fat_tree.xgft(m, w[: len(m)])
    for level in range(len(m)):
        expected = int(np.prod(m[level + 1 :])) * int(np.prod(w[: level + 1]))
        assert sum(switch.level == level for switch in topology.switches) == expected
    degree = graph_of(topology).degree
    for switch in topology.switches:
        assert switch.level is not None
        assert degree[switch.name] == m[switch.level] + (w[switch.level + 1] if switch.level + 1 < len(m) else 0)
