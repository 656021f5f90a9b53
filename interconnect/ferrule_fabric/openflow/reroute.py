"""New paths for a plan's pairs whose links are down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ferrule_fabric.model.plan import Path as ArcPath
from ferrule_fabric.model.plan import Route, RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.defaults import default_routes

Reroute = Callable[[Topology, RoutePlan], RoutePlan]


def reroute_by_default(topology: Topology, plan: RoutePlan) -> RoutePlan:
    """Pairs all of whose paths use a link that is down leave the plan: they take default routes."""
    return replace(plan, routes=_alive(topology, plan))


def _alive(topology: Topology, plan: RoutePlan) -> dict[tuple[str, str], Route]:
    """Routes without the paths that use a link that is down; those of which nothing is left are absent."""
    broken = set(plan.uses_failed_links(topology))
    up = topology.arc_up
    routes: dict[tuple[str, str], Route] = {}
    for pair, route in plan:
        if pair not in broken:
            routes[pair] = route
            continue
        left = [(path, weight) for path, weight in zip(route.paths, route.weights) if all(up[arc] for arc in path.arcs)]
        if left:
            total = sum(weight for _, weight in left)
            routes[pair] = Route(tuple(path for path, _ in left), tuple(weight / total for _, weight in left))
    return routes


def reroute_least_used(topology: Topology, plan: RoutePlan) -> RoutePlan:
    """Pairs whose paths all use links that are down take the shortest path whose most used link carries the fewest other pairs of the plan; a pair with
    several paths goes on with those that are left."""
    routes = _alive(topology, plan)
    use = [0] * topology.arc_count
    for route in routes.values():
        for path in route.paths:
            for arc in path.arcs:
                use[arc] += 1
    ways = _ShortestPaths(topology)
    for pair in sorted(plan.routes.keys() - routes.keys()):
        src, dst = (topology.node_index[name] for name in pair)
        arcs = ways.least_used(src, dst, use)
        if arcs:
            routes[pair] = Route((ArcPath(arcs),))
            for arc in arcs:
                use[arc] += 1
    return replace(plan, routes=routes)


class _ShortestPaths:
    """Chooses among shortest paths, arc by arc, the one whose worst arc is used least."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.distance = default_routes(topology).distance
        self.out: dict[int, list[int]] = {}
        usable = topology.arc_up & topology.arc_between_switches
        for arc in usable.nonzero()[0].tolist():
            self.out.setdefault(int(topology.arc_tail[arc]), []).append(arc)

    def least_used(self, src: int, dst: int, use: Sequence[int]) -> tuple[int, ...] | None:
        topology = self.topology
        first, last = int(topology.host_uplink_arcs[src]), int(topology.host_uplink_arcs[dst]) ^ 1
        away = self.distance.get(dst, {})
        start = int(topology.arc_head[first])
        if first < 0 or start not in away:
            return None
        # By layers from the source: the smallest worst use with which each switch is reached.
        best: dict[int, tuple[int, tuple[int, ...]]] = {start: (0, (first,))}
        for left in range(away[start], 1, -1):
            following: dict[int, tuple[int, tuple[int, ...]]] = {}
            for node, (worst, arcs) in best.items():
                for arc in self.out.get(node, ()):
                    head = int(topology.arc_head[arc])
                    if away.get(head) == left - 1:
                        candidate = max(worst, use[arc]), (*arcs, arc)
                        if head not in following or candidate < following[head]:
                            following[head] = candidate
            best = following
        return (*min(best.values())[1], last) if best else None
