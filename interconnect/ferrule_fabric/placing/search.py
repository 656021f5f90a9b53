"""Local search over placements: ranks on different hosts change places while the estimate of the loads falls.

The estimate spreads each host pair evenly over the candidate paths of its switches, which is near to what a good allocation reaches and can be
brought up to date in the time of two ranks' neighbors. Its aim is sum(load^p) over all arcs, p doubling from 2 to 16, as in `routing.search`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ferrule_fabric.model.topology import FloatArray, IntArray
from ferrule_fabric.model.traffic import Demands, TrafficMatrix
from ferrule_fabric.routing.candidates import candidates_of
from ferrule_fabric.routing.fabric import Fabric

PARTNERS_MAX = 24
# Arcs brought up to date in one search, about 2 ns each: what bounds the time for dense traffic, where exchanges gain little.
WORK_MAX = 400_000_000
SQUARINGS = (1, 2, 3, 4)


class EvenSpread:
    """Share of each arc in a byte from switch to switch: rows ``first[a * used + b]``, where a and b number the switches in use."""

    def __init__(self, fabric: Fabric, hosts: IntArray, paths_max: int = 16) -> None:
        switches = np.unique(fabric.host_switch[hosts])
        self.number = np.full(fabric.switch_count, -1, dtype=np.int64)
        self.number[switches] = np.arange(switches.size)
        self.switches = switches.size
        # One host stands for each switch.
        stand_in = np.array([hosts[np.argmax(fabric.host_switch[hosts] == s)] for s in switches], dtype=np.int64)
        a, b = np.repeat(np.arange(switches.size), switches.size), np.tile(np.arange(switches.size), switches.size)
        away = a != b
        count = fabric.topology.host_count
        demands = Demands(count, stand_in[a[away]], stand_in[b[away]], np.ones(int(away.sum())), np.ones(int(away.sum()), dtype=np.int64))
        candidates = candidates_of(fabric, demands, paths_max)
        rows = (a * switches.size + b)[away]
        paths_of_row = np.diff(candidates.path_first)[candidates.commodity]
        self.first = np.zeros(switches.size**2 + 1, dtype=np.int64)
        arcs: list[IntArray] = []
        shares: list[FloatArray] = []
        for row, c, paths in zip(rows.tolist(), candidates.commodity.tolist(), paths_of_row.tolist()):
            begin, end = candidates.path_first[c], candidates.path_first[c + 1]
            own = candidates.arcs[candidates.first[begin] : candidates.first[end]]
            arc, times = np.unique(own, return_counts=True)
            self.first[row + 1] = arc.size
            arcs.append(arc.astype(np.int64))
            shares.append(times / paths)
        self.first = np.cumsum(self.first)
        self.arc: IntArray = np.concatenate(arcs) if arcs else np.zeros(0, dtype=np.int64)
        self.share: FloatArray = np.concatenate(shares) if shares else np.zeros(0)


def searched(fabric: Fabric, traffic: TrafficMatrix, host_of_rank: IntArray, spread: EvenSpread, passes: int = 4, seed: int = 0, background: FloatArray | None = None) -> IntArray:
    """The placement after at most ``passes`` passes per exponent; each host keeps its number of ranks. Shape (ranks,)."""
    away = (traffic.src != traffic.dst) & (traffic.bytes > 0)
    src, dst, volume = traffic.src[away], traffic.dst[away], traffic.bytes[away].astype(np.float64)
    out_first, out_to, out_volume = _rows(src, dst, volume, traffic.ranks)
    in_first, in_to, in_volume = _rows(dst, src, volume, traffic.ranks)
    load = np.zeros(fabric.topology.arc_count) if background is None else np.asarray(background, dtype=np.float64).copy()
    number = np.where(fabric.host_switch >= 0, spread.number[fabric.host_switch], -1)
    arcs_per_pair = 2 + spread.arc.size / max(1, spread.first.size - 1)
    arcs_per_sweep = 16 * max(1, traffic.pairs) * arcs_per_pair * passes * len(SQUARINGS)
    partners = int(np.clip(WORK_MAX / arcs_per_sweep, 1, PARTNERS_MAX))
    graph = (out_first, out_to, out_volume, in_first, in_to, in_volume)
    net = (number, spread.switches, spread.first, spread.arc, spread.share, fabric.host_up_arc, fabric.host_down_arc, fabric.seconds_per_byte)
    return np.asarray(_search(host_of_rank.astype(np.int64).copy(), graph, net, load, np.array(SQUARINGS), passes, partners, seed))


def _rows(owner: IntArray, other: IntArray, volume: FloatArray, ranks: int) -> tuple[IntArray, IntArray, FloatArray]:
    order = np.lexsort((other, owner))
    return np.searchsorted(owner[order], np.arange(ranks + 1)), other[order], volume[order]


@njit(cache=True)
def _add(s, d, v, net, load):  # type: ignore[no-untyped-def]
    """Puts v bytes from host s to host d on the arcs."""
    if s == d:
        return
    number, switches, first, arc, share, up, down, spb = net
    load[up[s]] += v * spb[up[s]]
    load[down[d]] += v * spb[down[d]]
    row = number[s] * switches + number[d]
    for k in range(first[row], first[row + 1]):
        load[arc[k]] += v * share[k] * spb[arc[k]]


@njit(cache=True)
def _add_rank(rank, other, sign, host, graph, net, load):  # type: ignore[no-untyped-def]
    """Adds or takes off all traffic of a rank; that with ``other`` is left out (its own turn counts it)."""
    out_first, out_to, out_volume, in_first, in_to, in_volume = graph
    for k in range(out_first[rank], out_first[rank + 1]):
        if out_to[k] != other:
            _add(host[rank], host[out_to[k]], sign * out_volume[k], net, load)
    for k in range(in_first[rank], in_first[rank + 1]):
        if in_to[k] != other:
            _add(host[in_to[k]], host[rank], sign * in_volume[k], net, load)


@njit(cache=True)
def _swap(i, j, host, graph, net, load):  # type: ignore[no-untyped-def]
    _add_rank(i, -1, -1.0, host, graph, net, load)
    _add_rank(j, i, -1.0, host, graph, net, load)
    host[i], host[j] = host[j], host[i]
    _add_rank(i, -1, 1.0, host, graph, net, load)
    _add_rank(j, i, 1.0, host, graph, net, load)


@njit(cache=True)
def _potential(load, squarings, scale):  # type: ignore[no-untyped-def]
    total = 0.0
    for a in range(load.size):
        x = load[a] / scale
        for _ in range(squarings):
            x = x * x
        total += x
    return total


@njit(cache=True)
def _search(host, graph, net, load, squarings, passes, partners, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    ranks = host.size
    out_first, out_to, out_volume = graph[0], graph[1], graph[2]
    # Seats sorted by host: the ranks of a host sit in seats seat_first[host] .. seat_first[host + 1].
    rank_at = np.argsort(host, kind="mergesort")
    seat_of = np.empty(ranks, dtype=np.int64)
    seat_first = np.zeros(net[0].size + 1, dtype=np.int64)
    for seat in range(ranks):
        seat_of[rank_at[seat]] = seat
        seat_first[host[rank_at[seat]] + 1] += 1
    seat_first = np.cumsum(seat_first)
    for i in range(ranks):
        for k in range(out_first[i], out_first[i + 1]):
            _add(host[i], host[out_to[k]], out_volume[k], net, load)
    best, best_peak = host.copy(), load.max()
    for power in squarings:
        for _ in range(passes):
            scale = max(load.max(), 1e-300)
            now = _potential(load, power, scale)
            moved = False
            for i in np.random.permutation(ranks):
                degree = out_first[i + 1] - out_first[i]
                for trial in range(min(partners, ranks)):
                    j = np.random.randint(0, ranks)
                    if trial % 2 == 0 and degree > 0:
                        # A seat beside somebody that this rank talks to.
                        beside = host[out_to[out_first[i] + np.random.randint(0, degree)]]
                        j = rank_at[np.random.randint(seat_first[beside], seat_first[beside + 1])]
                    if host[i] == host[j]:
                        continue
                    _swap(i, j, host, graph, net, load)
                    after = _potential(load, power, scale)
                    if after < now * (1.0 - 1e-9):
                        now = after
                        moved = True
                        seat_of[i], seat_of[j] = seat_of[j], seat_of[i]
                        rank_at[seat_of[i]], rank_at[seat_of[j]] = i, j
                    else:
                        _swap(i, j, host, graph, net, load)
            if load.max() < best_peak * (1.0 - 1e-9):
                best_peak = load.max()
                best[:] = host
            if not moved:
                break
    return best
