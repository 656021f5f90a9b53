"""Predictions for the page: a job's loads before and after its routes, and what-if. Pure functions, run in a process of their own (`worker`).

Nothing here touches a switch. Loads are in seconds (bytes by capacity), by arc; times are the simulator's for one iteration, alone on the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.openflow.defaults import default_routes
from ferrule_fabric.patterns.pattern import Pattern, Phase
from ferrule_fabric.placing.place import PLACEMENTS, host_numbers, hosts_needed, slots_of
from ferrule_fabric.placing.select import SELECTIONS, selected
from ferrule_fabric.routing.allocate import ALGORITHMS, Options, flow_paths, max_load_s
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.fairness import estimated_time_s
from ferrule_fabric.routing.flow_paths import FlowPaths, arc_seconds, paths_of
from ferrule_fabric.simulate.cells import job_demands, job_times_s

Routes = Mapping[tuple[str, str], Route]
WHAT_IF_RANKS_MAX = 10_000
WHAT_IF_ROWS_MAX = 40
WHAT_IF_ROUTINGS = tuple(name for name in ALGORITHMS if name != "exact")
TIME_TOLERANCE = 0.01
PATHS_TIMED_MAX = 200_000


@dataclass(frozen=True)
class Question:
    """A what-if: how would this traffic run, so many ranks to a host, with each of these placements and routings. ``hosts``: names to choose from (empty: all);
    ``host_count``: on so many (None: as few as ``ranks_per_host`` allows)."""

    phases: tuple[TrafficMatrix, ...]
    ranks_per_host: int
    selection: str
    placements: tuple[str, ...]
    routings: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    host_count: int | None = None

    def __post_init__(self) -> None:
        known = (("placements", self.placements, PLACEMENTS), ("routings", self.routings, WHAT_IF_ROUTINGS), ("selection", (self.selection,), tuple(SELECTIONS)))
        for what, given, allowed in known:
            wrong = [name for name in given if name not in allowed]
            if wrong or not given:
                raise FabricError(f"what-if.{what}", f"must be of {', '.join(allowed)}, not {', '.join(map(repr, wrong)) or 'nothing'}")
        if len(self.placements) * len(self.routings) > WHAT_IF_ROWS_MAX:
            raise FabricError("what-if", f"{len(self.placements)} x {len(self.routings)} combinations; at most {WHAT_IF_ROWS_MAX}")
        if self.phases[0].ranks > WHAT_IF_RANKS_MAX:
            raise FabricError("what-if", f"{self.phases[0].ranks} ranks; at most {WHAT_IF_RANKS_MAX} here, more by `ferrule-fabric simulate`")
        if not 1 <= self.ranks_per_host <= 4096:
            raise FabricError("what-if.ranks_per_host", f"must be 1 to 4096, not {self.ranks_per_host}")


def judged(topology: Topology, demands: Demands, routes: Routes) -> dict[str, Any]:
    """A job's loads and time on default routes (``default``) and on its own (``planned``; pairs without one take the default)."""
    fabric = fabric_of(topology)
    defaults = default_paths(topology, demands)
    planned = RoutePlan(topology.digest, {**defaults, **routes})
    told = {}
    for name, plan in (("default", RoutePlan(topology.digest, defaults)), ("planned", planned)):
        paths = paths_of(fabric, demands, plan)
        told[name] = _told(topology, arc_seconds(fabric, demands, paths), _time_s(fabric, demands, paths))
    return told


def default_paths(topology: Topology, demands: Demands) -> dict[tuple[str, str], Route]:
    """The routes that packets take where no job's rules say otherwise. Raises `FabricError` for a pair that is cut off."""
    defaults, names = default_routes(topology), topology.node_names
    found = {}
    for src, dst in zip(demands.src.tolist(), demands.dst.tolist()):
        arcs = defaults.path(topology, src, dst)
        if arcs is None:
            raise FabricError("routing", f"no working path from {names[src]} to {names[dst]}")
        found[names[src], names[dst]] = Route((Path(arcs),))
    return found


def what_if(topology: Topology, background_s: FloatArray | None, question: Question) -> list[dict[str, Any]]:
    """One row per placement and routing: loads and time, as `judged` tells them, and the hosts used. ``background_s`` (arcs,): load of running jobs."""
    fabric = fabric_of(topology)
    pattern = Pattern("what-if", tuple(Phase(traffic) for traffic in question.phases))
    hosts = _hosts(topology, question, pattern.ranks)
    even = pattern.ranks // hosts.size + (np.arange(hosts.size) < pattern.ranks % hosts.size)
    slots = even if question.host_count else slots_of(pattern.ranks, hosts.size, question.ranks_per_host)
    rows = []
    for placement in question.placements:
        numbers = host_numbers(topology, pattern.total, hosts, slots, placement, 0, background_s)
        demands = job_demands(topology, pattern, numbers)
        for routing in question.routings:
            paths = flow_paths(fabric, demands[0], routing, background_s, Options(integer=False), demands[1:])
            load_s = arc_seconds(fabric, demands[0], paths)
            time_s = job_times_s(fabric, pattern, demands, paths, TIME_TOLERANCE)[0] if paths.count <= PATHS_TIMED_MAX else None
            told = _told(topology, load_s if background_s is None else load_s + background_s, time_s)
            rows.append({"placement": placement, "routing": routing, "hosts": int(np.unique(numbers).size), "split_pairs": int(paths.count - demands[0].count), **told})
    return rows


def advice(topology: Topology, phases: tuple[TrafficMatrix, ...], hosts: int) -> dict[str, Any]:
    """On how many leaf switches a job on so many hosts should be at most, by trying close-packed hosts and evenly spread ones on the empty network.

    ``switches`` is None where close packing wins nothing: then any hosts are as good.
    """
    per_host = -(-phases[0].ranks // hosts)
    tried = []
    for selection in ("compact", "even"):
        question = Question(phases, per_host, selection, ("block",), ("ferrule",), host_count=hosts)
        chosen = _hosts(topology, question, phases[0].ranks)
        (row,) = what_if(topology, None, question)
        leaves = int(np.unique(fabric_of(topology).host_switch[chosen]).size)
        tried.append((row["time_s"] if row["time_s"] is not None else row["max_load_s"], leaves))
    (close_s, close), (even_s, even) = tried
    return {"switches": close if close < even and close_s <= even_s else None, "close_s": close_s, "even_s": even_s}


def _hosts(topology: Topology, question: Question, ranks: int) -> IntArray:
    free = None
    if question.hosts:
        unknown = [name for name in question.hosts if not 0 <= topology.node_index.get(name, -1) < topology.host_count]
        if unknown:
            raise FabricError("what-if.hosts", f"{unknown[0]!r} is not a host")
        free = np.array(sorted({topology.node_index[name] for name in question.hosts}), dtype=np.int64)
    return selected(topology, question.host_count or hosts_needed(ranks, question.ranks_per_host), question.selection, free)


def _time_s(fabric: Fabric, demands: Demands, paths: FlowPaths) -> float | None:
    return estimated_time_s(fabric, demands, paths, TIME_TOLERANCE) if demands.count and paths.count <= PATHS_TIMED_MAX else None


def _told(topology: Topology, load_s: FloatArray, time_s: float | None) -> dict[str, Any]:
    loads: Sequence[float] = np.round(load_s, 9).tolist()
    return {"max_load_s": max_load_s(topology, load_s), "switch_load_s": max_load_s(topology, load_s, True), "time_s": time_s, "arc_s": loads}
