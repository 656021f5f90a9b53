"""Several jobs on one fabric: arrivals, departures, failures, phases, fairness.

Plans are values: each function takes the plans in force and returns new ones; who installs them sees the difference. A job that arrives is routed around
the loads of the others, which stay as they are; `rebalanced` then may move a bounded number of pairs of the running jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.allocate import DEFAULTS, Options, allocate, plan_loads_s
from ferrule_fabric.routing.bound import path_shares
from ferrule_fabric.routing.candidates import Candidates, candidates_of
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.flow_paths import FlowPaths, paths_of, plan_of
from ferrule_fabric.routing.search import greedy, paths_chosen, rerouted

Jobs = Mapping[str, tuple[Demands, RoutePlan]]


def background_s(topology: Topology, jobs: Jobs, without: str | None = None) -> FloatArray:
    """Seconds that the jobs (but one) put on each arc, shape (arcs,)."""
    total = np.zeros(topology.arc_count)
    for name, (demands, plan) in jobs.items():
        if name != without:
            total += plan_loads_s(topology, demands, plan)
    return total


def arrival(topology: Topology, jobs: Jobs, job: str, demands: Demands, algorithm: str = "ferrule", options: Options = DEFAULTS) -> RoutePlan:
    """Routes for a new job around those in force. A departure needs no function: leave the job out of ``jobs``."""
    if job in jobs:
        raise FabricError("job", f"{job!r} has routes already")
    return allocate(topology, demands, algorithm, background_s(topology, jobs), options, job)


def repaired(topology: Topology, demands: Demands, plan: RoutePlan, background: FloatArray | None = None, options: Options = DEFAULTS) -> RoutePlan:
    """The plan with new routes for the pairs that use a failed link, and for no other. Pairs that no working path joins any more lose their route.

    ``topology`` has the failed links down. The pairs that move are routed around everything that stays.
    """
    fabric = fabric_of(topology)
    broken = set(plan.uses_failed_links(topology))
    demands = _with_pairs(topology, demands, broken)
    names = topology.node_names
    pairs = [(names[s], names[d]) for s, d in zip(demands.src.tolist(), demands.dst.tolist())]
    hit = np.array([pair in broken or pair not in plan.routes for pair in pairs], dtype=np.bool_)
    reachable = _reachable(fabric, demands)
    stays = _subset(demands, ~hit)
    moves = _subset(demands, hit & reachable)
    kept = RoutePlan(plan.topology_digest, {pair: route for pair, route in plan.routes.items() if pair not in broken}, plan.job, plan.algorithm)
    if not moves.count:
        return kept
    load = plan_loads_s(topology, stays, kept) + (0.0 if background is None else background)
    fresh = allocate(topology, moves, "ferrule", load, options, plan.job)
    return RoutePlan(plan.topology_digest, {**kept.routes, **fresh.routes}, plan.job, plan.algorithm)


def rebalanced(topology: Topology, jobs: Jobs, pairs_max: int = 1000, options: Options = DEFAULTS) -> dict[str, RoutePlan]:
    """Plans of all jobs after at most ``pairs_max`` pairs, those on the most loaded arcs, were allowed to move. Only for plans with one path per pair.

    Maximum load never grows. Jobs whose plan doesn't change keep the same object.
    """
    fabric = fabric_of(topology)
    names = list(jobs)
    joined = _joined(topology, [jobs[name][0] for name in names])
    paths = [paths_of(fabric, *jobs[name]) for name in names]
    if any(path.count != jobs[name][0].count for name, path in zip(names, paths)):
        raise FabricError("rebalance", "a plan has several paths for a pair")
    candidates, chosen = _with_current(fabric, joined, paths, options)
    load = sum((plan_loads_s(topology, *jobs[name]) for name in names), np.zeros(topology.arc_count))
    movable = _on_hottest(candidates, chosen, np.where(topology.arc_between_switches, load, 0.0), pairs_max)
    better = rerouted(fabric, candidates, joined.bytes, chosen, None, options.passes, options.seed, movable)
    result = {}
    begin = 0
    for name in names:
        demands, plan = jobs[name]
        own = slice(begin, begin + demands.count)
        begin += demands.count
        same = np.array_equal(better[own], chosen[own])
        result[name] = plan if same else plan_of(fabric, demands, paths_chosen(candidates, better[own]), plan.job, plan.algorithm)
    return result


def together(topology: Topology, demands: Mapping[str, Demands], fair: bool = True, options: Options = DEFAULTS) -> dict[str, RoutePlan]:
    """Routes for several jobs at once. With ``fair``, each job's traffic counts in proportion to what the job would need alone: then a small job's links
    are as precious to it as a large job's, and what is minimised is the worst slow-down, not the busiest link.
    """
    fabric = fabric_of(topology)
    names = list(demands)
    joined = _joined(topology, list(demands.values()))
    volumes = joined.bytes.copy()
    begin = 0
    for name in names:
        own = slice(begin, begin + demands[name].count)
        begin += demands[name].count
        alone = path_shares(fabric, candidates_of(fabric, demands[name], options.paths_max, options.slack, options.seed), demands[name].bytes)[1] if fair else 0.0
        if alone > 0:
            volumes[own] /= alone
    candidates = candidates_of(fabric, joined, options.paths_max, options.slack, options.seed)
    chosen = rerouted(fabric, candidates, volumes, greedy(fabric, candidates, volumes), None, options.passes, options.seed)
    result, begin = {}, 0
    for name in names:
        own = slice(begin, begin + demands[name].count)
        begin += demands[name].count
        result[name] = plan_of(fabric, demands[name], paths_chosen(candidates, chosen[own]), name, "ferrule")
    return result


def phased(topology: Topology, phases: Sequence[Demands], background: FloatArray | None = None, options: Options = DEFAULTS, job: str = "") -> RoutePlan:
    """One plan for phases that follow each other, when routes can't change between them: least sum over phases of the most loaded arc."""
    fabric = fabric_of(topology)
    hosts = topology.host_count
    keys = np.unique(np.concatenate([phase.src * hosts + phase.dst for phase in phases]))
    volumes = np.zeros((keys.size, len(phases)))
    for f, phase in enumerate(phases):
        volumes[np.searchsorted(keys, phase.src * hosts + phase.dst), f] = phase.bytes
    union = Demands(hosts, keys // hosts, keys % hosts, volumes.sum(axis=1), np.ones(keys.size, dtype=np.int64))
    candidates = candidates_of(fabric, union, options.paths_max, options.slack, options.seed)
    chosen = rerouted(fabric, candidates, volumes, greedy(fabric, candidates, volumes, "max-load", background), background, options.passes, options.seed)
    return plan_of(fabric, union, paths_chosen(candidates, chosen), job, "ferrule-phased")


def _joined(topology: Topology, demands: Sequence[Demands]) -> Demands:
    """All demands one after the other; pairs of different jobs stay apart."""
    columns = [np.concatenate([getattr(d, name) for d in demands]) if demands else np.zeros(0) for name in ("src", "dst", "bytes", "messages")]
    return Demands(topology.host_count, columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2].astype(np.float64), columns[3].astype(np.int64))


