"""Whether lossless networks (InfiniBand, Ethernet with priority flow control) can deadlock under a plan.

W. Dally, C. Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", 1987: they can't if the graph of channels, with an
edge from each arc of a path to the next one, has no cycle. Shortest paths in intact trees go up, then down, and never have one; in tori and
dragonflies, and with ``slack``, they may: then spread the pairs over several service levels so that each level's graph has no cycle (`layers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan

LAYERS_MAX = 8


def cycle(paths: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Arcs of one cycle among the dependencies of these paths; empty if there is none."""
    after: dict[int, set[int]] = {}
    for path in paths:
        for one, other in zip(path, path[1:]):
            after.setdefault(one, set()).add(other)
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


def layers(plan: RoutePlan) -> dict[tuple[str, str], int]:
    """A service level for each pair such that no level has a cycle, in order of the plan, each pair the first level that it fits.

    Raises `FabricError` when more than `LAYERS_MAX` would be needed. Time grows with pairs times arcs: for plans of a job, not of a whole large fabric.
    """
    kept: list[list[Sequence[int]]] = [[] for _ in range(LAYERS_MAX)]
    level_of: dict[tuple[str, str], int] = {}
    if not plan_cycle(plan):
        return dict.fromkeys(plan.routes, 0)
    for pair, route in plan.routes.items():
        own = [path.arcs for path in route.paths]
        for level, others in enumerate(kept):
            if not cycle([*others, *own]):
                others.extend(own)
                level_of[pair] = level
                break
        else:
            raise FabricError("deadlock", f"more than {LAYERS_MAX} service levels would be needed")
    return level_of
