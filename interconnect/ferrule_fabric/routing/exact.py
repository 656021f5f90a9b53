"""The unsplittable problem solved exactly by integer programming (HiGHS), for small cases: the yardstick of the heuristics' tests."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric

CHOICES_MAX = 50_000


def exact(fabric: Fabric, candidates: Candidates, volumes: FloatArray, background: FloatArray | None = None, limit_s: float = 60.0, gap: float = 1e-6) -> IntArray:
    """Path of each demand with the least possible maximum over arcs between switches.

    Raises `FabricError` when the case is too large or isn't solved within ``limit_s`` seconds of processor time.
    """
    sizes = np.diff(candidates.path_first)[candidates.commodity]
    if int(sizes.sum()) > CHOICES_MAX:
        raise FabricError("exact", f"{int(sizes.sum())} choices; at most {CHOICES_MAX} are solved exactly")
    if not sizes.size:
        return np.zeros(0, dtype=np.int64)
    demand = np.repeat(np.arange(sizes.size), sizes)
    begin = np.concatenate(([0], np.cumsum(sizes)))
    path = candidates.path_first[candidates.commodity[demand]] + np.arange(demand.size) - begin[demand]
    lengths = candidates.first[path + 1] - candidates.first[path]
    if not int(lengths.sum()):
        return np.asarray(candidates.path_first[candidates.commodity])
    column = np.repeat(np.arange(path.size), lengths)
    within = np.arange(column.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    arc = candidates.arcs[np.repeat(candidates.first[path], lengths) + within]
    used, row = np.unique(arc, return_inverse=True)
    cost_s = volumes[demand[column]] * fabric.seconds_per_byte[arc]
    scale = max(float(cost_s.max()), 1e-300)
    entries = np.concatenate((cost_s / scale, -np.ones(used.size)))
    load = coo_array((entries, (np.concatenate((row, np.arange(used.size))), np.concatenate((column, np.full(used.size, path.size))))), shape=(used.size, path.size + 1))
    once = coo_array((np.ones(path.size), (demand, np.arange(path.size))), shape=(sizes.size, path.size + 1))
    taken = np.zeros(used.size) if background is None else np.asarray(background)[used] / scale
    solved = milp(
        np.append(np.zeros(path.size), 1.0),
        constraints=[LinearConstraint(load.tocsr(), -np.inf, -taken), LinearConstraint(once.tocsr(), 1, 1)],
        integrality=np.append(np.ones(path.size), 0),
        bounds=Bounds(np.zeros(path.size + 1), np.append(np.ones(path.size), np.inf)),
        options={"time_limit": limit_s, "mip_rel_gap": gap},
    )
    if solved.x is None or solved.status != 0:
        raise FabricError("exact", f"not solved within {limit_s} s: {solved.message}")
    taken_choice = np.flatnonzero(solved.x[:-1] > 0.5)
    chosen = np.empty(sizes.size, dtype=np.int64)
    chosen[demand[taken_choice]] = path[taken_choice]
    return chosen