def _with_pairs(topology: Topology, demands: Demands, pairs: set[tuple[str, str]]) -> Demands:
    """The demands, and those of the pairs that have none as empty ones."""
    index = topology.node_index
    ends = np.array([(index[src], index[dst]) for src, dst in sorted(pairs)], dtype=np.int64).reshape(-1, 2)
    return demands.plus(Demands(demands.hosts, ends[:, 0], ends[:, 1], np.zeros(ends.shape[0]), np.zeros(ends.shape[0], dtype=np.int64)))


def _subset(demands: Demands, kept: IntArray | np.ndarray) -> Demands:
    return Demands(demands.hosts, demands.src[kept], demands.dst[kept], demands.bytes[kept], demands.messages[kept])


def _reachable(fabric: Fabric, demands: Demands) -> np.ndarray:
    a, b = fabric.host_switch[demands.src], fabric.host_switch[demands.dst]
    whole = (a >= 0) & (b >= 0)
    far = fabric.distance[fabric.row[np.where(whole, b, b.max(initial=0))], np.where(whole, a, 0)] if fabric.distance.size else np.full(a.size, 65535)
    return np.asarray(whole & (far != 65535))


def _with_current(fabric: Fabric, joined: Demands, paths: Sequence[FlowPaths], options: Options) -> tuple[Candidates, IntArray]:
    """Candidates that contain the paths in force, and which those are."""
    candidates = candidates_of(fabric, joined, options.paths_max, options.slack, options.seed)
    current = [tuple(path.arcs[path.first[j] : path.first[j + 1]].tolist()) for path in paths for j in range(path.count)]
    lists = [
        [tuple(candidates.arcs[candidates.first[p] : candidates.first[p + 1]].tolist()) for p in range(candidates.path_first[c], candidates.path_first[c + 1])]
        for c in range(candidates.commodity_count)
    ]
    for i, arcs in enumerate(current):
        own = lists[candidates.commodity[i]]
        if arcs not in own:
            own.append(arcs)
    path_first = np.concatenate(([0], np.cumsum([len(own) for own in lists]))).astype(np.int64)
    chosen = np.array([path_first[candidates.commodity[i]] + lists[candidates.commodity[i]].index(arcs) for i, arcs in enumerate(current)], dtype=np.int64)
    every = [arcs for own in lists for arcs in own]
    first = np.concatenate(([0], np.cumsum([len(arcs) for arcs in every]))).astype(np.int64)
    flat = np.array([arc for arcs in every for arc in arcs], dtype=np.int32)
    return Candidates(candidates.commodity, candidates.pair, path_first, first, flat, candidates.complete), chosen


def _on_hottest(candidates: Candidates, chosen: IntArray, load: FloatArray, pairs_max: int) -> IntArray:
    """Demands in descending order of the hottest arc on their path, at most ``pairs_max``."""
    path = paths_chosen(candidates, chosen)
    lengths = np.diff(path.first)
    top = np.zeros(chosen.size)
    np.maximum.at(top, np.repeat(np.arange(chosen.size), lengths), load[path.arcs])
    return np.argsort(-top, kind="stable")[:pairs_max].astype(np.int64)
