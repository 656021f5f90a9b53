"""Paths to choose from: for each pair of switches with traffic, its shortest paths (and, with ``slack``, those a few hops longer).

All of them where there are at most ``paths_max``; else ``paths_max`` different random ones, drawn from a seed. Host pairs of the same two switches
share a set, so that the work grows with pairs of switches, not with flows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import IntArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.fabric import UNREACHABLE, Fabric
from ferrule_fabric.routing.flow_paths import check_reachable
from ferrule_fabric.routing.static import mixed

PATHS_MAX = 64
ARCS_MAX = 60_000_000
SLACK_MAX = 4


@dataclass(frozen=True, eq=False)
class Candidates:
    """Commodity c (an ordered pair of switches) has the paths ``path_first[c]:path_first[c+1]``; path p the arcs ``arcs[first[p]:first[p+1]]``.

    ``commodity`` (demands,) says which one each demand belongs to; ``pair`` (commodities, 2) the switches; ``complete`` whether nothing was left out.
    """

    commodity: IntArray
    pair: IntArray
    path_first: IntArray
    first: IntArray
    arcs: NDArray[np.int32]
    complete: bool

    @property
    def commodity_count(self) -> int:
        """Number of ordered pairs of switches with traffic."""
        return int(self.path_first.size - 1)


def candidates_of(fabric: Fabric, demands: Demands, paths_max: int = PATHS_MAX, slack: int = 0, seed: int = 0) -> Candidates:
    """Path sets for these demands. ``paths_max`` shrinks by itself where all sets together would exceed ``ARCS_MAX`` arcs."""
    if not 1 <= paths_max <= 4096 or not 0 <= slack <= SLACK_MAX:
        raise FabricError("routing", f"paths_max must be 1..4096 and slack 0..{SLACK_MAX}, not {paths_max} and {slack}")
    check_reachable(fabric, demands)
    switches = fabric.switch_count
    keys, commodity = np.unique(fabric.host_switch[demands.src] * switches + fabric.host_switch[demands.dst], return_inverse=True)
    pair = np.stack((keys // switches, keys % switches), axis=1)
    longest = int(fabric.distance[fabric.row[pair[:, 1]], pair[:, 0]].max(initial=0)) + slack
    paths_max = max(1, min(paths_max, ARCS_MAX // max(1, keys.size * max(1, longest))))
    path_first, first, arcs, complete = _enumerate(pair, paths_max, slack, longest, seed, fabric.out_first, fabric.out_arc, fabric.out_head, fabric.row, fabric.distance)
    return Candidates(commodity, pair, path_first, first, arcs, bool(complete))


@njit(cache=True)
def _enumerate(pair, paths_max, slack, longest, seed, out_first, out_arc, out_head, row, distance):  # type: ignore[no-untyped-def]
    path_first = np.zeros(pair.shape[0] + 1, dtype=np.int64)
    room = 1024
    lengths = np.empty(room, dtype=np.int64)
    arcs = np.empty(room * (longest + 1), dtype=np.int32)
    found = np.empty((paths_max + 1, max(1, longest)), dtype=np.int32)
    found_length = np.empty(paths_max + 1, dtype=np.int64)
    paths, used, complete = 0, 0, True
    for c in range(pair.shape[0]):
        a, r = pair[c, 0], row[pair[c, 1]]
        limit = np.int64(distance[r, a]) + (slack if distance[r, a] > 0 else 0)
        count = _all_paths(a, r, limit, paths_max + 1, found, found_length, out_first, out_arc, out_head, distance)
        if count > paths_max:
            complete = False
            count = _some_paths(a, r, limit, paths_max, seed + c, found, found_length, out_first, out_arc, out_head, distance)
        if paths + count > lengths.size:
            lengths = np.concatenate((lengths, np.empty(lengths.size + count, dtype=np.int64)))
        if used + count * longest > arcs.size:
            arcs = np.concatenate((arcs, np.empty(arcs.size + count * longest, dtype=np.int32)))
        for p in range(count):
            lengths[paths] = found_length[p]
            paths += 1
            arcs[used : used + found_length[p]] = found[p, : found_length[p]]
            used += found_length[p]
        path_first[c + 1] = paths
    first = np.zeros(paths + 1, dtype=np.int64)
    first[1:] = np.cumsum(lengths[:paths])
    return path_first, first, arcs[:used].copy(), complete


@njit(cache=True)
def _all_paths(a, r, limit, count_max, found, found_length, out_first, out_arc, out_head, distance):  # type: ignore[no-untyped-def]
    """Depth-first, arcs in port order; stops at ``count_max`` paths. Bounded by the paths found times their branches."""
    stack = np.empty(limit + 1, dtype=np.int64)
    node = np.empty(limit + 2, dtype=np.int64)
    taken = np.empty(limit + 1, dtype=np.int32)
    node[0], depth, count = a, 0, 0
    stack[0] = out_first[a]
    if distance[r, a] == 0:
        found_length[0] = 0
        return 1
    while depth >= 0:
        u = node[depth]
        k = stack[depth]
        if k == out_first[u + 1]:
            depth -= 1
            continue
        stack[depth] += 1
        v = out_head[k]
        if distance[r, v] == UNREACHABLE or depth + 1 + np.int64(distance[r, v]) > limit or _visited(node, depth, v):
            continue
        taken[depth] = out_arc[k]
        if distance[r, v] == 0:
            found[count, : depth + 1] = taken[: depth + 1]
            found_length[count] = depth + 1
            count += 1
            if count == count_max:
                return count
            continue
        depth += 1
        node[depth] = v
        stack[depth] = out_first[v]
    return count


@njit(cache=True)
def _visited(node, depth, v):  # type: ignore[no-untyped-def]
    for i in range(depth + 1):  # noqa: SIM110 (numba compiles no generators)
        if node[i] == v:
            return True
    return False


@njit(cache=True)
def _some_paths(a, r, limit, count_max, seed, found, found_length, out_first, out_arc, out_head, distance):  # type: ignore[no-untyped-def]
    """Up to ``count_max`` different random walks towards the destination, in at most four times as many attempts."""
    node = np.empty(limit + 2, dtype=np.int64)
    count = 0
    for attempt in range(4 * count_max):
        u, depth = a, 0
        node[0] = a
        while distance[r, u] > 0:
            options = 0
            chosen = -1
            for k in range(out_first[u], out_first[u + 1]):
                v = out_head[k]
                if distance[r, v] != UNREACHABLE and depth + 1 + np.int64(distance[r, v]) <= limit and not _visited(node, depth, v):
                    options += 1
                    word = mixed(np.uint64(seed) * np.uint64(0x100000001B3) + mixed(np.uint64(attempt * 64 + depth) * np.uint64(4096) + np.uint64(options)))
                    if word % np.uint64(options) == 0:
                        chosen = k
            if chosen < 0:
                break
            found[count, depth] = out_arc[chosen]
            depth += 1
            u = out_head[chosen]
            node[depth] = u
        if distance[r, u] > 0:
            continue
        found_length[count] = depth
        fresh = True
        for p in range(count):
            if found_length[p] == depth and np.all(found[p, :depth] == found[count, :depth]):
                fresh = False
                break
        if fresh:
            count += 1
            if count == count_max:
                break
    return count
