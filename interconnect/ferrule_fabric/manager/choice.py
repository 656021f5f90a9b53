"""Which allocation a job that starts gets: one that is good whether its phases run in step or drift apart.

Ranks wait for their partners only, so phases of different ranks overlap, more or less. Two models bound what happens: all ranks in step (the sum of the
phases' times), and all traffic at once (the time of the sum). The allocation with the least sum of both, each relative to D-mod-K's, is taken of those that
are not slower than D-mod-K by either; D-mod-K is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule_fabric.model.topology import FloatArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.allocate import Options, flow_paths
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.fairness import estimated_time_s
from ferrule_fabric.routing.flow_paths import FlowPaths
from ferrule_fabric.routing.timed import phases_time_s

CANDIDATES = ("d-mod-k", "ferrule-time", "ferrule", "greedy")
# Times closer than this are equal.
TOLERANCE = 0.005
# Of both together.
GAIN_MIN = 0.02


def robust_paths(fabric: Fabric, total: Demands, phases: Sequence[Demands], background: FloatArray | None, options: Options) -> FlowPaths:
    """One path per demand of ``total``, of which ``phases`` are the parts; ``background`` (arcs,) seconds of other jobs."""
    if not total.count:
        return flow_paths(fabric, total, CANDIDATES[0], background, options)
    tried = [flow_paths(fabric, total, name, background, options, phases) for name in CANDIDATES]
    if len(phases) > 1:
        tried.append(flow_paths(fabric, total, "ferrule-time", background, options))
    times = [(estimated_time_s(fabric, total, paths), phases_time_s(fabric, total, phases or [total], paths)) for paths in tried]
    scores = [(free / times[0][0], in_step / times[0][1]) for free, in_step in times]
    fitting = [i for i, score in enumerate(scores) if max(score) <= 1 + TOLERANCE]
    # Of equally good ones the last, which is around the other jobs; but without others, D-mod-K where nothing is better by more than the models tell.
    best = min(fitting, key=lambda i: (round(sum(scores[i]) / TOLERANCE), -i))
    alone = background is None or not background.any()
    return tried[0] if alone and sum(scores[best]) > 2 - GAIN_MIN else tried[best]
