"""Placements: block, cyclic, random, partition, and ours that looks at the routes too.

``joint`` starts from several placements (block, cyclic, partitions), improves each by `search.searched`, allocates paths by ``ferrule`` for all, and keeps the one
whose most loaded arc is least; then it exchanges ranks that use that arc and allocates anew, as long as that helps.
"""

from __future__ import annotations

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.placement import Placement
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.placing.partition import partitioned
from ferrule_fabric.placing.search import EvenSpread, searched
from ferrule_fabric.placing.select import BLOCKS, selected
from ferrule_fabric.routing.allocate import Options, flow_paths
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.flow_paths import FlowPaths, arc_seconds

# Allocation inside the search over placements.
QUICK = Options(passes=4, rounding=False, integer=False)
PLACEMENTS = ("block", "cyclic", "random", "partition", "joint")
# Above these the even spread would need too much memory, or a pass too much time; partition alone then stands for joint.
SEARCH_SWITCHES_MAX = 256
SEARCH_RANKS_MAX = 4096
JOINT_ROUNDS = 120
# Partitions to start from, by different seeds.
PARTITIONS = 6


def slots_of(ranks: int, hosts: int, per_host: int) -> IntArray:
    """Ranks on each of the selected hosts: full hosts first, the last may be partly used. Raises `FabricError` when they don't fit."""
    if per_host < 1 or ranks > hosts * per_host:
        raise FabricError("placement", f"{ranks} ranks don't fit {hosts} hosts of {per_host}")
    return np.clip(ranks - np.arange(hosts) * per_host, 0, per_host)


