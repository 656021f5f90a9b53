"""Greedy allocation and its improvement by rerouting, on candidate paths; one path per demand.

Volumes have one column per *phase*: phases run one after the other, a path serves all phases, and the aim is the sum over phases of the most
loaded arc. Loads are in seconds. ``background`` is what other jobs put on the arcs (same shape as the loads, or one row for all phases).

Greedy (the paper's): demands in descending order of volume take the path whose most loaded arc is least loaded, or whose loads have the least sum.
Rerouting (ours): demands leave their path and take the one that lowers sum(load^p) over arcs and phases; p doubles from 2 to
64, so that the sum turns into the maximum; then demands on the most loaded arc move alone or change places with another. Every step lowers
its aim, hence ends; the best maximum seen is kept.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.flow_paths import FlowPaths

GREEDY_AIMS = {"max-load": 0, "min-sum": 1}
# Exponents of the potential, as numbers of squarings: 2, 4, 8, 16, 32, 64.
SQUARINGS = (1, 2, 3, 4, 5, 6)
# Arcs looked at in one search, about 5 ns each: what bounds the time of large cases.
WORK_MAX = 600_000_000


def phase_volumes(volumes: FloatArray) -> FloatArray:
    """Volumes as (demands, phases)."""
    return np.ascontiguousarray(volumes[:, None] if volumes.ndim == 1 else volumes, dtype=np.float64)


def start_load(fabric: Fabric, phases: int, background: FloatArray | None) -> FloatArray:
    """Loads before any demand is placed, shape (phases, arcs), seconds."""
    arcs = fabric.topology.arc_count
    if background is None:
        return np.zeros((phases, arcs))
    shaped = np.atleast_2d(np.asarray(background, dtype=np.float64))
    if shaped.shape[1] != arcs or shaped.shape[0] not in (1, phases):
        raise FabricError("background", f"has shape {background.shape}; ({arcs},) or ({phases}, {arcs}) is needed")
    return np.ascontiguousarray(np.broadcast_to(shaped, (phases, arcs)).copy())


def greedy(fabric: Fabric, candidates: Candidates, volumes: FloatArray, aim: str = "max-load", background: FloatArray | None = None) -> IntArray:
    """Path of each demand, as index into the candidates' paths; shape (demands,)."""
    if aim not in GREEDY_AIMS:
        raise FabricError("routing", f"unknown aim {aim!r}; known are {', '.join(GREEDY_AIMS)}")
    shaped = phase_volumes(volumes)
    load = start_load(fabric, shaped.shape[1], background)
    order = np.argsort(-shaped.sum(axis=1), kind="stable")
    return np.asarray(_greedy(order, candidates.commodity, candidates.path_first, candidates.first, candidates.arcs, shaped, fabric.seconds_per_byte, load, GREEDY_AIMS[aim]))


def rerouted(
    fabric: Fabric,
    candidates: Candidates,
    volumes: FloatArray,
    chosen: IntArray,
    background: FloatArray | None = None,
    passes: int = 20,
    seed: int = 0,
    movable: IntArray | None = None,
    enough_s: float = 0.0,
) -> IntArray:
    """The allocation improved; never one with a larger sum over phases of the maximum. ``movable`` (demand numbers) restricts who may move.

    Stops when that sum is at most ``enough_s``, and after ``passes`` passes per exponent or ``WORK_MAX`` steps.
    """
    shaped = phase_volumes(volumes)
    load = start_load(fabric, shaped.shape[1], background)
    fabric_arcs = np.flatnonzero(fabric.topology.arc_between_switches)
    if not fabric_arcs.size or not shaped.size:
        return chosen.copy()
    order = np.argsort(-shaped.sum(axis=1), kind="stable") if movable is None else movable[np.argsort(-shaped[movable].sum(axis=1), kind="stable")]
    generator = np.random.default_rng(seed)
    shuffles = np.stack([order, *(generator.permutation(order) for _ in range(3))])
    return np.asarray(
        _reroute(
            shuffles,
            candidates.commodity,
            candidates.path_first,
            candidates.first,
            candidates.arcs,
            shaped,
            fabric.seconds_per_byte,
            load,
            chosen.astype(np.int64),
            np.array(SQUARINGS),
            passes,
            fabric_arcs,
            enough_s,
            _work_per_pass(candidates, shaped, order),
        )
    )


def _work_per_pass(candidates: Candidates, volumes: FloatArray, order: IntArray) -> int:
    arcs_of = np.diff(candidates.first[candidates.path_first])
    return int(arcs_of[candidates.commodity[order]].sum()) * volumes.shape[1] + 1


