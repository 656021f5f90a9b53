"""The way in: one function from demands to a `RoutePlan`, and the judgement of plans.

Algorithms: ``d-mod-k``, ``s-mod-k``, ``ecmp`` (static); ``greedy`` (the paper's, by maximum) and ``greedy-min-sum``; ``ferrule`` (greedy and the rounded linear program, then
rerouting and exchanges, then a bounded integer program); ``ferrule-time`` (least estimated time instead of least load, phase by phase where there are phases); ``split`` (the linear program's
optimum, some pairs on several weighted paths); ``exact`` (integer program, small cases).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing import exact as exact_solver
from ferrule_fabric.routing.bound import cut_bound_s, path_shares, whole_bound_s
from ferrule_fabric.routing.candidates import PATHS_MAX, Candidates, candidates_of
from ferrule_fabric.routing.fabric import Fabric, fabric_of
from ferrule_fabric.routing.flow_paths import FlowPaths, arc_seconds, paths_of, plan_of
from ferrule_fabric.routing.search import greedy, paths_chosen, rerouted
from ferrule_fabric.routing.split import rounded, split_paths
from ferrule_fabric.routing.static import RULES, static_paths
from ferrule_fabric.routing.swaps import exchanged
from ferrule_fabric.routing.timed import fastest_paths

ALGORITHMS = (*RULES, "greedy", "greedy-min-sum", "ferrule", "ferrule-time", "split", "exact")

# The search ends this near to the bound by cuts.
NEAR = 1.0002
# Exchanges look at all demands on an arc; larger cases have flows so small that single moves do.
EXCHANGE_MAX = 20_000
# The linear program as a second start: up to so many paths, a few tenths of a second.
ROUNDING_PATHS_MAX = 30_000
# The integer program, where all that hasn't come near the bound: up to so many variables, and only the root of its tree. Seconds at most, mostly tenths.
INTEGER_CHOICES_MAX = 4_000
INTEGER_EFFORT = exact_solver.Effort(gap=0.005, nodes_max=1, limit_s=20.0)


@dataclass(frozen=True, slots=True)
class Options:
    """``paths_max`` candidate paths per pair of switches, up to ``slack`` hops longer than shortest; ``seed`` for all that is drawn; ``passes`` of rerouting;
    ``rounding``: also start from the rounded linear program where the search from greedy isn't near the bound; ``integer``: then the integer program."""

    paths_max: int = PATHS_MAX
    slack: int = 0
    seed: int = 0
    passes: int = 20
    rounding: bool = True
    integer: bool = True


DEFAULTS = Options()


def allocate(topology: Topology, demands: Demands, algorithm: str = "ferrule", background: FloatArray | None = None, options: Options = DEFAULTS, job: str = "") -> RoutePlan:
    """Routes for these demands. ``background`` (arcs,): seconds that other traffic already puts on each arc (`plan_loads_s` of other jobs).

    Raises `FabricError` for an unknown algorithm and for pairs without a working path.
    """
    fabric = fabric_of(topology)
    return plan_of(fabric, demands, flow_paths(fabric, demands, algorithm, background, options), job, algorithm)


def flow_paths(
    fabric: Fabric, demands: Demands, algorithm: str, background: FloatArray | None = None, options: Options = DEFAULTS, phases: Sequence[Demands] = ()
) -> FlowPaths:
    """As `allocate`, in arrays. ``phases`` (together ``demands``) only matter to ``ferrule-time``."""
    if algorithm not in ALGORITHMS:
        raise FabricError("routing", f"unknown algorithm {algorithm!r}; known are {', '.join(ALGORITHMS)}")
    if algorithm in RULES:
        return static_paths(fabric, demands, algorithm, options.seed)
    if algorithm == "ferrule-time":
        return fastest_paths(fabric, demands, phases or [demands], background, options.paths_max, options.slack, options.seed, options.passes)
    candidates = candidates_of(fabric, demands, options.paths_max, options.slack, options.seed)
    if algorithm == "split":
        return split_paths(fabric, candidates, demands, background)
    if algorithm == "exact":
        return paths_chosen(candidates, exact_solver.exact(fabric, candidates, demands.bytes, background))
    if algorithm == "ferrule":
        return _searched(fabric, candidates, demands, background, options)
    return paths_chosen(candidates, greedy(fabric, candidates, demands.bytes, "min-sum" if algorithm == "greedy-min-sum" else "max-load", background))


def _searched(fabric: Fabric, candidates: Candidates, demands: Demands, background: FloatArray | None, options: Options) -> FlowPaths:
    start = greedy(fabric, candidates, demands.bytes, "max-load", background)
    enough_s = NEAR * cut_bound_s(fabric, demands, background)
    best, top_s = _improved(fabric, candidates, demands, start, background, options, enough_s)
    if top_s > enough_s and options.rounding and demands.count <= EXCHANGE_MAX and candidates.path_first[-1] <= ROUNDING_PATHS_MAX:
        share_bytes, bound_s = path_shares(fabric, candidates, demands.bytes, background)
        bound_s = bound_s if background is not None else whole_bound_s(fabric, demands, bound_s)
        if top_s > NEAR * bound_s:
            other, other_s = _improved(fabric, candidates, demands, rounded(candidates, demands, share_bytes), background, options, NEAR * bound_s)
            best, top_s = (other, other_s) if other_s < top_s else (best, top_s)
        if top_s > (1 + INTEGER_EFFORT.gap) * bound_s and options.integer and exact_solver.choices(candidates, demands.bytes) <= INTEGER_CHOICES_MAX:
            found = exact_solver.solved(fabric, candidates, demands.bytes, background, INTEGER_EFFORT, top_s).chosen
            best = found if found is not None and _top_s(fabric, candidates, demands, found, background) < top_s else best
    return paths_chosen(candidates, best)


def _improved(
    fabric: Fabric, candidates: Candidates, demands: Demands, start: IntArray, background: FloatArray | None, options: Options, enough_s: float
) -> tuple[IntArray, float]:
    """(allocation after rerouting and exchanges, its most loaded arc between switches in seconds)."""
    better = rerouted(fabric, candidates, demands.bytes, start, background, options.passes, options.seed, enough_s=enough_s)
    if demands.count <= EXCHANGE_MAX:
        better = exchanged(fabric, candidates, demands.bytes, better, background, enough=enough_s)
    return better, _top_s(fabric, candidates, demands, better, background)


def _top_s(fabric: Fabric, candidates: Candidates, demands: Demands, chosen: IntArray, background: FloatArray | None) -> float:
    load_s = arc_seconds(fabric, demands, paths_chosen(candidates, chosen)) + (0.0 if background is None else background)
    return max_load_s(fabric.topology, load_s, True)


def plan_loads_s(topology: Topology, demands: Demands, plan: RoutePlan) -> FloatArray:
    """Seconds that each arc needs for these demands on this plan, shape (arcs,)."""
    fabric = fabric_of(topology)
    return arc_seconds(fabric, demands, paths_of(fabric, demands, plan))


def max_load_s(topology: Topology, load_s: FloatArray, between_switches: bool = False) -> float:
    """Load of the most loaded arc in seconds; of arcs between switches only, if wanted (what routing can change)."""
    chosen = load_s[..., topology.arc_between_switches] if between_switches else load_s
    return float(np.max(chosen, initial=0.0))
