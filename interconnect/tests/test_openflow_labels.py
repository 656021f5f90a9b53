"""Path labels on a network that executes them: nothing is lost, also of what is under way, and no table is ever larger than it may be."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from fake_network import FakeNetwork, executed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_openflow_rules import expect, random_path

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow import update
from ferrule_fabric.openflow.compiler import FULL, Compiled, JobRoutes, compile_rules
from ferrule_fabric.openflow.labels import LABEL_MIN, Labelled, Labels, from_lists, labelled, shared, to_lists
from ferrule_fabric.openflow.rules import VLAN_PRESENT, Selector
from ferrule_fabric.topologies.spec import topology_of, with_random_failures

SPECS = (
    "torus:size=3x3,hosts=2",
    "torus:size=5,hosts=2",
    "hyperx:size=3x2,hosts=2",
    "xgft:m=2x2x2,w=1x2x2",
    "random:switches=7,degree=4,hosts=2,seed=3",
    "dragonfly:groups=3,routers=2,globals=1,hosts=2",
)
TOPOLOGIES = {spec: topology_of(spec) for spec in SPECS}


def shared_plan(topology: Topology, rng: random.Random, share: float) -> RoutePlan:
    """Routes for a share of all pairs; the pairs between two switches all go one random way."""
    way: dict[tuple[int, int], tuple[int, ...] | None] = {}
    routes = {}
    for src in range(topology.host_count):
        for dst in range(topology.host_count):
            if src == dst or rng.random() >= share:
                continue
            first, last = int(topology.host_uplink_arcs[src]), int(topology.host_uplink_arcs[dst]) ^ 1
            ends = int(topology.arc_head[first]), int(topology.arc_tail[last])
            if ends not in way:
                found = random_path(topology, src, dst, rng)
                way[ends] = found[1:-1] if found else None
            middle = way[ends]
            if middle is not None:
                routes[topology.node_names[src], topology.node_names[dst]] = Route((Path((first, *middle, last)),))
    return RoutePlan(topology.digest, routes)


def walk_with_queues(network: FakeNetwork, sets: list[Compiled], rng: random.Random) -> None:
    """Goes through the rounds message by message. After some of them and each round, packets that start now and packets that are anywhere on a way of before arrive."""
    topology = network.topology
    names = topology.node_names
    packets = {(src, dst): network.packet(names[src], names[dst]) for src in range(topology.host_count) for dst in range(topology.host_count) if src != dst}
    under_way: dict[tuple[int, int], set[tuple[int, int]]] = {pair: set() for pair in packets}

    def check() -> None:
        for (src, dst), packet in packets.items():
            seen = under_way[src, dst]
            for arc, label in {(int(topology.host_uplink_arcs[src]), 0), *seen}:
                ways = network.ways_from(arc, {**packet, "vlan_vid": label} if label else packet, seen)
                assert all(topology.arc_head[arcs[-1]] == dst for arcs in ways)

    latest: update.Round | None = None
    for old, new in pairwise(sets):
        for one, ends in executed(network, old, new, rng):
            if one is not latest and one.drain:
                under_way = {pair: set() for pair in packets}
            latest = one
            if ends or rng.random() < 0.1:
                check()
        expect(network, new, exact=True)


def agree(one: Labels, other: Labels) -> bool:
    return all(other[number].get(node, step) == step for number in one.keys() & other.keys() for node, step in one[number].items())


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SPECS), st.integers(0, 10**6))
def test_labels_come_change_and_go_without_loss(spec: str, seed: int) -> None:
    rng = random.Random(seed)
    topology = TOPOLOGIES[spec]
    limit = topology.host_count + 1 + rng.randrange(2, 12)
    network = FakeNetwork(topology, limit)
    current = compile_rules(topology, (), limit)
    network.hold(current.tables)
    first, second = (JobRoutes(number, shared_plan(topology, rng, rng.choice((0.3, 1.0))), rng.choice((Selector(), Selector("ipv4", tcp_port=5000)))) for number in (1, 2))
    changed = replace(first, plan=shared_plan(topology, rng, 0.5))
    for jobs in ([first], [changed], [changed, second], [second], []):
        sets = update.steps(topology, current, jobs, limit)
        assert all(agree(before.labels, after.labels) for before, after in zip([current, *sets], sets))
        walk_with_queues(network, [current, *sets], rng)
        current = sets[-1]
    assert not current.labels


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SPECS), st.integers(0, 10**6))
def test_labels_when_a_link_returns(spec: str, seed: int) -> None:
    rng = random.Random(seed)
    whole = TOPOLOGIES[spec]
    try:
        broken = with_random_failures(whole, 1, seed)
    except FabricError:
        return
    limit = whole.host_count + 1 + rng.randrange(4, 12)
    before = compile_rules(broken, [JobRoutes(1, shared_plan(broken, rng, 0.7))], limit)
    network = FakeNetwork(whole, limit)
    network.hold(before.tables)
    walk_with_queues(network, [before, *update.steps(whole, before, [JobRoutes(1, shared_plan(whole, rng, 0.7))], limit)], rng)


def test_labels_hold_what_rules_per_pair_cannot() -> None:
    """Many pairs of a torus on ways of their own: without labels some must be left out, with labels none."""
    topology = topology_of("torus:size=4x4,hosts=3")
    plan = shared_plan(topology, random.Random(3), 0.4)
    volume = {pair: float(number) for number, pair in enumerate(plan.routes)}
    limit = topology.host_count + 200
    job = JobRoutes(1, plan, volume=volume)
    without = compile_rules(topology, [job], limit, labels_max=0)
    compiled = compile_rules(topology, [job], limit)
    assert len(without.left_out) > 60 and not without.labels
    assert not compiled.left_out and compiled.labels and max(map(len, compiled.tables.values())) <= limit
    network = FakeNetwork(topology, limit)
    network.hold(compiled.tables)
    expect(network, compiled, exact=True)
    some = compile_rules(topology, [job], limit, labels_max=10)
    assert len(some.labels) <= 10 and len(compiled.left_out) < len(some.left_out) <= len(without.left_out)
    # Even smaller: who has the least traffic goes without.
    tiny = compile_rules(topology, [job], topology.host_count + 20)
    assert tiny.left_out and {why for _, _, why in tiny.left_out} == {FULL} and max(map(len, tiny.tables.values())) <= topology.host_count + 20
    network.hold(tiny.tables)
    expect(network, tiny, exact=True)


def test_numbers_survive_a_restart() -> None:
    topology = TOPOLOGIES[SPECS[0]]
    rng = random.Random(4)
    limit = topology.host_count + 12
    jobs = [JobRoutes(number, shared_plan(topology, rng, 0.3)) for number in (1, 2)]
    current = update.steps(topology, compile_rules(topology, (), limit), jobs[:1], limit)[-1]
    current = update.steps(topology, current, jobs, limit)[-1]
    assert current.labels
    kept = from_lists(to_lists(current.labels), range(topology.host_count, topology.node_count), topology.arc_count)
    again = compile_rules(topology, jobs, limit, held=kept)
    assert kept == current.labels and agree(kept, again.labels)


steps = st.tuples(st.integers(0, 5), st.tuples(st.integers(0, 3), st.booleans()))
some_parts = st.lists(steps, min_size=1, max_size=4, unique_by=lambda one: one[0]).map(tuple)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(Labelled, st.integers(0, 5), some_parts, st.integers(1, 4)), max_size=20), st.lists(some_parts, max_size=4), st.integers(0, 6))
def test_each_part_is_as_its_label_says(parts: list[Labelled], standing: list[tuple[tuple[int, tuple[int, bool]], ...]], most: int) -> None:
    held = {LABEL_MIN + number: dict(part) for number, part in enumerate(standing)}
    labels, found = shared(parts, held, most)
    assert len(labels) <= most and agree(held, labels)
    for part, number in zip(parts, found):
        assert number is None or all(labels[number][node] == step for node, step in part.part)
    used = {number: sum(part.spared for part, one in zip(parts, found) if one == number) for number in labels}
    assert all(used[number] > len(labels[number]) for number in labels), "a label that spares no rule"


def test_only_what_needs_rules_is_labelled() -> None:
    part = labelled([10, 11, 12, 13], [1, 2, 3, 4], [False, True, True, False])
    assert part is not None and part.push == 11 and part.part == ((12, (3, True)),) and part.spared == 1
    assert labelled([10, 11], [1, 2], [True, False]) is None
    assert VLAN_PRESENT == 0x1000


@given(st.recursive(st.none() | st.integers() | st.text() | st.booleans(), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_kept_labels_are_read_or_refused(rows: object) -> None:
    try:
        labels = from_lists(rows, range(4, 8), 10)
    except FabricError as error:
        assert error.where.startswith("labels")
    else:
        assert from_lists(to_lists(labels), range(4, 8), 10) == labels


def test_kept_labels_of_another_network() -> None:
    for row in ([1, 5, 0, 0], [2, 3, 0, 0], [2, 5, 10, 0], [2, 5, 0]):
        with pytest.raises(FabricError, match=r"labels\[0\]"):
            from_lists([row], range(4, 8), 10)