def paths_chosen(candidates: Candidates, chosen: IntArray) -> FlowPaths:
    """The allocation with its arcs."""
    lengths = candidates.first[chosen + 1] - candidates.first[chosen]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], lengths)
    arcs = candidates.arcs[np.repeat(candidates.first[chosen], lengths) + within].astype(np.int64)
    return FlowPaths(np.arange(chosen.size, dtype=np.int64), np.ones(chosen.size), first, arcs)


@njit(cache=True)
def _put(p, sign, i, first, arcs, volumes, spb, load):  # type: ignore[no-untyped-def]
    for k in range(first[p], first[p + 1]):
        a = arcs[k]
        for f in range(volumes.shape[1]):
            load[f, a] += sign * volumes[i, f] * spb[a]


@njit(cache=True)
def _greedy(order, commodity, path_first, first, arcs, volumes, spb, load, aim):  # type: ignore[no-untyped-def]
    chosen = np.zeros(order.size, dtype=np.int64)
    for i in order:
        best, best_major, best_minor = -1, np.inf, np.inf
        for p in range(path_first[commodity[i]], path_first[commodity[i] + 1]):
            total, highest = 0.0, 0.0
            for f in range(volumes.shape[1]):
                top = 0.0
                for k in range(first[p], first[p + 1]):
                    after = load[f, arcs[k]] + volumes[i, f] * spb[arcs[k]]
                    total += after
                    top = max(top, after)
                highest += top
            major, minor = (highest, total) if aim == 0 else (total, highest)
            if major < best_major or (major == best_major and minor < best_minor):
                best, best_major, best_minor = p, major, minor
        chosen[i] = best
        _put(best, 1.0, i, first, arcs, volumes, spb, load)
    return chosen


@njit(cache=True)
def _peak(load, fabric_arcs):  # type: ignore[no-untyped-def]
    total = 0.0
    for f in range(load.shape[0]):
        top = 0.0
        for a in fabric_arcs:
            top = max(top, load[f, a])
        total += top
    return total


@njit(cache=True)
def _power(x, squarings):  # type: ignore[no-untyped-def]
    for _ in range(squarings):
        x = x * x
    return x


@njit(cache=True)
def _cost(p, i, power, scale, first, arcs, volumes, spb, load):  # type: ignore[no-untyped-def]
    """Growth of sum((load/scale)^(2^power)) when demand i is put on path p."""
    growth = 0.0
    for k in range(first[p], first[p + 1]):
        a = arcs[k]
        for f in range(volumes.shape[1]):
            if volumes[i, f] > 0.0:
                growth += _power((load[f, a] + volumes[i, f] * spb[a]) / scale[f], power) - _power(load[f, a] / scale[f], power)
    return growth


@njit(cache=True)
def _pass(order, power, scale, commodity, path_first, first, arcs, volumes, spb, load, chosen):  # type: ignore[no-untyped-def]
    """Each demand once takes the path that costs least; returns how many moved."""
    moved = 0
    for i in order:
        begin, end = path_first[commodity[i]], path_first[commodity[i] + 1]
        if end - begin < 2:
            continue
        old = chosen[i]
        _put(old, -1.0, i, first, arcs, volumes, spb, load)
        now, least = old, _cost(old, i, power, scale, first, arcs, volumes, spb, load)
        for p in range(begin, end):
            if p != old:
                cost = _cost(p, i, power, scale, first, arcs, volumes, spb, load)
                if cost < least * (1.0 - 1e-9) - 1e-15:
                    now, least = p, cost
        _put(now, 1.0, i, first, arcs, volumes, spb, load)
        if now != old:
            chosen[i] = now
            moved += 1
    return moved


@njit(cache=True)
def _reroute(shuffles, commodity, path_first, first, arcs, volumes, spb, load, chosen, squarings, passes, fabric_arcs, enough_s, work_per_pass):  # type: ignore[no-untyped-def]
    for i in range(chosen.size):
        _put(chosen[i], 1.0, i, first, arcs, volumes, spb, load)
    best, best_peak = chosen.copy(), _peak(load, fabric_arcs)
    scale = np.empty(load.shape[0])
    work = 0
    for power in squarings:
        for turn in range(passes):
            if best_peak <= enough_s or work > WORK_MAX:
                return best
            for f in range(load.shape[0]):
                scale[f] = max(1e-300, load[f][fabric_arcs].max())
            moved = _pass(shuffles[turn % shuffles.shape[0]], power, scale, commodity, path_first, first, arcs, volumes, spb, load, chosen)
            work += work_per_pass
            peak = _peak(load, fabric_arcs)
            if peak < best_peak * (1.0 - 1e-12):
                best_peak = peak
                best[:] = chosen
            if moved == 0:
                break
    return best
