"""Service levels, arbitration, deadlock and the files of ``ferrule-fabric infiniband``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from ibsim_net import listing_of
from test_routing import SPECS, TOPOLOGIES, random_demands

from ferrule_fabric.commands.infiniband import infiniband, infiniband_check
from ferrule_fabric.errors import FabricError
from ferrule_fabric.infiniband.deadlock import Layers, cycle_in, layers_of, ways
from ferrule_fabric.infiniband.lanes import DATA_VLS, OTHERS, WEIGHTS, levels_of
from ferrule_fabric.infiniband.opensm import checked_ports, lft_file, options, policy, read_lfts
from ferrule_fabric.infiniband.tables import Tables, base_lids, forwarding_tables, lids_from_ibnetdiscover
from ferrule_fabric.model.documents import plan_to_json
from ferrule_fabric.model.lanes import DSCP, POLICIES, LanePlan
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.routing.allocate import allocate
from ferrule_fabric.routing.deadlock import Dependencies, cycle, layered
from ferrule_fabric.topologies.ibnetdiscover import from_ibnetdiscover
from ferrule_fabric.topologies.spec import GENERATORS, topology_of

TREES = ("two-level", "xgft", "fat-tree")
RING = "torus:size=5,hosts=1"
PLANS = [LanePlan(policy, count) for policy, (few, _, most) in POLICIES.items() for count in range(few, most + 1)]


def tables_of(topology: Topology, lmc: int = 0, seed: int = 1) -> tuple[Tables, list[int]]:
    """Tables for the routes of random traffic, and the LIDs of hosts."""
    plan = allocate(topology, random_demands(topology, 60, seed))
    base = {node: 8 * (node + 1) for node in range(topology.node_count)}
    lids = [base[host] + place for host in range(topology.host_count) for place in range(1 << lmc)]
    return forwarding_tables(topology, plan, base, lmc), lids


def test_all_topologies_are_looked_at() -> None:
    assert {spec.partition(":")[0] for spec in SPECS} == set(GENERATORS)


@pytest.mark.parametrize("lmc", [0, 2])
@pytest.mark.parametrize("spec", [*SPECS, RING])
def test_no_layer_of_any_topology_has_a_cycle(spec: str, lmc: int) -> None:
    topology = TOPOLOGIES.get(spec) or topology_of(spec)
    tables, lids = tables_of(topology, lmc)
    found = ways(topology, tables.ports, lids)
    layers = layers_of(found, 8)
    assert cycle_in(found, layers) is None
    # Judged once more without what made the layers.
    for layer in range(layers.count):
        assert cycle(arcs for place, arcs in found.items() if layers.of.get(place, 0) == layer) == ()
    if spec.partition(":")[0] in TREES:
        assert layers.count == 1, "shortest paths of trees go up, then down"


def test_a_cycle_is_found_and_layers_break_it() -> None:
    topology = topology_of(RING)
    tables, lids = tables_of(topology)
    found = ways(topology, tables.ports, lids)
    trouble = cycle_in(found, Layers(1, {}))
    assert trouble is not None and trouble[0] == 0 and len(trouble[1]) == 5
    assert layers_of(found, 8).count == 2
    with pytest.raises(FabricError, match="deadlock: .*more than 1 layer,.*fewer lanes"):
        layers_of(found, 1)


def test_a_loop_and_a_way_that_ends_are_told() -> None:
    topology = topology_of(RING)
    tables, lids = tables_of(topology)
    first, second = topology.host_count, int(topology.arc_head[topology.link_between("s0", "s1") * 2])
    port = {node: topology.arc_ports(2 * topology.link_between("s0", "s1") + (node != first))[0] for node in (first, second)}
    lid = lids[3]
    looping = {node: dict(table) for node, table in tables.ports.items()}
    looping[first][lid], looping[second][lid] = int(port[first] or 0), int(port[second] or 0)
    with pytest.raises(FabricError, match=f"LID {lid}: .*loop"):
        ways(topology, looping, [lid])
    del looping[first][lid]
    with pytest.raises(FabricError, match=f"LID {lid}: .*no port"):
        ways(topology, looping, [lid])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), max_size=30))
def test_layers_have_no_cycle(paths: list[list[int]]) -> None:
    layer_of = layered([[path] for path in paths], len(paths) + 1)
    for layer in set(layer_of):
        assert cycle(path for path, own in zip(paths, layer_of) if own == layer) == ()
    graph = Dependencies()
    taken = [path for path in paths if graph.add([path])]
    assert cycle(taken) == ()


# Service levels


@pytest.mark.parametrize("vls", DATA_VLS)
def test_every_class_has_a_lane_of_its_own(vls: int) -> None:
    for plan in PLANS:
        for layers in (1, 2, 3):
            needed = max(1, len(plan.classes)) * layers
            if needed > vls:
                with pytest.raises(FabricError, match=f"lanes: .*need {needed} virtual lanes.*have {vls}"):
                    levels_of(plan, vls, layers)
                continue
            levels = levels_of(plan, vls, layers)
            assert levels.used <= vls and set(levels.sl2vl) == set(range(levels.used)) and len(levels.sl2vl) == 16
            own = [level.sl + layer for name, level in levels.by_class.items() for layer in range(levels.layers_of(name)) if name in plan.classes]
            assert len(set(own)) == len(own)
            low = dict(levels.arbitration(False))
            assert set(low) == set(range(levels.used)), "a lane that isn't in the table of low priority could starve"
            assert {vl for vl, _ in levels.arbitration(True)} <= set(low)
            if needed < vls and plan.classes:
                assert levels.by_class[OTHERS].sl not in own


def test_others_share_the_lane_of_the_least_priority() -> None:
    levels = levels_of(LanePlan("segregate", 2), 2)
    assert {name: level.sl for name, level in levels.by_class.items()} == {"bulk": 0, "latency": 1, OTHERS: 0}
    assert set(WEIGHTS) == {*DSCP, OTHERS}


def test_options_and_policy_are_written() -> None:
    levels = levels_of(LanePlan("segregate", 2), 8, weights={"latency": 200, OTHERS: 1})
    text = options(levels, "/x/lfts", 1, "/x/policy").splitlines()
    for line in ("qos TRUE", "qos_max_vls 4", "qos_high_limit 16", "qos_vlarb_high 1:200", "qos_vlarb_low 0:1,1:32,2:64", "lmc 1", "qos_policy_file /x/policy"):
        assert line in text
    assert "qos_sl2vl 0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0" in text
    assert "qos_vlarb_high 0:0" in options(levels_of(LanePlan(), 1))
    assert policy(levels).split().count("qos-class:") == 2
    for wrong, match in (({"p2p": 1}, "no lane"), ({"bulk": 0}, "bulk=0"), ({"bulk": 256}, "bulk=256")):
        with pytest.raises(FabricError, match=match):
            levels_of(LanePlan("segregate", 2), weights=wrong)
    with pytest.raises(FabricError, match="--vls"):
        levels_of(LanePlan(), 3)
    with pytest.raises(FabricError, match="spaces"):
        options(levels, "a b")
    with pytest.raises(FabricError, match="--high-limit"):
        options(replace(levels, high_limit=256))
    with pytest.raises(FabricError, match="layers"):
        policy(levels_of(LanePlan(), 8, 2))


# Files


def test_tables_are_read_back() -> None:
    topology = topology_of(RING)
    topology = replace(topology, switches=tuple(replace(switch, guid=100 + place) for place, switch in enumerate(topology.switches)))
    tables, _ = tables_of(topology)
    held = read_lfts(lft_file(topology, tables))
    counts = dict.fromkeys(held, 3)
    assert checked_ports(topology, counts, held) == tables.ports
    cases: list[tuple[dict[int, int], dict[int, dict[int, int]], str]] = [
        (counts, held | {7: {1: 0}}, "switch 0x0000000000000007: isn't in this fabric.*another fabric"),
        (counts, {guid: table for guid, table in held.items() if guid != 100}, "switch s0 .*no table.*another fabric"),
        (counts | {100: 1}, held, "switch s0 .*has 1 ports.*another fabric"),
        (dict.fromkeys(held, 9), held | {100: {8: 9}}, "no link at port 9"),
    ]
    for count, wrong, match in cases:
        with pytest.raises(FabricError, match=match):
            checked_ports(topology, count, wrong)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no switch found"),
        ("0x0001 001\n", "lfts:1: an entry before"),
        ("Unicast lids [0x1-0x2] of switch guid 0xZZ ():\n", "lfts:1: not a line"),
        ("Unicast lids [0x1-0x2] of switch guid 0x1 ():\n0x0001 001\n0x0001 002\n", "lfts:3: .*twice"),
        ("Unicast lids [0x1-0x2] of switch guid 0x1 ():\n0xc001 001\n", "lfts:2: .*unicast"),
        ("Unicast lids [0x1-0x2] of switch guid 0x1 ():\nUnicast lids [0x1-0x2] of switch guid 0x1 ():\n", "lfts:2: .*twice"),
    ],
)
def test_malformed_tables_are_told(text: str, match: str) -> None:
    with pytest.raises(FabricError, match=match):
        read_lfts(text)


class Bench:
    """A folder with a fabric's listing and a plan for random traffic, and both commands."""

    def __init__(self, folder: Path, spec: str, lmc: int = 0) -> None:
        self.folder = folder
        (folder / "listing").write_text(listing_of(topology_of(spec), lmc))
        self.topology = from_ibnetdiscover((folder / "listing").read_text())
        self.plan(allocate(self.topology, random_demands(self.topology, 60, 3)))

    def plan(self, plan: RoutePlan) -> None:
        (self.folder / "plan.json").write_text(plan_to_json(plan))

    def write(self, *more: str) -> str:
        listing, out = str(self.folder / "listing"), str(self.folder / "out")
        done = CliRunner().invoke(infiniband, [str(self.folder / "plan.json"), "--ibnetdiscover", listing, "--folder", out, *more], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def check(self, listing: Path | None = None) -> str:
        done = CliRunner().invoke(infiniband_check, [str(self.folder / "out"), "--ibnetdiscover", str(listing or self.folder / "listing")], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output


def test_the_commands_write_and_check(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "two-level:leaves=4,spines=2,hosts=3", 1)
    assert "no deadlock with 1 virtual lane per class" in bench.write("--lanes", "2:segregate", "--vls", "4")
    document = json.loads((tmp_path / "out/lanes.json").read_text())
    assert document["service_levels"] == "latency=1,bulk=2" and document["layers"] == 1 and document["vlarb_high"] == "1:64"
    assert "no deadlock in 1 layer; lanes 2:segregate" in bench.check()
    for wrong, match in ((("--lanes", "9"), "need 9 virtual lanes, and the ports have 8"), (("--lanes", "x"), "--lanes"), (("--weights", "latency=3"), "no lane")):
        with pytest.raises(FabricError, match=match):
            bench.write(*wrong)


def test_a_ring_gets_layers_or_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, RING)
    with pytest.raises(FabricError, match="deadlock"):
        bench.write("--lanes", "2:segregate", "--vls", "2")
    assert not (tmp_path / "out").exists()
    bench.write("--lanes", "2:segregate", "--vls", "4")
    assert "qos_policy_file" not in (tmp_path / "out/opensm.conf").read_text()
    assert "no deadlock in 2 layers" in bench.check()
    # Whoever ignores the layers is told.
    document = json.loads((tmp_path / "out/lanes.json").read_text())
    (tmp_path / "out/lanes.json").write_text(json.dumps(document | {"layer": [], "layers": 1}))
    with pytest.raises(FabricError, match="deadlock: in layer 0: s.* -> s"):
        bench.check()
    for wrong in ({"version": 9}, {"layer": [["s0", "x", 1, 5]]}, {"layer": [1]}, {"layers": "many"}):
        (tmp_path / "out/lanes.json").write_text(json.dumps(document | wrong))
        with pytest.raises(FabricError, match="lanes.json"):
            bench.check()


def test_tables_of_another_fabric_are_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "two-level:leaves=4,spines=2,hosts=3")
    bench.write()
    other = tmp_path / "other"
    for spec in ("two-level:leaves=5,spines=2,hosts=3", "two-level:leaves=3,spines=2,hosts=3", "torus:size=3x2,hosts=1"):
        other.write_text(listing_of(topology_of(spec), 0))
        with pytest.raises(FabricError, match="another fabric|no link at port"):
            bench.check(other)
    with pytest.raises(FabricError, match="plan is for topology"):
        foreign = topology_of("two-level:leaves=5,spines=2,hosts=3")
        bench.plan(allocate(foreign, random_demands(foreign, 60, 3)))
        bench.write()


def test_ports_are_counted() -> None:
    text = listing_of(topology_of("two-level:leaves=2,spines=1,hosts=3"), 1)
    lids = lids_from_ibnetdiscover(text)
    topology = from_ibnetdiscover(text)
    assert lids.lmc == 1 and len(base_lids(topology, lids)) == topology.node_count
    assert sorted(lids.port_count.values()) == [2, 4, 4]
