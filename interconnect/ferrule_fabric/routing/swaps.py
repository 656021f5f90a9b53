"""Last step of the search for one phase: empties the most loaded arc by moving one demand, or by exchanging two.

An exchange takes one demand off the hottest arc and puts another, smaller one in its place: what single moves can't do where every other
path is nearly as full. A step is taken only if the hottest arc cools and no arc becomes as hot as it was; so the sorted list of loads
falls lexicographically and the search ends.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.search import _put, phase_volumes, start_load


def exchanged(fabric: Fabric, candidates: Candidates, volumes: FloatArray, chosen: IntArray, background: FloatArray | None = None, steps: int = 2000, enough: float = 0.0) -> IntArray:
    """The allocation after at most ``steps`` moves and exchanges; stops when the maximum is at most ``enough`` seconds. Only for one phase."""
    shaped = phase_volumes(volumes)
    load = start_load(fabric, shaped.shape[1], background)
    fabric_arcs = np.flatnonzero(fabric.topology.arc_between_switches)
    if shaped.shape[1] != 1 or not fabric_arcs.size:
        return chosen.copy()
    result = chosen.astype(np.int64).copy()
    _exchange(candidates.commodity, candidates.path_first, candidates.first, candidates.arcs, shaped, fabric.seconds_per_byte, load, result, steps, enough, fabric_arcs)
    return result


@njit(cache=True)
def _on(p, arc, first, arcs):  # type: ignore[no-untyped-def]
    for k in range(first[p], first[p + 1]):  # noqa: SIM110 (numba compiles no generators)
        if arcs[k] == arc:
            return True
    return False


@njit(cache=True)
def _top(p, first, arcs, load):  # type: ignore[no-untyped-def]
    top = 0.0
    for k in range(first[p], first[p + 1]):
        top = max(top, load[0, arcs[k]])
    return top


@njit(cache=True)
def _exchange(commodity, path_first, first, arcs, volumes, spb, load, chosen, steps, enough, fabric_arcs):  # type: ignore[no-untyped-def]
    n = chosen.size
    for i in range(n):
        _put(chosen[i], 1.0, i, first, arcs, volumes, spb, load)
    for _ in range(steps):
        hot, peak = -1, 0.0
        for a in fabric_arcs:
            if load[0, a] > peak:
                hot, peak = a, load[0, a]
        if hot < 0 or peak <= enough:
            return
        if not _cool(hot, peak * (1.0 - 1e-9), n, commodity, path_first, first, arcs, volumes, spb, load, chosen):
            return


@njit(cache=True)
def _cool(hot, peak, n, commodity, path_first, first, arcs, volumes, spb, load, chosen):  # type: ignore[no-untyped-def]
    """One move or exchange after which every arc that it touches is below ``peak``; False if there is none within the limits."""
    tries = 0
    for i in range(n):
        if volumes[i, 0] <= 0.0 or not _on(chosen[i], hot, first, arcs):
            continue
        old = chosen[i]
        _put(old, -1.0, i, first, arcs, volumes, spb, load)
        for p in range(path_first[commodity[i]], path_first[commodity[i] + 1]):
            if p == old or _on(p, hot, first, arcs):
                continue
            _put(p, 1.0, i, first, arcs, volumes, spb, load)
            top = _top(p, first, arcs, load)
            if top < peak:
                chosen[i] = p
                return True
            crowded = -1
            for k in range(first[p], first[p + 1]):
                if load[0, arcs[k]] == top:
                    crowded = arcs[k]
            for j in range(n):
                if j == i or volumes[j, 0] <= 0.0 or volumes[j, 0] >= volumes[i, 0] or not _on(chosen[j], crowded, first, arcs):
                    continue
                tries += 1
                if tries > 20000:
                    _put(p, -1.0, i, first, arcs, volumes, spb, load)
                    _put(old, 1.0, i, first, arcs, volumes, spb, load)
                    return False
                before = chosen[j]
                _put(before, -1.0, j, first, arcs, volumes, spb, load)
                if _top(p, first, arcs, load) < peak:
                    for q in range(path_first[commodity[j]], path_first[commodity[j] + 1]):
                        if q == before:
                            continue
                        _put(q, 1.0, j, first, arcs, volumes, spb, load)
                        if _top(q, first, arcs, load) < peak and _top(p, first, arcs, load) < peak and load[0, hot] < peak:
                            chosen[i], chosen[j] = p, q
                            return True
                        _put(q, -1.0, j, first, arcs, volumes, spb, load)
                _put(before, 1.0, j, first, arcs, volumes, spb, load)
            _put(p, -1.0, i, first, arcs, volumes, spb, load)
        _put(old, 1.0, i, first, arcs, volumes, spb, load)
    return False
