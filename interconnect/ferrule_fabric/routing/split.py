"""Splitting by the linear program: the optimum, with few pairs on several paths.

The program splits commodities (pairs of switches); the host pairs of a commodity fill the shares of its paths one after the other, so at most
one pair per border between two shares is split. `rounded` is a start for the search with one path per pair. Weights become buckets of OpenFlow select groups.
"""

from __future__ import annotations

import numpy as np

from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.bound import path_shares
from ferrule_fabric.routing.candidates import Candidates
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.flow_paths import FlowPaths

SHARE_MIN = 1e-4


def split_paths(fabric: Fabric, candidates: Candidates, demands: Demands, background: FloatArray | None = None) -> FlowPaths:
    """Every demand with one or more weighted paths such that the most loaded arc is as little loaded as the candidate paths allow (to about 1e-4)."""
    share_bytes, _ = path_shares(fabric, candidates, demands.bytes, background)
    order = np.lexsort((-demands.bytes, candidates.commodity))
    bounds = np.searchsorted(candidates.commodity[order], np.arange(candidates.commodity_count + 1))
    demand: list[int] = []
    weight: list[float] = []
    path: list[int] = []
    for c in range(candidates.commodity_count):
        own = order[bounds[c] : bounds[c + 1]]
        begin = int(candidates.path_first[c])
        for i, p, w in _fill(own, demands.bytes, share_bytes[begin : int(candidates.path_first[c + 1])]):
            demand.append(i)
            weight.append(w)
            path.append(begin + p)
    back = np.argsort(np.array(demand, dtype=np.int64), kind="stable")
    chosen = np.array(path, dtype=np.int64)[back]
    return _with_arcs(candidates, np.array(demand, dtype=np.int64)[back], np.array(weight)[back], chosen)


def rounded(candidates: Candidates, demands: Demands, share_bytes: FloatArray) -> IntArray:
    """The program's shares with one path per demand: the largest first, each onto the path with most of its share left. Shape (demands,)."""
    left = share_bytes.copy()
    chosen = np.empty(demands.count, dtype=np.int64)
    for i in np.argsort(-demands.bytes, kind="stable").tolist():
        begin, end = candidates.path_first[candidates.commodity[i]], candidates.path_first[candidates.commodity[i] + 1]
        path = int(begin + np.argmax(left[begin:end]))
        left[path] -= demands.bytes[i]
        chosen[i] = path
    return chosen


def _fill(own: IntArray, volume: FloatArray, shares: FloatArray) -> list[tuple[int, int, float]]:
    """(demand, path, weight) of one commodity: demands that fit whole into what is left of a share go there, the rest is cut at the borders."""
    left = shares.copy()
    placed: list[tuple[int, int, float]] = []
    for i in own.tolist():
        size = float(volume[i])
        room = int(np.argmax(left))
        fits = np.flatnonzero(left >= size * (1 - SHARE_MIN))
        if size <= 0 or fits.size:
            best = int(fits[np.argmin(left[fits])]) if fits.size else room
            left[best] -= size
            placed.append((i, best, 1.0))
            continue
        rest = size
        parts: list[tuple[int, float]] = []
        while rest > size * SHARE_MIN and left.max() > size * SHARE_MIN:
            room = int(np.argmax(left))
            part = min(rest, float(left[room]))
            left[room] -= part
            rest -= part
            parts.append((room, part))
        if not parts:
            parts = [(room, size)]
        total = sum(part for _, part in parts)
        placed += [(i, room, part / total) for room, part in parts]
    return placed


def _with_arcs(candidates: Candidates, demand: IntArray, weight: FloatArray, chosen: IntArray) -> FlowPaths:
    lengths = candidates.first[chosen + 1] - candidates.first[chosen]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], lengths)
    arcs = candidates.arcs[np.repeat(candidates.first[chosen], lengths) + within].astype(np.int64)
    return FlowPaths(demand, weight, first, arcs)
