"""What an allocation is, in arrays: the paths of each demand with their shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import Path, Route, RoutePlan
from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.fabric import Fabric


@dataclass(frozen=True, eq=False)
class FlowPaths:
    """Path j belongs to demand ``demand[j]`` with share ``weight[j]`` and takes the arcs ``arcs[first[j]:first[j+1]]`` between switches.

    ``demand`` ascends; the weights of one demand add up to 1.
    """

    demand: IntArray
    weight: FloatArray
    first: IntArray
    arcs: IntArray

    @property
    def count(self) -> int:
        """Number of paths."""
        return int(self.demand.size)


def arc_seconds(fabric: Fabric, demands: Demands, paths: FlowPaths) -> FloatArray:
    """Time that each arc needs for what is put on it, host arcs included, in seconds; shape (arcs,)."""
    volume = demands.bytes[paths.demand] * paths.weight
    load = np.bincount(paths.arcs, weights=np.repeat(volume, np.diff(paths.first)), minlength=fabric.topology.arc_count)
    load = load + np.bincount(fabric.host_up_arc[demands.src], weights=demands.bytes, minlength=load.size)
    load = load + np.bincount(fabric.host_down_arc[demands.dst], weights=demands.bytes, minlength=load.size)
    return np.asarray(load * fabric.seconds_per_byte)


def check_reachable(fabric: Fabric, demands: Demands) -> None:
    """Raises `FabricError` that names the first pair without a path."""
    names = fabric.topology.node_names
    a, b = fabric.host_switch[demands.src], fabric.host_switch[demands.dst]
    cut = np.flatnonzero((a < 0) | (b < 0))
    if not cut.size and demands.count:
        cut = np.flatnonzero(fabric.distance[fabric.row[b], a] == 65535)
    if cut.size:
        i = int(cut[0])
        raise FabricError("routing", f"no working path from {names[demands.src[i]]} to {names[demands.dst[i]]} in {fabric.topology.name!r} ({cut.size} pairs are cut off)")


def plan_of(fabric: Fabric, demands: Demands, paths: FlowPaths, job: str = "", algorithm: str = "") -> RoutePlan:
    """The same with names, for the controller: one route per demand, host arcs included."""
    names = fabric.topology.node_names
    bounds = np.searchsorted(paths.demand, np.arange(demands.count + 1))
    arcs, first, weight = paths.arcs.tolist(), paths.first.tolist(), paths.weight.tolist()
    up, down = fabric.host_up_arc[demands.src].tolist(), fabric.host_down_arc[demands.dst].tolist()
    routes = {}
    for i in range(demands.count):
        own = range(int(bounds[i]), int(bounds[i + 1]))
        listed = tuple(Path((up[i], *arcs[first[j] : first[j + 1]], down[i])) for j in own)
        routes[names[demands.src[i]], names[demands.dst[i]]] = Route(listed, tuple(weight[j] for j in own))
    return RoutePlan(fabric.topology.digest, routes, job, algorithm)


def paths_of(fabric: Fabric, demands: Demands, plan: RoutePlan) -> FlowPaths:
    """The arrays of a plan. Raises `FabricError` when the plan has no route for a demand or is for another topology."""
    if plan.topology_digest != fabric.topology.digest:
        raise FabricError("plan.topology", f"the plan is not for topology {fabric.topology.name!r}")
    names = fabric.topology.node_names
    demand: list[int] = []
    weight: list[float] = []
    lengths: list[int] = []
    arcs: list[int] = []
    for i, (s, d) in enumerate(zip(demands.src.tolist(), demands.dst.tolist())):
        route = plan.routes.get((names[s], names[d]))
        if route is None:
            raise FabricError("plan", f"no route from {names[s]} to {names[d]}")
        for path, share in zip(route.paths, route.weights):
            demand.append(i)
            weight.append(share)
            lengths.append(len(path.arcs) - 2)
            arcs.extend(path.arcs[1:-1])
    first = np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64)))).astype(np.int64)
    return FlowPaths(np.array(demand, dtype=np.int64), np.array(weight, dtype=np.float64), first, np.array(arcs, dtype=np.int64))