def hosts_needed(ranks: int, per_host: int) -> int:
    """Number of hosts that so many ranks need."""
    return -(-ranks // per_host)


def placed(topology: Topology, traffic: TrafficMatrix, hosts: IntArray, per_host: int, how: str = "block", seed: int = 0, background: FloatArray | None = None) -> Placement:
    """The ranks of this traffic on these hosts, ``per_host`` at most on each. Raises `FabricError`.

    ``background`` (arcs,): seconds that other jobs put on the arcs; only ``joint`` looks at it.
    """
    slots = slots_of(traffic.ranks, hosts.size, per_host)
    return Placement.of_numbers(topology, host_numbers(topology, traffic, hosts, slots, how, seed, background))


def block_of(topology: Topology, traffic: TrafficMatrix, per_host: int, letter: str, seed: int = 0) -> Placement:
    """Block placement A to E: node selection by letter (`select.BLOCKS`)."""
    hosts = selected(topology, hosts_needed(traffic.ranks, per_host), BLOCKS[f"block-{letter.lower()}"], None, seed)
    return placed(topology, traffic, hosts, per_host, "block")


def host_numbers(topology: Topology, traffic: TrafficMatrix, hosts: IntArray, slots: IntArray, how: str, seed: int = 0, background: FloatArray | None = None) -> IntArray:
    """As `placed`, in arrays: ``slots`` (hosts,) ranks on each host; the result is the host number of each rank."""
    block = np.repeat(hosts, slots)
    if how == "block":
        return block
    if how == "cyclic":
        turn = np.concatenate([np.arange(number) for number in slots])
        return block[np.lexsort((np.repeat(np.arange(hosts.size), slots), turn))]
    if how == "random":
        return np.random.default_rng(seed).permutation(block)
    if how == "partition":
        return partitioned(topology, traffic, hosts, slots, seed)
    if how == "joint":
        return _joint(topology, traffic, hosts, slots, seed, background)
    raise FabricError("placement", f"unknown placement {how!r}; known are {', '.join(PLACEMENTS)}")


def _joint(topology: Topology, traffic: TrafficMatrix, hosts: IntArray, slots: IntArray, seed: int, background: FloatArray | None) -> IntArray:
    fabric = fabric_of(topology)
    if traffic.pairs == traffic.ranks * (traffic.ranks - 1) and np.unique(traffic.bytes).size == 1:
        return np.repeat(hosts, slots)  # all-to-all: which rank is where makes no difference
    starts = [host_numbers(topology, traffic, hosts, slots, how, seed) for how in ("partition", "block", "cyclic")]
    starts += [partitioned(topology, traffic, hosts, slots, seed + turn) for turn in range(1, PARTITIONS)]
    if np.unique(fabric.host_switch[hosts]).size > SEARCH_SWITCHES_MAX or traffic.ranks > SEARCH_RANKS_MAX:
        tried = starts
    else:
        spread = EvenSpread(fabric, hosts)
        found = [searched(fabric, traffic, start, spread, seed=seed + turn, background=background) for turn, start in enumerate(starts)]
        tried = starts + found
    judged = [(*_judge(fabric, traffic, numbers, background), i) for i, numbers in enumerate(tried)]
    top, total, best = min(judged)
    if traffic.ranks > SEARCH_RANKS_MAX:
        return tried[best]
    return _exchanged(fabric, traffic, tried[best], (top, total), seed, background)


def _judge(fabric: Fabric, traffic: TrafficMatrix, numbers: IntArray, background: FloatArray | None) -> tuple[float, float]:
    """(most loaded arc between switches or at hosts, sum of loads) after allocation, seconds."""
    load, _, _ = _allocated(fabric, traffic, numbers, background, QUICK)
    return float(load.max(initial=0.0)), float(load.sum())


def _allocated(fabric: Fabric, traffic: TrafficMatrix, numbers: IntArray, background: FloatArray | None, options: Options) -> tuple[FloatArray, Demands, FlowPaths]:
    demands = Demands.of_pairs(fabric.topology.host_count, numbers[traffic.src], numbers[traffic.dst], traffic.bytes, traffic.messages)
    paths = flow_paths(fabric, demands, "ferrule", background, options)
    load = arc_seconds(fabric, demands, paths)
    return (load if background is None else load + background), demands, paths


def _exchanged(fabric: Fabric, traffic: TrafficMatrix, numbers: IntArray, score: tuple[float, float], seed: int, background: FloatArray | None) -> IntArray:
    """Exchanges a rank that uses the hottest arc with another one; a round keeps the first of a few random exchanges after which the score is less."""
    generator = np.random.default_rng(seed)
    best = numbers.copy()
    load, demands, paths = _allocated(fabric, traffic, best, background, QUICK)
    for _ in range(JOINT_ROUNDS):
        users = _users(fabric, traffic, best, load, demands, paths)
        if not users.size:
            break
        trial = best.copy()
        one, other = generator.choice(users), generator.integers(0, traffic.ranks)
        trial[one], trial[other] = trial[other], trial[one]
        if trial[one] == best[one]:
            continue
        after, new_demands, new_paths = _allocated(fabric, traffic, trial, background, QUICK)
        reached = float(after.max(initial=0.0)), float(after.sum())
        if reached < (score[0] * (1 - 1e-9), score[1]):
            best, score, load, demands, paths = trial, reached, after, new_demands, new_paths
    return best


def _users(fabric: Fabric, traffic: TrafficMatrix, numbers: IntArray, load: FloatArray, demands: Demands, paths: FlowPaths) -> IntArray:
    """Ranks with traffic on the most loaded arc."""
    hot = int(np.argmax(load))
    on_path = paths.demand[np.unique(np.searchsorted(paths.first, np.flatnonzero(paths.arcs == hot), side="right") - 1)]
    pairs = set(zip(demands.src[on_path].tolist(), demands.dst[on_path].tolist()))
    if not pairs:
        pairs = {(s, d) for s, d in zip(demands.src.tolist(), demands.dst.tolist()) if fabric.host_up_arc[s] == hot or fabric.host_down_arc[d] == hot}
    hosts_from, hosts_to = {s for s, _ in pairs}, {d for _, d in pairs}
    senders = [r for r, s, d in zip(traffic.src.tolist(), numbers[traffic.src].tolist(), numbers[traffic.dst].tolist()) if s in hosts_from and (s, d) in pairs]
    receivers = [r for r, s, d in zip(traffic.dst.tolist(), numbers[traffic.src].tolist(), numbers[traffic.dst].tolist()) if d in hosts_to and (s, d) in pairs]
    return np.unique(np.array(senders + receivers, dtype=np.int64))
