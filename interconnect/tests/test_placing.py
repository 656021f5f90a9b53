"""Patterns have the traffic they claim; placements use each slot once; the search never makes things worse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule_fabric import Demands, FabricError, Topology, TrafficMatrix
from ferrule_fabric.model.documents import traffic_to_json
from ferrule_fabric.patterns.generate import balanced, cg, ft, mg, milc, stencil
from ferrule_fabric.patterns.pattern import Pattern, Phase
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.placing.place import PLACEMENTS, block_of, placed
from ferrule_fabric.placing.search import EvenSpread, searched
from ferrule_fabric.placing.select import SELECTIONS, selected
from ferrule_fabric.profiles import profile_from_json
from ferrule_fabric.routing.allocate import allocate, max_load_s, plan_loads_s
from ferrule_fabric.routing.fabric import fabric_of
from ferrule_fabric.topologies.spec import topology_of

TWO_LEVEL = topology_of("two-level:leaves=4,spines=2,hosts=5")


def top(topology: Topology, traffic: TrafficMatrix, how: str, algorithm: str) -> float:
    placement = placed(topology, traffic, selected(topology, 16, "even"), 8, how)
    demands = Demands.of_traffic(traffic, placement, topology)
    return max_load_s(topology, plan_loads_s(topology, demands, allocate(topology, demands, algorithm)))


def test_cg_is_symmetric_and_has_the_partners_of_nas() -> None:
    for ranks in (4, 8, 64, 128):
        traffic = cg(ranks, 1_000_000).total
        assert np.array_equal(traffic.dense_bytes(), traffic.dense_bytes().T)
    # 128 ranks: 8 rows of 16 columns; rank 1 sums with 0, 3, 5, 9 and transposes with 2 * (0 * 8 + 0) + 1 = 1, that is itself; rank 2 with 2 * 8 = 16.
    dense = cg(128, 1_000_000).total.dense_bytes()
    assert np.flatnonzero(dense[1]).tolist() == [0, 3, 5, 9]
    assert np.flatnonzero(dense[2]).tolist() == [0, 3, 6, 10, 16]
    with pytest.raises(FabricError, match="power of two"):
        cg(100, 1)


def test_shapes_of_patterns() -> None:
    assert balanced(128, 3) == (8, 4, 4) and balanced(17, 2) == (17, 1) and balanced(1, 4) == (1, 1, 1, 1) and balanced(36, 2) == (6, 6)
    assert np.count_nonzero(stencil(16, 1000, 2).total.dense_bytes()[0]) == 2
    assert np.count_nonzero(stencil(27, 1000, 3, True).total.dense_bytes()[0]) == 6
    assert np.count_nonzero(milc(6**4, 10_000).total.dense_bytes()[0]) == 12
    assert len(ft(64, 1000).phases) == 2 and len(mg(64, 1000).phases) == 5
    assert ft(1, 1000).total.pairs == 0


@pytest.mark.parametrize("kind", ["cg", "ft", "mg", "stencil2d", "stencil3d", "milc", "alltoall", "permutation", "uniform", "ring", "random-ring", "shift"])
def test_every_pattern_sends_about_what_was_asked(kind: str) -> None:
    pattern = pattern_of(f"{kind}:ranks=64,bytes=1e6,iterations=3,compute_s=0.5,overlap=0.5")
    sent = pattern.total.bytes.sum() / 64
    assert 0.25e6 < sent < 1.5e6 and pattern.iterations == 3
    assert pattern.phases[0].time_s(0.1) == 0.5 and pattern.phases[0].time_s(1.0) == 1.25
    assert pattern_of(f"{kind}:ranks=64,bytes=1e6").total.total_bytes == pattern.total.total_bytes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cg:bytes=1", "needs ranks="),
        ("circle:ranks=2", "unknown kind 'circle'"),
        ("cg:ranks=4,peers=2", "no option 'peers'"),
        ("cg:ranks=0", "ranks must be 1"),
        ("file:none", "No such file"),
    ],
)
def test_wrong_patterns_are_refused(spec: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        pattern_of(spec)
    with pytest.raises(FabricError, match="overlap in 0..1"):
        Phase(cg(4, 10).total, 1.0, 2.0)


@pytest.mark.parametrize("how", SELECTIONS)
def test_selections_are_different_hosts(how: str) -> None:
    for count in (1, 7, 16, 20):
        hosts = selected(TWO_LEVEL, count, how, seed=3)
        assert hosts.size == count == np.unique(hosts).size
    with pytest.raises(FabricError, match="21 hosts wanted, 20 free"):
        selected(TWO_LEVEL, 21, how)


def test_selection_looks_at_what_is_free() -> None:
    free = np.array([0, 1, 2, 5, 6, 7, 8, 10])
    assert selected(TWO_LEVEL, 4, "compact", free).tolist() == [5, 6, 7, 8]
    assert selected(TWO_LEVEL, 3, "compact", free).tolist() == [0, 1, 2]
    assert selected(TWO_LEVEL, 4, "even", free).tolist() == [0, 1, 5, 10]
    assert selected(TWO_LEVEL, 4, "interleaved", free).tolist() == [0, 5, 10, 1]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PLACEMENTS), st.integers(1, 40), st.integers(1, 4), st.integers(0, 1000))
def test_placements_fill_slots(how: str, ranks: int, per_host: int, seed: int) -> None:
    hosts_wanted = -(-ranks // per_host)
    if hosts_wanted > 20:
        return
    traffic = pattern_of(f"uniform:ranks={ranks},peers=3,seed={seed}").total
    hosts = selected(TWO_LEVEL, hosts_wanted, "random", seed=seed)
    placement = placed(TWO_LEVEL, traffic, hosts, per_host, how, seed)
    counts = placement.ranks_per_host()
    assert placement.ranks == ranks and max(counts.values()) <= per_host
    assert set(counts) <= {TWO_LEVEL.node_names[h] for h in hosts}
    assert placed(TWO_LEVEL, traffic, hosts, per_host, how, seed) == placement


def test_block_and_cyclic_are_what_they_are_called() -> None:
    traffic = pattern_of("shift:ranks=6").total
    hosts = np.array([0, 1, 2])
    assert placed(TWO_LEVEL, traffic, hosts, 2, "block").hosts == ("h1", "h1", "h2", "h2", "h3", "h3")
    assert placed(TWO_LEVEL, traffic, hosts, 2, "cyclic").hosts == ("h1", "h2", "h3", "h1", "h2", "h3")
    assert len({block_of(TWO_LEVEL, pattern_of("cg:ranks=128").total, 8, letter).hosts for letter in "ABCDE"}) == 5
    with pytest.raises(FabricError, match="don't fit"):
        placed(TWO_LEVEL, traffic, hosts, 1)


@pytest.mark.parametrize("kind", ["cg", "mg", "stencil2d", "uniform"])
def test_joint_is_the_best(kind: str) -> None:
    traffic = pattern_of(f"{kind}:ranks=128").total
    joint = top(TWO_LEVEL, traffic, "joint", "ferrule")
    assert all(joint <= top(TWO_LEVEL, traffic, how, "ferrule") * (1 + 1e-9) for how in ("block", "cyclic", "partition"))


def test_the_search_finds_hidden_neighbors() -> None:
    # A ring of 32 with its ranks shuffled: nearly all of it fits inside hosts and leaves again.
    order = np.random.default_rng(5).permutation(32)
    traffic = TrafficMatrix.of_pairs(32, order, np.roll(order, 1), np.full(32, 1_000_000))
    fabric, hosts = fabric_of(TWO_LEVEL), np.arange(16)
    start = np.repeat(hosts, 2)
    better = searched(fabric, traffic, start, EvenSpread(fabric, hosts))
    between = [int(np.count_nonzero(p[traffic.src] != p[traffic.dst])) for p in (start, better)]
    assert between[1] < between[0] and np.array_equal(np.sort(better), np.sort(start))
    leaf = placed(TWO_LEVEL, traffic, hosts, 2, "partition").host_numbers(TWO_LEVEL) // 5
    far = int(np.count_nonzero(leaf[traffic.src] != leaf[traffic.dst]))
    assert far <= 8


def profile_rank(rank: int, **more: object) -> dict[str, object]:
    row = [0, 0, 0]
    row[(rank + 1) % 3] = 100 * (rank + 1)
    column = [0, 0, 0]
    column[(rank - 1) % 3] = 100 * ((rank - 1) % 3 + 1)
    return {
        "processor_name": f"n{rank}", "rank": rank, "n_procs": 3, "duration": 1.5 + rank, "tx_bytes": row, "rx_bytes": column,
        "tx_messages": [int(x > 0) for x in row], "rx_messages": [int(x > 0) for x in column], "tx_message_sizes": [0] * 6 + [1], "rx_message_sizes": [],
    } | more  # fmt: skip


def test_profiles_in_all_their_shapes() -> None:
    ranks = [profile_rank(r) for r in range(3)]
    for text in (json.dumps(ranks), json.dumps({"version": 1, "ranks": ranks}), "\n".join(json.dumps(r) for r in ranks)):
        profile = profile_from_json(text)
        assert profile.traffic.dense_bytes().tolist() == [[0, 100, 0], [0, 0, 200], [300, 0, 0]]
        assert profile.hosts.hosts == ("n0", "n1", "n2") and profile.duration_s == 3.5 and profile.size_histogram[6] == 3
    partly = profile_from_json(json.dumps([ranks[0], ranks[2]]))
    assert partly.traffic.dense_bytes().tolist() == [[0, 100, 0], [0, 0, 200], [300, 0, 0]]
    phases = [profile_rank(r, phases=[{"tx_bytes": [1, 2, 3]}, {"tx_bytes": [0, 0, 0]}, {"tx_bytes": [5, 0, 0], "tx_messages": [2, 0, 0]}]) for r in range(3)]
    assert [phase.total_bytes for phase in profile_from_json(json.dumps(phases)).phases] == [18, 15]


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([], "must be a list"),
        ([{"rank": 0}], r"ranks\[0\].n_procs: is missing"),
        ([profile_rank(0), profile_rank(0)], r"ranks\[1\].rank: rank 0 occurs twice"),
        ([profile_rank(1, tx_bytes=[1])], "rank 1: tx_bytes: must be an array of 3 numbers, not of 1"),
        ([profile_rank(1, tx_bytes=[1, -2, 3])], r"rank 1: tx_bytes\[1\]: must be a whole number, not -2"),
        ([profile_rank(0, n_procs=10**9)], "n_procs: must be a whole number 0..20000"),
        ([profile_rank(0, duration="long")], "duration: must be seconds"),
        ([profile_rank(0, phases=3)], "phases: must be a list"),
        ([profile_rank(0), profile_rank(1, n_procs=4)], r"ranks\[1\].n_procs: is 4, but 3"),
    ],
)
def test_wrong_profiles_are_refused(ranks: object, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        profile_from_json(json.dumps(ranks))


KEYS = st.sampled_from(["rank", "n_procs", "ranks", "tx_bytes", "phases"])
VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))


@settings(max_examples=200)
@given(st.text(max_size=200) | VALUES.map(json.dumps))
def test_noise_is_refused(text: str) -> None:
    try:
        profile_from_json(text)
    except FabricError:
        pass


def test_files_are_patterns(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps([profile_rank(r) for r in range(3)]))
    (tmp_path / "t.json").write_text(traffic_to_json(cg(16, 1000).total))
    assert pattern_of("file:p.json", tmp_path).ranks == 3
    assert isinstance(pattern_of("file:t.json", tmp_path), Pattern) and pattern_of("file:t.json", tmp_path).ranks == 16
