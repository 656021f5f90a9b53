"""Rules and updates on a network that executes them: every packet reaches its host on the planned path, at every moment of an update."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from fake_network import FakeNetwork, executed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.model.traffic import Demands, Flow
from ferrule_fabric.openflow import update
from ferrule_fabric.openflow.compiler import Compiled, JobRoutes, Key, compile_rules
from ferrule_fabric.openflow.defaults import default_routes
from ferrule_fabric.openflow.rules import BROADCAST, Add, AddGroup, Match, Refused, RemoveGroup, Rule, Selector, apply, groups_of
from ferrule_fabric.openflow.splits import WEIGHT_SUM, whole_weights
from ferrule_fabric.routing.allocate import allocate
from ferrule_fabric.topologies.spec import topology_of, with_random_failures

SPECS = (
    "two-level:leaves=4,spines=2,hosts=2",
    "xgft:m=2x2x2,w=1x2x2",
    "torus:size=3x3,hosts=1",
    "hyperx:size=3x2,hosts=2",
    "random:switches=7,degree=4,hosts=1,seed=3",
    "dragonfly:groups=3,routers=2,globals=1,hosts=1",
)
TOPOLOGIES = {spec: topology_of(spec) for spec in SPECS}


def random_path(topology: Topology, src: int, dst: int, rng: random.Random) -> tuple[int, ...] | None:
    """Arcs of a random simple path, not only of a shortest one."""
    out: dict[int, list[int]] = {}
    for arc in range(topology.arc_count):
        if topology.arc_up[arc]:
            out.setdefault(int(topology.arc_tail[arc]), []).append(arc)
    first, last = int(topology.host_uplink_arcs[src]), int(topology.host_uplink_arcs[dst]) ^ 1
    goal = int(topology.arc_tail[last])
    for _ in range(50):
        arcs, node, seen = [first], int(topology.arc_head[first]), {int(topology.arc_head[first])}
        while node != goal and len(arcs) < 12:
            steps = [arc for arc in out[node] if topology.arc_head[arc] >= topology.host_count and int(topology.arc_head[arc]) not in seen]
            if not steps:
                break
            arcs.append(rng.choice(steps))
            node = int(topology.arc_head[arcs[-1]])
            seen.add(node)
        if node == goal:
            return (*arcs, last)
    return None


def random_plan(topology: Topology, rng: random.Random, share: float, paths: int = 1) -> RoutePlan:
    """Routes for a share of all pairs, each with up to so many paths of random weight."""
    routes = {}
    for src in range(topology.host_count):
        for dst in range(topology.host_count):
            if src == dst or rng.random() >= share:
                continue
            found = {arcs for _ in range(rng.randint(1, paths)) if (arcs := random_path(topology, src, dst, rng))}
            if found:
                parts = [rng.randint(1, 9) for _ in found]
                routes[topology.node_names[src], topology.node_names[dst]] = Route(tuple(Path(arcs) for arcs in sorted(found)), tuple(part / sum(parts) for part in parts))
    return RoutePlan(topology.digest, routes)


def expect(network: FakeNetwork, compiled: Compiled, exact: bool) -> None:
    """All packets arrive; with ``exact`` each on its path."""
    topology = network.topology
    names = topology.node_names
    for src in range(topology.host_count):
        for dst in range(topology.host_count):
            if src == dst:
                continue
            packet = network.packet(names[src], names[dst])
            ways = network.ways(names[src], packet)
            assert all(topology.arc_head[arcs[-1]] == dst for arcs in ways) and abs(sum(ways.values()) - 1) < 1e-9
            if exact:
                taking = [key for key in compiled.keys_of.get((src, dst), ()) if key[1].takes(packet)]
                planned = compiled.paths[max(taking, key=lambda key: key[0])] if taking else (compiled.defaults.path(topology, src, dst),)
                # Paths that meet may go on as any of them did: what counts is which arcs carry the pair.
                assert {arc for arcs in ways for arc in arcs} == {arc for arcs in planned if arcs for arc in arcs}
                assert len(planned) > 1 or set(ways) == set(planned)


def walk(network: FakeNetwork, sets: list[Compiled], rng: random.Random, check_each: bool = True) -> None:
    """Goes through the rounds of each step, checking after each message."""
    for old, new in pairwise(sets):
        for _ in executed(network, old, new, rng):
            if check_each:
                expect(network, new, exact=False)
        expect(network, new, exact=True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_updates_never_lose_or_loop(spec: str, seed: int, tight_before: bool, tight_after: bool) -> None:
    rng = random.Random(seed)
    topology = TOPOLOGIES[spec]
    network = FakeNetwork(topology)
    entries_base = topology.host_count + 1
    limits = [entries_base + rng.randrange(2, 6) if tight else 100_000 for tight in (tight_before, tight_after)]
    selectors = [rng.choice((Selector(), Selector("ipv4"), Selector("ipv4", tcp_port=5000))) for _ in range(2)]
    empty = compile_rules(topology)
    for node, table in empty.tables.items():
        network.tables[node] = dict(table)
    first = [JobRoutes(1, random_plan(topology, rng, 0.15, 3), selectors[0])]
    second = [*(first if rng.random() < 0.5 else ()), JobRoutes(2, random_plan(topology, rng, 0.15, 3), selectors[1])]
    current = empty
    for jobs, limit in ((first, limits[0]), (second, limits[1]), ([], 100_000)):
        sets = update.steps(topology, current, jobs, limit)
        walk(network, [current, *sets], rng)
        current = sets[-1]
    assert network.tables == empty.tables


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.booleans())
def test_link_failure_and_return(spec: str, seed: int, tight: bool) -> None:
    """When links come back nothing is lost; when they fail, packets that don't use them aren't concerned, and all arrive afterwards."""
    rng = random.Random(seed)
    whole = TOPOLOGIES[spec]
    try:
        broken = with_random_failures(whole, 1, seed)
    except FabricError:
        return
    limit = whole.host_count + 5 if tight else 100_000
    job = JobRoutes(1, random_plan(broken, rng, 0.2, 2))
    before = compile_rules(broken, [job], limit)
    network = FakeNetwork(broken)
    network.hold(before.tables)
    network.topology = whole
    walk(network, [before, *update.steps(whole, before, [JobRoutes(1, random_plan(whole, rng, 0.2, 2))], limit)], rng)
    intact = compile_rules(whole, [job])
    network.hold(intact.tables)
    network.topology = broken
    walk(network, [intact, *update.steps(broken, intact, [job], 100_000)], rng, check_each=False)


@pytest.mark.parametrize("spec", SPECS)
def test_broadcast_reaches_each_host_once(spec: str) -> None:
    topology = TOPOLOGIES[spec]
    network = FakeNetwork(topology)
    network.tables = compile_rules(topology).tables
    reached = network.flood("h1", {"eth_dst": BROADCAST, "eth_src": str(topology.hosts[0].mac)})
    assert sorted(reached) == sorted(host.name for host in topology.hosts[1:])


def test_default_routes_spread_over_spines() -> None:
    topology = topology_of("two-level:leaves=4,spines=2,hosts=5")
    routes = default_routes(topology)
    used = [topology.path_nodes(path)[2] for dst in range(5, 20) if (path := routes.path(topology, 0, dst))]
    assert abs(used.count("s2-1") - used.count("s2-2")) <= 1


def test_small_tables_keep_the_heaviest() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    rng = random.Random(1)
    plan = random_plan(topology, rng, 1.0)
    volume = {pair: float(number) for number, pair in enumerate(plan.routes)}
    compiled = compile_rules(topology, [JobRoutes(1, plan, volume=volume)], entries_max=topology.host_count + 4)
    assert compiled.compact and compiled.left_out and max(map(len, compiled.tables.values())) <= topology.host_count + 4
    assert max(volume[pair] for _, pair, _ in compiled.left_out) < max(volume.values())
    with pytest.raises(FabricError, match="don't fit"):
        compile_rules(topology, [], entries_max=3)


def diamond(weights: tuple[float, ...]) -> tuple[Topology, RoutePlan]:
    """h1 to h3 over both spines."""
    topology = topology_of("two-level:leaves=2,spines=2,hosts=2")
    first, last = int(topology.host_uplink_arcs[0]), int(topology.host_uplink_arcs[2]) ^ 1
    middle = [arc for arc in range(topology.arc_count) if topology.node_names[topology.arc_tail[arc]] == "s1-1" and topology.arc_head[arc] >= topology.host_count]
    paths = []
    for arc in middle:
        down = next(other for other in range(topology.arc_count) if topology.arc_tail[other] == topology.arc_head[arc] and topology.node_names[topology.arc_head[other]] == "s1-2")
        paths.append(Path((first, arc, down, last)))
    return topology, RoutePlan(topology.digest, {("h1", "h3"): Route(tuple(paths), weights)})


def test_shares_are_those_of_the_plan() -> None:
    topology, plan = diamond((0.7, 0.3))
    network = FakeNetwork(topology)
    network.hold(compile_rules(topology, [JobRoutes(1, plan)]).tables)
    ways = network.ways("h1", network.packet("h1", "h3"))
    assert {path.arcs: pytest.approx(weight) for path, weight in zip(plan.routes["h1", "h3"].paths, (0.7, 0.3))} == ways
    for limit in (0, 1):
        without = compile_rules(topology, [JobRoutes(1, plan), JobRoutes(2, diamond((0.5, 0.5))[1], Selector("ipv4"))], groups_max=limit)
        assert sum(len(groups_of(table.values())) for table in without.tables.values()) == limit
        assert len(without.ends) == 2 and not without.left_out


def test_split_allocations_are_installed_as_they_are() -> None:
    """Every arc carries what the linear program gives it, to the precision of the weights; rules that split alike share a group."""
    topology = topology_of("xgft:m=2x2x3,w=1x2x2")
    rng = random.Random(5)
    ends = [(src, dst) for src in range(topology.host_count) for dst in range(topology.host_count) if src != dst and rng.random() < 0.4]
    flows = [Flow(topology.node_names[src], topology.node_names[dst], rng.randint(1, 9) * 1_000_000) for src, dst in ends]
    plan = allocate(topology, Demands.of_flows(flows, topology), "split")
    split = [pair for pair, route in plan if len(route.paths) > 1]
    assert split
    network = FakeNetwork(topology)
    network.hold(compile_rules(topology, [JobRoutes(1, plan)]).tables)
    for pair, route in plan:
        planned: dict[int, float] = {}
        for path, weight in zip(route.paths, route.weights):
            for arc in path.arcs:
                planned[arc] = planned.get(arc, 0.0) + weight
        found: dict[int, float] = {}
        for arcs, share in network.ways(pair[0], network.packet(*pair)).items():
            for arc in arcs:
                found[arc] = found.get(arc, 0.0) + share
        assert found.keys() == planned.keys() and all(abs(found[arc] - planned[arc]) < 0.02 for arc in found)


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=64))
def test_weights_are_whole_and_near(shares: list[float]) -> None:
    weights = whole_weights(shares)
    assert sum(weights) == WEIGHT_SUM and min(weights) >= 1
    if len(shares) < 10 and min(shares) / sum(shares) > 0.01:
        assert all(abs(weight - WEIGHT_SUM * share / sum(shares)) <= 1 for weight, share in zip(weights, shares))


def test_paths_that_would_circle_together_are_not_split() -> None:
    """h1 to h2 clockwise and, through the same switches the other way round, a detour: each path is sound, their union has a cycle."""
    topology = topology_of("hyperx:size=4,hosts=1")
    names = topology.node_names
    arc = {(names[topology.arc_tail[a]], names[topology.arc_head[a]]): a for a in range(topology.arc_count)}
    one, two, three, four = names[topology.host_count :]
    nodes = (("h1", one, two, three, four, "h4"), ("h1", one, three, two, four, "h4"))
    route = Route(tuple(Path(tuple(arc[pair] for pair in zip(way, way[1:]))) for way in nodes), (0.6, 0.4))
    compiled = compile_rules(topology, [JobRoutes(1, RoutePlan(topology.digest, {("h1", "h4"): route}))])
    assert next(iter(compiled.paths.values())) == (route.paths[0].arcs,)


def test_groups_the_switch_lacks_are_refused() -> None:
    rule = Rule(5, Match(), (1, 2), weights=(50, 50))
    assert rule.group is not None
    with pytest.raises(Refused, match="no group"):
        apply({}, {}, [Add(rule)])
    table: dict[Key, Rule] = {}
    apply(table, {}, [AddGroup(rule.group), Add(rule), RemoveGroup(rule.group.number)])
    assert table == {}


def test_what_rules_need_is_asked_for() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    with pytest.raises(FabricError, match="plan"):
        compile_rules(TOPOLOGIES[SPECS[1]], [JobRoutes(1, random_plan(topology, random.Random(0), 0.5))])
    with pytest.raises(FabricError, match="job number"):
        compile_rules(topology, [JobRoutes(0, random_plan(topology, random.Random(0), 0.5))])
    for wrong in ({"by": "name"}, {"tcp_port": 0}, {"dscp": 64}):
        with pytest.raises(FabricError, match=r"selector\."):
            Selector(**wrong)
