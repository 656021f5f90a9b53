"""A topology compiled for the kernels: switches numbered from 0, working links only, distances to the switches that have hosts.

Kernels (numba) work on flat arrays. *Arcs* keep the numbers of the topology; only arcs between switches are in paths here, because the two arcs
to the hosts at the ends leave no choice. `Fabric` adds them where loads and plans are made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import FloatArray, IntArray, Topology

UNREACHABLE = np.uint16(65535)
SWITCHES_MAX = 20_000


@dataclass(frozen=True, eq=False)
class Fabric:
    """Arrays for kernels.

    ``out_first`` (switches+1,), ``out_arc``, ``out_head``: arcs that leave each switch, ordered by port, and the switch they enter.
    ``host_switch`` (hosts,): switch of each host, -1 if it is cut off. ``host_up_arc``, ``host_down_arc`` (hosts,): its arcs to and from that switch.
    ``row`` (switches,): row of ``distance`` for each switch with hosts, else -1. ``distance`` (rows, switches): hops from a switch to the row's switch.
    ``divisor`` (switches,): product of the numbers of up-links of the levels below, for D-mod-K; 1 where the topology isn't a tree.
    ``seconds_per_byte`` (arcs,): 8 / capacity.
    """

    topology: Topology
    out_first: IntArray
    out_arc: IntArray
    out_head: IntArray
    host_switch: IntArray
    host_up_arc: IntArray
    host_down_arc: IntArray
    row: IntArray
    distance: NDArray[np.uint16]
    divisor: IntArray
    seconds_per_byte: FloatArray

    @property
    def switch_count(self) -> int:
        """Number of switches."""
        return int(self.out_first.size - 1)


def fabric_of(topology: Topology) -> Fabric:
    """The compiled form, made once per topology. Raises `FabricError` for hosts joined to each other or too many switches."""
    known = vars(topology).get("_fabric")
    if not isinstance(known, Fabric):
        known = _compile(topology)
        vars(topology)["_fabric"] = known  # a cache beside those of cached_property; the dataclass's fields stay as they are
    return known


def _compile(topology: Topology) -> Fabric:
    hosts, switches = topology.host_count, len(topology.switches)
    if switches > SWITCHES_MAX:
        raise FabricError(topology.name, f"routing works with at most {SWITCHES_MAX} switches, not {switches}")
    tail, head, up = topology.arc_tail, topology.arc_head, topology.arc_up
    if topology.arc_count and bool(np.any((tail < hosts) & (head < hosts))):
        raise FabricError(topology.name, "two hosts are joined directly; routing needs a switch between")
    usable = np.flatnonzero(topology.arc_between_switches & up)
    port = np.array([topology.arc_ports(int(arc))[0] or 0 for arc in usable], dtype=np.int64)
    order = np.lexsort((usable, port, tail[usable]))
    arcs = usable[order]
    first = np.searchsorted(tail[arcs] - hosts, np.arange(switches + 1))
    host_up = topology.host_uplink_arcs
    host_switch = np.where(host_up >= 0, head[np.maximum(host_up, 0)] - hosts, -1) if topology.arc_count else np.full(hosts, -1)
    edge = np.unique(host_switch[host_switch >= 0])
    row = np.full(switches, -1, dtype=np.int64)
    row[edge] = np.arange(edge.size)
    heads = head[arcs] - hosts
    distance = _distances(first, heads, edge)
    divisor = _divisors(topology, first, heads)
    return Fabric(topology, first, arcs, heads, host_switch, host_up, np.where(host_up >= 0, host_up ^ 1, -1), row, distance, divisor, 8.0 / topology.arc_capacity_bps)


@njit(cache=True)
def _distances(first: IntArray, heads: IntArray, edge: IntArray) -> NDArray[np.uint16]:
    switches = first.size - 1
    distance = np.full((edge.size, switches), UNREACHABLE, dtype=np.uint16)
    queue = np.empty(switches, dtype=np.int64)
    for r in range(edge.size):
        distance[r, edge[r]] = 0
        queue[0] = edge[r]
        begin, end = 0, 1
        while begin < end:
            u = queue[begin]
            begin += 1
            for i in range(first[u], first[u + 1]):
                v = heads[i]
                if distance[r, v] == UNREACHABLE:
                    distance[r, v] = distance[r, u] + 1
                    queue[end] = v
                    end += 1
    return distance


def _divisors(topology: Topology, first: IntArray, heads: IntArray) -> IntArray:
    levels = [switch.level for switch in topology.switches]
    divisor = np.ones(len(levels), dtype=np.int64)
    if not levels or any(level is None for level in levels):
        return divisor
    level = np.array(levels, dtype=np.int64)
    upward = np.array([int(np.count_nonzero(level[heads[first[u] : first[u + 1]]] > level[u])) for u in range(level.size)])
    product = 1
    for stage in range(int(level.max()) + 1):
        divisor[level == stage] = product
        widths = upward[level == stage]
        product *= max(1, int(widths.max())) if widths.size else 1
    return divisor
