"""Path allocation: paths are real, bounds hold, the better algorithm is never worse, jobs come and go."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric import Demands, FabricError, RoutePlan, Topology
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import placed
from ferrule_fabric.placing.select import selected
from ferrule_fabric.routing import jobs
from ferrule_fabric.routing.allocate import ALGORITHMS, Options, allocate, flow_paths, max_load_s, plan_loads_s
from ferrule_fabric.routing.bound import cut_bound_s, lower_bound_s, path_shares, whole_bound_s
from ferrule_fabric.routing.candidates import candidates_of
from ferrule_fabric.routing.deadlock import layers, plan_cycle
from ferrule_fabric.routing.exact import Effort, solved
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.routing.fairness import estimated_time_s, fair_rates, finish_times_s
from ferrule_fabric.routing.flow_paths import arc_seconds, paths_of, plan_of
from ferrule_fabric.routing.search import paths_chosen
from ferrule_fabric.topologies.spec import topology_of

SPECS = (
    "two-level:leaves=4,spines=2,hosts=5",
    "xgft:m=2x2x3,w=1x2x2",
    "fat-tree:k=4,oversubscription=2.5",
    "torus:size=3x4,hosts=2",
    "hyperx:size=3x3,hosts=2",
    "dragonfly:groups=5,routers=2,globals=2,hosts=2",
    "dragonfly+:groups=3,leaves=2,spines=2,globals=1,hosts=3",
    "random:switches=10,degree=3,hosts=2,seed=4",
)
TOPOLOGIES = {spec: topology_of(spec) for spec in SPECS}


def random_demands(topology: Topology, flows: int, seed: int) -> Demands:
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, topology.host_count, (2, flows))
    return Demands.of_pairs(topology.host_count, ends[0], ends[1], generator.exponential(1e6, flows) + 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("spec", SPECS)
def test_every_algorithm_gives_real_paths(spec: str, algorithm: str) -> None:
    topology = TOPOLOGIES[spec]
    demands = random_demands(topology, 12 if algorithm == "exact" else 60, 7)
    plan = allocate(topology, demands, algorithm)
    plan.check(topology)
    assert len(plan) == demands.count
    if algorithm != "split":
        assert all(len(route.paths) == 1 for _, route in plan)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SPECS), st.integers(1, 120), st.integers(0, 2**31), st.integers(0, 3))
def test_bounds_and_order(spec: str, flows: int, seed: int, failures: int) -> None:
    topology = topology_of(f"{spec},failed={failures},failure_seed={seed % 97}")
    fabric, demands = fabric_of(topology), random_demands(topology, flows, seed)
    if not demands.count:
        return
    load = {a: max_load_s(topology, arc_seconds(fabric, demands, flow_paths(fabric, demands, a)), True) for a in ("d-mod-k", "ecmp", "greedy", "ferrule", "split")}
    bound = lower_bound_s(fabric, demands)
    assert cut_bound_s(fabric, demands) <= bound * (1 + 1e-6) + 1e-12
    assert load["ferrule"] <= load["greedy"] * (1 + 1e-9)
    assert all(bound <= value * (1 + 1e-6) for value in load.values())
    if candidates_of(fabric, demands).complete:
        assert load["split"] <= bound * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_is_near_the_exact_optimum(seed: int) -> None:
    topology = TOPOLOGIES[SPECS[seed % 3]]
    fabric, demands = fabric_of(topology), random_demands(topology, 24, seed)
    load = {a: max_load_s(topology, arc_seconds(fabric, demands, flow_paths(fabric, demands, a)), True) for a in ("exact", "ferrule")}
    assert load["exact"] * (1 - 1e-6) <= load["ferrule"] <= load["exact"] * 1.05


def test_exact_agrees_with_trying_everything() -> None:
    topology = TOPOLOGIES["two-level:leaves=4,spines=2,hosts=5"]
    fabric, demands = fabric_of(topology), random_demands(topology, 10, 3)
    candidates = candidates_of(fabric, demands)
    choices = [range(candidates.path_first[c], candidates.path_first[c + 1]) for c in candidates.commodity]
    least = np.inf
    for chosen in itertools.product(*choices):
        load = np.zeros(topology.arc_count)
        for i, p in enumerate(chosen):
            arcs = candidates.arcs[candidates.first[p] : candidates.first[p + 1]]
            load[arcs] += demands.bytes[i] * fabric.seconds_per_byte[arcs]
        least = min(least, float(load.max()))
    plan = allocate(topology, demands, "exact")
    assert max_load_s(topology, plan_loads_s(topology, demands, plan), True) == pytest.approx(least)
    assert least * (1 - 1e-5) <= solved(fabric, candidates, demands.bytes).bound_s <= least * (1 + 1e-9)
    beaten = solved(fabric, candidates, demands.bytes, at_most_s=least * 0.99)
    assert beaten.chosen is None and least * 0.98 < beaten.bound_s <= least * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 2**31), st.integers(1, 3))
def test_equal_flows_are_solved_together(spec: str, seed: int, sizes: int) -> None:
    """Classes of equal demands: every demand gets one path of its commodity, and the bound in whole flows holds for the optimum."""
    topology = TOPOLOGIES[spec]
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, topology.host_count, (2, 40))
    demands = Demands.of_pairs(topology.host_count, ends[0], ends[1], generator.integers(1, sizes + 1, 40) * 1_000_000)
    fabric = fabric_of(topology)
    candidates = candidates_of(fabric, demands)
    result = solved(fabric, candidates, demands.bytes, effort=Effort(gap=0.01, nodes_max=50))
    if result.chosen is None:
        return
    assert np.all(result.chosen >= candidates.path_first[candidates.commodity]) and np.all(result.chosen < candidates.path_first[candidates.commodity + 1])
    reached = max_load_s(topology, arc_seconds(fabric, demands, paths_chosen(candidates, result.chosen)), True)
    bound = lower_bound_s(fabric, demands)
    assert bound * (1 - 1e-6) <= whole_bound_s(fabric, demands, bound) <= reached * (1 + 1e-6)
    assert result.bound_s <= reached * (1 + 1e-6)


def test_the_integer_program_helps_where_exchanges_are_stuck() -> None:
    topology = topology_of("hyperx:size=4x4,hosts=2")
    traffic = pattern_of("permutation:ranks=128,bytes=1e9").total
    demands = Demands.of_traffic(traffic, placed(topology, traffic, selected(topology, 32, "first"), 4, "cyclic", 1), topology)
    fabric = fabric_of(topology)
    load = {i: max_load_s(topology, arc_seconds(fabric, demands, flow_paths(fabric, demands, "ferrule", options=Options(integer=i))), True) for i in (False, True)}
    assert load[True] == pytest.approx(lower_bound_s(fabric, demands)) and load[False] > 1.2 * load[True]


def test_d_mod_k_spreads_destinations_and_depends_on_them_only() -> None:
    topology = topology_of("xgft:m=4x4x4,w=1x4x4")
    everyone = np.arange(64)
    demands = Demands.of_pairs(64, np.repeat(everyone, 64), np.tile(everyone, 64), np.ones(64 * 64))
    plan = allocate(topology, demands, "d-mod-k")
    next_arc: dict[tuple[str, str], int] = {}
    for (_, dst), route in plan:
        arcs = route.paths[0].arcs
        for node, arc in zip(topology.path_nodes(arcs)[1:], arcs[1:]):
            assert next_arc.setdefault((node, dst), arc) == arc
    # A shift permutation is free of contention on a full-bisection fat tree under D-mod-K (Zahavi 2012).
    shift = Demands.of_pairs(64, everyone, (everyone + 16) % 64, np.full(64, 1e6))
    load = plan_loads_s(topology, shift, allocate(topology, shift, "d-mod-k"))
    assert max_load_s(topology, load, True) == pytest.approx(8e6 / 1e9)


def test_candidates_are_all_shortest_paths_or_distinct_ones() -> None:
    topology = topology_of("torus:size=4x4x4")
    fabric, demands = fabric_of(topology), Demands.of_pairs(64, np.array([0]), np.array([42]), np.array([1.0]))
    whole = candidates_of(fabric, demands, paths_max=1000)
    assert whole.complete and whole.path_first[-1] == 90 * 8
    some = candidates_of(fabric, demands, paths_max=32, seed=5)
    listed = {tuple(some.arcs[some.first[p] : some.first[p + 1]].tolist()) for p in range(32)}
    assert not some.complete and len(listed) == 32
    longer = candidates_of(fabric_of(TOPOLOGIES["hyperx:size=3x3,hosts=2"]), Demands.of_pairs(18, np.array([0]), np.array([2]), np.array([1.0])), slack=1)
    assert np.diff(longer.first).tolist().count(1) == 1 and np.diff(longer.first).tolist().count(2) == 1


def test_slack_helps_where_shortest_paths_are_few() -> None:
    topology = topology_of("hyperx:size=4,hosts=4")
    demands = Demands.of_pairs(16, np.arange(4), np.arange(4, 8), np.full(4, 1e6))
    tight = allocate(topology, demands, "ferrule")
    loose = allocate(topology, demands, "ferrule", options=Options(slack=1))
    assert max_load_s(topology, plan_loads_s(topology, demands, loose), True) < max_load_s(topology, plan_loads_s(topology, demands, tight), True) / 1.9


def test_background_is_avoided() -> None:
    topology = topology_of("two-level:leaves=2,spines=2,hosts=2")
    demands = Demands.of_pairs(4, np.array([0]), np.array([2]), np.array([1e6]))
    busy = np.zeros(topology.arc_count)
    busy[2 * topology.link_between("s1-1", "s2-1")] = 1.0
    for algorithm in ("greedy", "ferrule", "split", "exact"):
        plan = allocate(topology, demands, algorithm, busy)
        assert topology.path_nodes(plan.routes["h1", "h3"].paths[0].arcs)[2] == "s2-2"


def test_plans_and_arrays_are_the_same_thing() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    fabric, demands = fabric_of(topology), random_demands(topology, 80, 1)
    paths = flow_paths(fabric, demands, "split")
    again = paths_of(fabric, demands, plan_of(fabric, demands, paths))
    assert np.allclose(arc_seconds(fabric, demands, paths), arc_seconds(fabric, demands, again))


def test_cut_off_pairs_are_named() -> None:
    topology = topology_of("two-level:leaves=2,spines=1,hosts=1").with_failed([0])
    demands = Demands.of_pairs(2, np.array([0]), np.array([1]), np.array([1.0]))
    with pytest.raises(FabricError, match="no working path from h1 to h2"):
        allocate(topology, demands)


def test_repair_moves_only_what_must() -> None:
    topology = topology_of("two-level:leaves=4,spines=3,hosts=5")
    demands = random_demands(topology, 100, 2)
    plan = allocate(topology, demands)
    broken = topology.with_failed([topology.link_between("s1-1", "s2-2")])
    repaired = jobs.repaired(broken, demands, plan)
    repaired.check(broken)
    hit = set(plan.uses_failed_links(broken))
    assert hit and not repaired.uses_failed_links(broken)
    assert all(repaired.routes[pair] == route for pair, route in plan if pair not in hit)
    cut = topology.with_failed([0])
    assert all("h1" not in pair for pair, _ in jobs.repaired(cut, demands, plan))


def test_repair_also_mends_routes_without_traffic() -> None:
    topology = topology_of("two-level:leaves=4,spines=3,hosts=5")
    plan = allocate(topology, random_demands(topology, 100, 2))
    broken = topology.with_failed([topology.link_between("s1-1", "s2-2")])
    repaired = jobs.repaired(broken, random_demands(topology, 3, 5), plan)
    assert set(repaired.routes) >= set(plan.routes) and not repaired.uses_failed_links(broken)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pairs_that_send_nothing_get_routes_too(algorithm: str) -> None:
    topology = TOPOLOGIES[SPECS[0]]
    demands = Demands.of_pairs(20, np.arange(5), np.arange(5, 10), np.zeros(5), np.ones(5, dtype=np.int64))
    plan = allocate(topology, demands, algorithm)
    plan.check(topology)
    assert len(plan) == 5 and lower_bound_s(fabric_of(topology), demands) == 0.0
    nothing = Demands.of_pairs(20, np.arange(2), np.arange(2), np.ones(2))
    assert len(allocate(topology, nothing, algorithm)) == 0


def test_jobs_arrive_leave_and_rebalance() -> None:
    topology = TOPOLOGIES["two-level:leaves=4,spines=2,hosts=5"]
    running: dict[str, tuple[Demands, RoutePlan]] = {}
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        demands = random_demands(topology, 60, seed)
        running[name] = demands, jobs.arrival(topology, running, name, demands)
    with pytest.raises(FabricError, match="'a' has routes already"):
        jobs.arrival(topology, running, "a", running["a"][0])
    del running["b"]
    before = max_load_s(topology, jobs.background_s(topology, running), True)
    plans = jobs.rebalanced(topology, running)
    after = {name: (running[name][0], plan) for name, plan in plans.items()}
    assert max_load_s(topology, jobs.background_s(topology, after), True) <= before * (1 + 1e-9)
    for plan in plans.values():
        plan.check(topology)


def test_fairness_between_jobs_protects_the_small_one() -> None:
    topology = topology_of("two-level:leaves=2,spines=2,hosts=4")
    one = Demands.of_pairs(8, np.array([0, 1]), np.array([4, 5]), np.array([1e9, 1e9]))
    small = Demands.of_pairs(8, np.array([2, 3]), np.array([6, 7]), np.array([1e6, 1e6]))
    plans = jobs.together(topology, {"large": one, "small": small})
    own = plan_loads_s(topology, small, plans["small"])
    assert max_load_s(topology, own, True) == pytest.approx(8e6 / 1e9)


def test_phases_share_a_plan() -> None:
    topology = topology_of("two-level:leaves=2,spines=2,hosts=2")
    apart = [Demands.of_pairs(4, np.array([0]), np.array([2]), np.array([1e6])), Demands.of_pairs(4, np.array([0, 1]), np.array([2, 3]), np.array([1e6, 1e6]))]
    plan = jobs.phased(topology, apart)
    plan.check(topology)
    assert sum(max_load_s(topology, plan_loads_s(topology, phase, plan), True) for phase in apart) == pytest.approx(2 * 8e6 / 1e9)


def test_rates_are_max_min_fair() -> None:
    # Bertsekas and Gallager's line of links: the long flow shares each link with one short one.
    first, arcs = np.array([0, 2, 3, 4]), np.array([0, 1, 0, 1])
    assert fair_rates(first, arcs, np.ones(3), np.array([1.0, 2.0])).tolist() == [0.5, 0.5, 1.5]
    assert fair_rates(first, arcs, np.array([3.0, 1.0, 1.0]), np.array([1.0, 2.0])).tolist() == [0.75, 0.25, 1.25]
    assert finish_times_s(first, arcs, np.array([1.0, 0.25, 1.0]), np.ones(3), np.array([1.0, 2.0])).tolist() == pytest.approx([1.25, 0.5, 0.75], rel=0.03)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(2, 8), st.integers(0, 2**31))
def test_fair_rates_fill_a_bottleneck_of_every_flow(flows: int, arc_count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    paths = [generator.choice(arc_count, generator.integers(1, min(4, arc_count + 1)), replace=False) for _ in range(flows)]
    first, arcs = np.concatenate(([0], np.cumsum([p.size for p in paths]))), np.concatenate(paths)
    capacity = generator.uniform(1, 10, arc_count)
    rate = fair_rates(first, arcs, np.ones(flows), capacity)
    used = np.bincount(arcs, weights=np.repeat(rate, np.diff(first)), minlength=arc_count)
    assert np.all(used <= capacity * (1 + 1e-9))
    for i, path in enumerate(paths):
        full = [a for a in path if used[a] >= capacity[a] * (1 - 1e-9)]
        assert any(rate[i] >= max(rate[j] for j, other in enumerate(paths) if a in other) * (1 - 1e-9) for a in full)


def test_time_is_at_least_the_most_loaded_arc() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    fabric, demands = fabric_of(topology), random_demands(topology, 100, 9)
    paths = flow_paths(fabric, demands, "ferrule")
    assert estimated_time_s(fabric, demands, paths) >= max_load_s(topology, arc_seconds(fabric, demands, paths)) * (1 - 1e-9)


def test_trees_are_free_of_deadlock_and_tori_need_layers() -> None:
    tree, ring = topology_of("xgft:m=2x2x3,w=1x2x2"), topology_of("torus:size=5")
    assert plan_cycle(allocate(tree, random_demands(tree, 100, 1))) == ()
    around = Demands.of_pairs(5, np.arange(5), (np.arange(5) + 2) % 5, np.ones(5))
    plan = allocate(ring, around)
    found = plan_cycle(plan)
    assert len(found) == 5
    level_of = layers(plan)
    assert set(level_of.values()) == {0, 1}


def test_path_shares_are_the_bound_when_nothing_is_left_out() -> None:
    topology = TOPOLOGIES["torus:size=3x4,hosts=2"]
    fabric, demands = fabric_of(topology), random_demands(topology, 60, 5)
    shares, top_s = path_shares(fabric, candidates_of(fabric, demands), demands.bytes)
    assert top_s == pytest.approx(lower_bound_s(fabric, demands), rel=1e-5)
    assert shares.sum() == pytest.approx(demands.bytes.sum())
