"""The problem of one path per pair as an integer program (HiGHS): the optimum of small cases, better allocations of medium ones, and a bound that no
allocation of one path per pair beats.

Demands of one commodity with the same volume are interchangeable: a *class* of them has one variable per path, how many take it. That keeps regular
patterns small and spares the solver the symmetries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric

CHOICES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Effort:
    """When the solver ends: at this relative ``gap`` between solution and bound, after ``nodes_max`` nodes of its tree (None: any number), after ``limit_s``."""

    gap: float = 1e-6
    nodes_max: int | None = None
    limit_s: float = 60.0


@dataclass(frozen=True, eq=False)
class Solved:
    """``chosen`` (demands,): the path of each, None where none was found; ``bound_s``: no one-path allocation on these candidates has a smaller maximum;
    ``optimal``: within the gap that was asked for."""

    chosen: IntArray | None
    bound_s: float
    optimal: bool


@dataclass(frozen=True, eq=False)
class _Choices:
    """Class k has ``count[k]`` demands of ``size[k]`` bytes; choice j puts some of class ``owner[j]`` on path ``path[j]``. ``member`` (demands,): class of each."""

    member: IntArray
    count: IntArray
    size: FloatArray
    owner: IntArray
    path: IntArray


def choices(candidates: Candidates, volumes: FloatArray) -> int:
    """How many integer variables a case has."""
    return int(_choices(candidates, volumes).path.size)


def _choices(candidates: Candidates, volumes: FloatArray) -> _Choices:
    keys = np.stack((candidates.commodity.astype(np.float64), volumes), axis=1)
    classes, member, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    commodity = classes[:, 0].astype(np.int64)
    paths = np.diff(candidates.path_first)[commodity]
    owner = np.repeat(np.arange(commodity.size), paths)
    within = np.arange(owner.size) - np.repeat(np.cumsum(paths) - paths, paths)
    return _Choices(member.reshape(-1), count, classes[:, 1], owner, candidates.path_first[commodity[owner]] + within)


def solved(fabric: Fabric, candidates: Candidates, volumes: FloatArray, background: FloatArray | None = None, effort: Effort = Effort(), at_most_s: float = math.inf) -> Solved:
    """The best allocation found. ``at_most_s``: only one that isn't worse than this is wanted, which ends the search earlier.

    Raises `FabricError` when the case is too large.
    """
    case = _choices(candidates, volumes)
    if case.path.size > CHOICES_MAX:
        raise FabricError("exact", f"{case.path.size} choices; at most {CHOICES_MAX} are solved exactly")
    lengths = candidates.first[case.path + 1] - candidates.first[case.path]
    if not int(lengths.sum()):
        return Solved(np.asarray(candidates.path_first[candidates.commodity]), 0.0, True)
    column = np.repeat(np.arange(case.path.size), lengths)
    within = np.arange(column.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    arc = candidates.arcs[np.repeat(candidates.first[case.path], lengths) + within]
    used, row = np.unique(arc, return_inverse=True)
    cost_s = case.size[case.owner[column]] * fabric.seconds_per_byte[arc]
    scale = max(float(cost_s.max()), 1e-300)
    entries = np.concatenate((cost_s / scale, -np.ones(used.size)))
    columns = np.concatenate((column, np.full(used.size, case.path.size)))
    load = coo_array((entries, (np.concatenate((row, np.arange(used.size))), columns)), shape=(used.size, case.path.size + 1))
    placed = coo_array((np.ones(case.path.size), (case.owner, np.arange(case.path.size))), shape=(case.count.size, case.path.size + 1))
    taken = np.zeros(used.size) if background is None else np.asarray(background)[used] / scale
    found = milp(
        np.append(np.zeros(case.path.size), 1.0),
        constraints=[LinearConstraint(load.tocsr(), -np.inf, -taken), LinearConstraint(placed.tocsr(), case.count, case.count)],
        integrality=np.append(np.ones(case.path.size), 0),
        bounds=Bounds(np.zeros(case.path.size + 1), np.append(case.count[case.owner], at_most_s / scale * (1 + 1e-9))),
        options={"time_limit": effort.limit_s, "mip_rel_gap": effort.gap} | ({} if effort.nodes_max is None else {"node_limit": effort.nodes_max}),
    )
    # HiGHS calls a program infeasible when nothing is at most what was asked for: then that is a bound.
    bound = found.mip_dual_bound if found.mip_dual_bound is not None else at_most_s / scale if found.status == 2 else 0.0
    return Solved(None if found.x is None else _spread(case, np.rint(found.x[:-1]).astype(np.int64)), float(bound) * scale, found.status == 0)


def _spread(case: _Choices, taking: IntArray) -> IntArray:
    """Path of each demand, given how many of its class take each path."""
    chosen = np.empty(case.member.size, dtype=np.int64)
    order = np.argsort(case.member, kind="stable")
    chosen[order] = np.repeat(case.path, taking)
    return chosen


def exact(fabric: Fabric, candidates: Candidates, volumes: FloatArray, background: FloatArray | None = None, effort: Effort = Effort()) -> IntArray:
    """Path of each demand with the least possible maximum over arcs between switches.

    Raises `FabricError` when the case is too large or isn't solved with this effort.
    """
    result = solved(fabric, candidates, volumes, background, effort)
    if result.chosen is None or not result.optimal:
        raise FabricError("exact", f"not solved within {effort.limit_s} s")
    return result.chosen
