"""Allocation by estimated time instead of by the most loaded link: the fastest of several allocations, phase by phase.

The load of a link over a whole iteration says little when phases follow each other: two pairs that are never busy together may share a link. Candidates are
D-mod-K, greedy and rerouting for the whole iteration, and rerouting for the sum over phases; each is timed with max-min fair sharing. So the
result is never slower than D-mod-K by that model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ferrule_fabric.model.topology import FloatArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.candidates import candidates_of
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.fairness import estimated_time_s
from ferrule_fabric.routing.flow_paths import FlowPaths
from ferrule_fabric.routing.search import greedy, paths_chosen, rerouted
from ferrule_fabric.routing.static import static_paths


def phase_matrix(total: Demands, phases: Sequence[Demands]) -> FloatArray:
    """Bytes of each demand of ``total`` in each phase, shape (demands, phases); every pair of a phase must be in ``total``."""
    volumes = np.zeros((total.count, len(phases)))
    keys = total.src * total.hosts + total.dst
    for f, phase in enumerate(phases):
        volumes[np.searchsorted(keys, phase.src * total.hosts + phase.dst), f] = phase.bytes
    return volumes


def restricted(total: Demands, paths: FlowPaths, phase: Demands) -> FlowPaths:
    """The paths of the pairs that a phase uses, numbered as its demands."""
    where = np.searchsorted(total.src * total.hosts + total.dst, phase.src * total.hosts + phase.dst)
    number = np.full(total.count, -1, dtype=np.int64)
    number[where] = np.arange(phase.count)
    kept = np.flatnonzero(number[paths.demand] >= 0)
    lengths = (paths.first[1:] - paths.first[:-1])[kept]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], lengths)
    return FlowPaths(number[paths.demand[kept]], paths.weight[kept], first, paths.arcs[np.repeat(paths.first[kept], lengths) + within])


def phases_time_s(fabric: Fabric, total: Demands, phases: Sequence[Demands], paths: FlowPaths, tolerance: float = 0.01) -> float:
    """Time of the communication of all phases, one after the other, in seconds."""
    return sum(estimated_time_s(fabric, phase, restricted(total, paths, phase), tolerance) for phase in phases)


def fastest_paths(
    fabric: Fabric,
    total: Demands,
    phases: Sequence[Demands],
    background: FloatArray | None = None,
    paths_max: int = 64,
    slack: int = 0,
    seed: int = 0,
    passes: int = 20,
    tolerance: float = 0.01,
) -> FlowPaths:
    """One path per demand of ``total``. ``background`` (arcs,) seconds counts in the search, not in the times."""
    candidates = candidates_of(fabric, total, paths_max, slack, seed)
    volumes = phase_matrix(total, phases)
    whole = greedy(fabric, candidates, total.bytes, "max-load", background)
    by_phase = greedy(fabric, candidates, volumes, "max-load", background)
    tried = [
        static_paths(fabric, total, "d-mod-k", seed),
        paths_chosen(candidates, whole),
        paths_chosen(candidates, rerouted(fabric, candidates, total.bytes, whole, background, passes, seed)),
        paths_chosen(candidates, rerouted(fabric, candidates, volumes, by_phase, background, passes, seed)),
        paths_chosen(candidates, rerouted(fabric, candidates, volumes, whole, background, passes, seed)),
    ]
    times = [phases_time_s(fabric, total, phases, paths, tolerance) for paths in tried]
    # Of equally fast ones the later, more searched, wins: D-mod-K only if it is really faster.
    best = min(reversed(range(len(tried))), key=lambda i: round(times[i] / max(min(times), 1e-300), 4))
    return tried[best]
