"""Routes with several weighted paths, as what each switch does: its ways out with their shares.

Paths of one pair may meet and part; a packet that is at a switch may have come by any of them. So each switch splits what reaches it in the proportion of
the planned loads of its ways out, which gives every arc the load that the plan gives it. A packet never comes back to a switch because the union of the
paths has no cycle; where it has one (only paths that aren't shortest can), the path with the largest share is used alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from ferrule_fabric.model.plan import Route
from ferrule_fabric.model.topology import Topology

WEIGHT_SUM = 100


@dataclass(frozen=True)
class Ways:
    """``out[node]`` are a switch's arcs out with their shares (which add up to 1), ``rank[node]`` the most links that may be left from there; ``paths`` the paths."""

    out: dict[int, dict[int, float]]
    rank: dict[int, int]
    paths: tuple[tuple[int, ...], ...]


def heaviest(route: Route) -> tuple[int, ...]:
    """The arcs of a route's path with the largest share."""
    best = max(range(len(route.paths)), key=lambda i: route.weights[i])
    return route.paths[best].arcs


class Splitter:
    """Turns the routes of one topology into ways."""

    def __init__(self, topology: Topology) -> None:
        self.up: list[bool] = topology.arc_up.tolist()
        self.tail: list[int] = topology.arc_tail.tolist()
        self.head: list[int] = topology.arc_head.tolist()

    def ways(self, route: Route, fits: Callable[[Ways], bool]) -> Ways | None:
        """What switches do for a route, over its paths that are up; None if none is. Where several paths don't fit, that with the largest share."""
        alive = [(path.arcs, weight) for path, weight in zip(route.paths, route.weights) if all(self.up[arc] for arc in path.arcs)]
        if not alive:
            return None
        if len(alive) > 1:
            ways = self._several(alive)
            if ways is not None and fits(ways):
                return ways
        arcs = max(alive, key=lambda one: one[1])[0]
        nodes = [self.tail[arc] for arc in arcs[1:]]
        return Ways({node: {arc: 1.0} for node, arc in zip(nodes, arcs[1:])}, {node: len(nodes) - place for place, node in enumerate(nodes)}, (arcs,))

    def _several(self, weighted: list[tuple[tuple[int, ...], float]]) -> Ways | None:
        load: dict[int, dict[int, float]] = {}
        following: dict[int, set[int]] = {}
        for arcs, weight in weighted:
            for arc in arcs[1:]:
                out = load.setdefault(self.tail[arc], {})
                out[arc] = out.get(arc, 0.0) + weight
                following.setdefault(self.tail[arc], set()).add(self.head[arc])
        try:
            order = list(TopologicalSorter(following).static_order())
        except CycleError:
            return None
        rank = dict.fromkeys(order, 0)
        for node in order:
            if node in following:
                rank[node] = 1 + max(rank[head] for head in following[node])
        shares = {node: {arc: value / sum(out.values()) for arc, value in out.items()} for node, out in load.items()}
        return Ways(shares, {node: rank[node] for node in load}, tuple(arcs for arcs, _ in weighted))


def whole_weights(shares: list[float]) -> tuple[int, ...]:
    """Shares as whole numbers of at least 1 that add up to `WEIGHT_SUM` (largest remainders)."""
    total = sum(shares)
    exact = [max(1.0, WEIGHT_SUM * share / total) for share in shares]
    weights = [int(value) for value in exact]
    order = sorted(range(len(shares)), key=lambda i: (weights[i] - exact[i], i))
    for k in range(WEIGHT_SUM - sum(weights)):
        weights[order[k % len(order)]] += 1
    while sum(weights) > WEIGHT_SUM and max(weights) > 1:
        weights[weights.index(max(weights))] -= 1
    return tuple(weights)
