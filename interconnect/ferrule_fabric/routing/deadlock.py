"""Whether lossless networks (InfiniBand, Ethernet with priority flow control) can deadlock under given routes.

W. Dally, C. Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", 1987: they can't if the graph of channels, with an
edge from each arc of a path to the next one, has no cycle. Shortest paths in intact trees go up, then down, and never have one; in tori and
dragonflies, and with ``slack``, they may: then spread the paths over several virtual lanes so that each lane's graph has no cycle (`layers`, `layered`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan

LAYERS_MAX = 8


class Dependencies:
    """Which arcs a packet may hold while it waits for which: the edges of the graph of channels. `add` keeps the graph without a cycle."""

    def __init__(self) -> None:
        self._after: dict[int, set[int]] = {}

    def add(self, paths: Iterable[Sequence[int]]) -> bool:
        """Adds the edges of these paths. If they would close a cycle, nothing is added and the answer is False."""
        added: list[tuple[int, int]] = []
        for path in paths:
            for one, other in zip(path, path[1:]):
                if other in self._after.get(one, ()):
                    continue
                if one == other or self._leads(other, one):
                    for start, end in added:
                        self._after[start].discard(end)
                    return False
                self._after.setdefault(one, set()).add(other)
                added.append((one, other))
        return True

    def _leads(self, start: int, end: int) -> bool:
        """Whether edges lead from one arc to another."""
        seen, waiting = {start}, [start]
        while waiting:
            for arc in self._after.get(waiting.pop(), ()):
                if arc == end:
                    return True
                if arc not in seen:
                    seen.add(arc)
                    waiting.append(arc)
        return False


def cycle(paths: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Arcs of one cycle among the dependencies of these paths; empty if there is none."""
    after: dict[int, set[int]] = {}
    for path in paths:
        for one, other in zip(path, path[1:]):
            after.setdefault(one, set()).add(other)
    return cycle_of(after)


def cycle_of(after: Mapping[int, Iterable[int]]) -> tuple[int, ...]:
    """Arcs of one cycle in a graph of channels, given as the arcs that follow each arc; empty if there is none."""
    state: dict[int, int] = {}
    for root in sorted(after):
        if root in state:
            continue
        trail = [(root, iter(sorted(after[root])))]
        state[root] = 1
        while trail:
            arc, rest = trail[-1]
            step = next(rest, None)
            if step is None:
                state[arc] = 2
                trail.pop()
            elif state.get(step) == 1:
                on_trail = [a for a, _ in trail]
                return tuple(on_trail[on_trail.index(step) :])
            elif step not in state:
                state[step] = 1
                trail.append((step, iter(sorted(after.get(step, ())))))
    return ()


def plan_cycle(plan: RoutePlan) -> tuple[int, ...]:
    """`cycle` of all paths of a plan."""
    return cycle(path.arcs for route in plan.routes.values() for path in route.paths)


def layered(bundles: Iterable[Sequence[Sequence[int]]], layers_max: int = LAYERS_MAX) -> list[int]:
    """A layer for each bundle of paths such that no layer has a cycle: each bundle, in this order, gets the first layer that it fits.

    Source: T. Skeie, O. Lysne, I. Theiss, "Layered shortest path (LASH) routing in irregular system area networks", 2002. Time grows with bundles times
    arcs. Raises `FabricError` when more than ``layers_max`` would be needed, or a bundle has a cycle of its own.
    """
    graphs: list[Dependencies] = []
    found = []
    for bundle in bundles:
        for layer, graph in enumerate(graphs):
            if graph.add(bundle):
                found.append(layer)
                break
        else:
            graphs.append(Dependencies())
            if len(graphs) > layers_max or not graphs[-1].add(bundle):
                raise FabricError("deadlock", f"the routes could; without a cycle they need more than {layers_max} layer{'s' * (layers_max > 1)}, each with virtual lanes of its own: take fewer lanes")
            found.append(len(graphs) - 1)
    return found


def layers(plan: RoutePlan) -> dict[tuple[str, str], int]:
    """A layer for each pair of a plan such that no layer has a cycle. Raises `FabricError` when more than `LAYERS_MAX` would be needed."""
    return dict(zip(plan.routes, layered([path.arcs for path in route.paths] for route in plan.routes.values())))
