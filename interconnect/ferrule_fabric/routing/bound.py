"""Lower bounds for the most loaded arc between switches, by linear programming (HiGHS through SciPy).

Fractional multi-commodity flow: traffic may split at will over all shortest paths. Commodities with the same destination switch are one flow, so the
program has (destinations x arcs) variables. No allocation that uses shortest paths, split or not, has a smaller maximum.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.flow_paths import check_reachable

VARIABLES_MAX = 3_000_000


def lower_bound_s(fabric: Fabric, demands: Demands, background: FloatArray | None = None) -> float:
    """Least possible load of the most loaded arc between switches, in seconds. Raises `FabricError` when the program would be too large."""
    check_reachable(fabric, demands)
    topology, switches = fabric.topology, fabric.switch_count
    a, b = fabric.host_switch[demands.src], fabric.host_switch[demands.dst]
    away = a != b
    targets, target_of = np.unique(b[away], return_inverse=True)
    arcs = fabric.out_arc
    if not targets.size or not arcs.size or not demands.bytes[away].any():
        return _background_top(fabric, background)
    tail = topology.arc_tail[arcs] - topology.host_count
    head = topology.arc_head[arcs] - topology.host_count
    closer = fabric.distance[fabric.row[targets]].astype(np.int64)
    flow_target, flow_arc = np.nonzero(closer[:, tail] == closer[:, head] + 1)
    if flow_target.size > VARIABLES_MAX:
        raise FabricError("bound", f"the program would have {flow_target.size} variables; at most {VARIABLES_MAX}")
    variables = flow_target.size + 1
    column = np.arange(flow_target.size)
    unit = float(demands.bytes.max())
    supply = np.zeros(targets.size * switches)
    np.add.at(supply, target_of * switches + a[away], demands.bytes[away] / unit)
    rows_out, rows_in = flow_target * switches + tail[flow_arc], flow_target * switches + head[flow_arc]
    inner = head[flow_arc] != targets[flow_target]
    kept, row_number = np.unique(np.concatenate((rows_out, rows_in[inner])), return_inverse=True)
    signs = np.concatenate((np.ones(rows_out.size), -np.ones(int(inner.sum()))))
    balance = coo_array((signs, (row_number, np.concatenate((column, column[inner])))), shape=(kept.size, variables))
    cost_s = fabric.seconds_per_byte[arcs] * unit
    scale = float(cost_s.max())
    load = coo_array(
        (np.concatenate((cost_s[flow_arc] / scale, -np.ones(arcs.size))), (np.concatenate((flow_arc, np.arange(arcs.size))), np.concatenate((column, np.full(arcs.size, variables - 1))))),
        shape=(arcs.size, variables),
    )
    taken = np.zeros(arcs.size) if background is None else np.asarray(background)[arcs] / scale
    objective = np.zeros(variables)
    objective[-1] = 1.0
    solved = linprog(objective, A_ub=load.tocsr(), b_ub=-taken, A_eq=balance.tocsr(), b_eq=supply[kept], bounds=(0, None), method="highs")
    if solved.x is None:
        raise FabricError("bound", f"HiGHS: {solved.message}")
    return float(solved.fun) * scale


def cut_bound_s(fabric: Fabric, demands: Demands, background: FloatArray | None = None) -> float:
    """A bound in no time, weaker than `lower_bound_s`: what crosses the border of a part of the network, by the capacity of that border.

    Parts are single switches with hosts and, in trees, what hangs together below each level. Seconds.
    """
    topology, arcs = fabric.topology, fabric.out_arc
    tail, head = topology.arc_tail[arcs] - topology.host_count, topology.arc_head[arcs] - topology.host_count
    a, b = fabric.host_switch[demands.src], fabric.host_switch[demands.dst]
    capacity = topology.arc_capacity_bps[arcs] / 8
    taken = np.zeros(arcs.size) if background is None else np.asarray(background)[arcs] * capacity
    parts = [np.arange(fabric.switch_count)]
    levels = [switch.level for switch in topology.switches]
    if levels and all(level is not None for level in levels):
        level = np.array(levels)
        for top in range(1, int(level.max()) + 1):
            inside = (level[tail] < top) & (level[head] < top)
            graph = coo_array((np.ones(int(inside.sum())), (tail[inside], head[inside])), shape=(level.size, level.size))
            parts.append(connected_components(graph, directed=False)[1])
    highest = 0.0
    for part in parts:
        border, crossing = part[tail] != part[head], part[a] != part[b]
        for ends, flows in ((tail, a), (head, b)):
            room = np.bincount(part[ends][border], weights=capacity[border], minlength=fabric.switch_count)
            wanted = np.bincount(part[flows][crossing], weights=demands.bytes[crossing], minlength=fabric.switch_count)
            wanted = wanted + np.bincount(part[ends][border], weights=taken[border], minlength=fabric.switch_count)
            highest = max(highest, float((wanted[room > 0] / room[room > 0]).max(initial=0.0)))
    return highest


def whole_bound_s(fabric: Fabric, demands: Demands, bound_s: float) -> float:
    """A bound for one path per pair from one for split traffic: where all links between switches are alike, a load is a multiple of the greatest common
    divisor of the demands, hence so is the bound. Only without background."""
    capacities = np.unique(fabric.topology.arc_capacity_bps[fabric.topology.arc_between_switches])
    crossing = demands.bytes[fabric.host_switch[demands.src] != fabric.host_switch[demands.dst]]
    if capacities.size != 1 or not crossing.size or np.any(crossing != np.floor(crossing)):
        return bound_s
    unit_s = float(np.gcd.reduce(crossing.astype(np.int64))) * 8 / float(capacities[0])
    return max(bound_s, math.ceil(bound_s / unit_s - 1e-6) * unit_s) if unit_s > 0 else bound_s


def path_shares(fabric: Fabric, candidates: Candidates, volumes: FloatArray, background: FloatArray | None = None) -> tuple[FloatArray, float]:
    """Best split of each commodity over its candidate paths: (bytes on each path, load of the most loaded arc in seconds).

    ``volumes`` (demands,) in bytes. Ties are broken towards few links by a small price on the total load.
    """
    paths = int(candidates.path_first[-1])
    if paths > VARIABLES_MAX:
        raise FabricError("split", f"the program would have {paths} variables; at most {VARIABLES_MAX}")
    if not paths:
        return np.zeros(0), _background_top(fabric, background)
    wanted = np.bincount(candidates.commodity, weights=volumes, minlength=candidates.commodity_count)
    unit = max(float(wanted.max()), 1e-300)
    owner = np.repeat(np.arange(candidates.commodity_count), np.diff(candidates.path_first))
    used, arc_row = np.unique(candidates.arcs, return_inverse=True)
    if not used.size:
        return wanted.astype(np.float64), _background_top(fabric, background)
    lengths = np.diff(candidates.first)
    cost_s = fabric.seconds_per_byte[candidates.arcs] * unit
    scale = float(cost_s.max())
    columns = np.concatenate((np.repeat(np.arange(paths), lengths), np.full(used.size, paths)))
    load = coo_array((np.concatenate((cost_s / scale, -np.ones(used.size))), (np.concatenate((arc_row, np.arange(used.size))), columns)), shape=(used.size, paths + 1))
    total = coo_array((np.ones(paths), (owner, np.arange(paths))), shape=(candidates.commodity_count, paths + 1))
    taken = np.zeros(used.size) if background is None else np.asarray(background)[used] / scale
    objective = np.append(1e-9 * np.maximum(1.0, lengths), 1.0)
    solved = linprog(objective, A_ub=load.tocsr(), b_ub=-taken, A_eq=total.tocsr(), b_eq=wanted / unit, bounds=(0, None), method="highs")
    if solved.x is None:
        raise FabricError("split", f"HiGHS: {solved.message}")
    return np.asarray(solved.x[:-1]) * unit, float(solved.x[-1]) * scale


def _background_top(fabric: Fabric, background: FloatArray | None) -> float:
    return 0.0 if background is None or not fabric.out_arc.size else float(np.asarray(background)[fabric.out_arc].max())
