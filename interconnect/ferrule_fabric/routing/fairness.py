"""Max-min fair rates and the time that flows need: the fluid model of a network whose transport shares links fairly.

Progressive filling (D. Bertsekas, R. Gallager, "Data Networks", 6.5.2): the arc that offers its flows least fixes their rates; repeated with what is
left. Time: rates hold until flows finish, then are made anew, but not more often than every ``tolerance`` times the load of the most loaded arc (a
lower bound of the whole time): flows that finish in between do so at the rates they had. So there are about 1 / tolerance rounds instead of one
per flow, and finishing times are too late by at most that step.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from ferrule_fabric.model.topology import BoolArray, FloatArray, IntArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.flow_paths import FlowPaths


def full_paths(fabric: Fabric, demands: Demands, paths: FlowPaths) -> tuple[IntArray, IntArray]:
    """(first, arcs) of the paths with the host arcs at both ends."""
    lengths = np.diff(paths.first)
    first = np.concatenate(([0], np.cumsum(lengths + 2))).astype(np.int64)
    arcs = np.empty(first[-1], dtype=np.int64)
    arcs[first[:-1]] = fabric.host_up_arc[demands.src[paths.demand]]
    arcs[first[1:] - 1] = fabric.host_down_arc[demands.dst[paths.demand]]
    inner = np.ones(arcs.size, dtype=np.bool_)
    inner[first[:-1]] = False
    inner[first[1:] - 1] = False
    arcs[inner] = paths.arcs
    return first, arcs


def fair_rates(first: IntArray, arcs: IntArray, weight: FloatArray, capacity: FloatArray, active: IntArray | None = None) -> FloatArray:
    """Max-min fair rate of each flow in units of ``capacity`` per second; flows of weight w count as w equal ones. 0 for flows that aren't active.

    ``first`` (flows+1,), ``arcs``: as in `FlowPaths`, at least one arc each. ``capacity`` (arcs,).
    """
    going = np.ones(weight.size, dtype=np.bool_) if active is None else np.asarray(active, dtype=np.bool_)
    arc_first, members = _members(first, arcs, capacity.size)
    return np.asarray(_fill(first, arcs, weight.astype(np.float64), capacity.astype(np.float64), going, arc_first, members))


def finish_times_s(first: IntArray, arcs: IntArray, volume: FloatArray, weight: FloatArray, capacity: FloatArray, tolerance: float = 0.01) -> FloatArray:
    """When each flow finishes if all start at 0, in seconds; volumes in the unit of capacity times seconds."""
    arc_first, members = _members(first, arcs, capacity.size)
    return np.asarray(_finish(first, arcs, volume.astype(np.float64), weight.astype(np.float64), capacity.astype(np.float64), arc_first, members, tolerance))


def estimated_time_s(fabric: Fabric, demands: Demands, paths: FlowPaths, tolerance: float = 0.01) -> float:
    """When the last byte of these demands arrives, all starting together and sharing fairly, in seconds. Each path is one flow."""
    if not paths.count:
        return 0.0
    first, arcs = full_paths(fabric, demands, paths)
    volume = demands.bytes[paths.demand] * paths.weight
    return float(finish_times_s(first, arcs, volume, np.ones(paths.count), 1.0 / fabric.seconds_per_byte, tolerance).max())


@njit(cache=True)
def _members(first, arcs, arc_count):  # type: ignore[no-untyped-def]
    """Flows of each arc, as (first, members)."""
    arc_first = np.zeros(arc_count + 1, dtype=np.int64)
    for a in arcs:
        arc_first[a + 1] += 1
    arc_first = np.cumsum(arc_first)
    members = np.empty(arcs.size, dtype=np.int64)
    place = arc_first[:-1].copy()
    for i in range(first.size - 1):
        for k in range(first[i], first[i + 1]):
            members[place[arcs[k]]] = i
            place[arcs[k]] += 1
    return arc_first, members


@njit(cache=True)
def _fill(first: IntArray, arcs: IntArray, weight: FloatArray, capacity: FloatArray, active: BoolArray, arc_first: IntArray, members: IntArray) -> FloatArray:
    rate = np.zeros(weight.size)
    open_ = active.copy()
    left = capacity.copy()
    share_of = np.zeros(capacity.size)
    going = np.zeros(capacity.size, dtype=np.int64)
    for i in range(weight.size):
        if active[i]:
            for k in range(first[i], first[i + 1]):
                share_of[arcs[k]] += weight[i]
                going[arcs[k]] += 1
    heap = [(left[a] / share_of[a], a) for a in range(capacity.size) if going[a] > 0]
    if len(heap) == 0:
        return rate
    heapq.heapify(heap)
    while len(heap) > 0:
        offered, a = heapq.heappop(heap)
        if going[a] == 0:
            continue
        now = max(left[a], 0.0) / share_of[a]
        if now > offered * (1.0 + 1e-12):
            heapq.heappush(heap, (now, a))
            continue
        for m in range(arc_first[a], arc_first[a + 1]):
            i = members[m]
            if not open_[i]:
                continue
            open_[i] = False
            rate[i] = now * weight[i]
            for k in range(first[i], first[i + 1]):
                b = arcs[k]
                left[b] -= rate[i]
                share_of[b] -= weight[i]
                going[b] -= 1
    return rate


@njit(cache=True)
def _finish(first, arcs, volume, weight, capacity, arc_first, members, tolerance):  # type: ignore[no-untyped-def]
    left = volume.copy()
    done_at = np.zeros(volume.size)
    load = np.zeros(capacity.size)
    for i in range(volume.size):
        for k in range(first[i], first[i + 1]):
            load[arcs[k]] += volume[i] / capacity[arcs[k]]
    step_min = tolerance * load.max()
    active = volume > 0.0
    remaining = int(active.sum())
    now = 0.0
    while remaining > 0:
        rate = _fill(first, arcs, weight, capacity, active, arc_first, members)
        soonest = np.inf
        for i in range(volume.size):
            if active[i]:
                soonest = min(soonest, left[i] / rate[i])
        step = max(soonest * (1.0 + 1e-9), step_min)
        for i in range(volume.size):
            if active[i]:
                need = left[i] / rate[i]
                if need <= step:
                    done_at[i] = now + need
                    active[i] = False
                    remaining -= 1
                else:
                    left[i] -= step * rate[i]
        now += step
    return done_at
