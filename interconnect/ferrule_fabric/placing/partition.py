"""Graph partition and mapping: ranks that talk much come near to each other.

Dual recursive bipartition (F. Pellegrini, "Static mapping by dual recursive bipartitioning", 1994): the hosts, in the order of the network (pods and leaves
together), are cut into two halves at the border of switches nearest to the middle; METIS cuts the ranks into two parts of those sizes with
little traffic between; both halves again. METIS balances only nearly, so single ranks then change sides, those that cost least, until sizes are exact.
"""

from __future__ import annotations

import numpy as np
import pymetis

from ferrule_fabric.model.topology import IntArray, Topology
from ferrule_fabric.model.traffic import TrafficMatrix
from ferrule_fabric.routing.fabric import fabric_of

WEIGHT_MAX = 100_000


def partitioned(topology: Topology, traffic: TrafficMatrix, hosts: IntArray, slots: IntArray, seed: int = 0) -> IntArray:
    """Host number of each rank, shape (ranks,). ``slots`` (hosts,) says how many ranks each host takes; together they are as many as ranks."""
    order = network_order(topology, hosts)
    result = np.full(traffic.ranks, -1, dtype=np.int64)
    graph = _Graph(traffic)
    _split(topology, graph, np.arange(traffic.ranks), hosts[order], slots[order], result, seed)
    return result


def network_order(topology: Topology, hosts: IntArray) -> IntArray:
    """Permutation that puts hosts of a switch, and switches near each other, together: by the path from the root in trees, by switch number else."""
    fabric = fabric_of(topology)
    switch = fabric.host_switch[hosts]
    # Switches with the same distances to everybody stand together: in trees, the distance to the first switch of each subtree.
    rows = fabric.distance[:, switch].astype(np.int64)
    keys = [hosts, switch]
    anchors = [0]
    while len(anchors) < min(16, rows.shape[0]):
        nearest = rows[anchors].min(axis=0)
        farthest = int(np.argmax(nearest))
        if nearest[farthest] == 0:
            break
        anchors.append(int(fabric.row[switch[farthest]]))
    levels = [s.level for s in topology.switches]
    if all(level is not None for level in levels):
        return np.lexsort(keys)
    nearest_anchor = np.argmin(rows[anchors], axis=0)
    return np.lexsort((*keys, nearest_anchor))


class _Graph:
    """Symmetric traffic between ranks in compressed rows, weights scaled to whole numbers of at most `WEIGHT_MAX`."""

    def __init__(self, traffic: TrafficMatrix) -> None:
        away = (traffic.src != traffic.dst) & (traffic.bytes > 0)
        a, b, w = traffic.src[away], traffic.dst[away], traffic.bytes[away].astype(np.float64)
        keys, place = np.unique(np.concatenate((a * traffic.ranks + b, b * traffic.ranks + a)), return_inverse=True)
        total = np.bincount(place, weights=np.concatenate((w, w)), minlength=keys.size)
        self.first = np.searchsorted(keys // traffic.ranks, np.arange(traffic.ranks + 1))
        self.to = keys % traffic.ranks
        self.weight = np.maximum(1, total / max(total.max(initial=1.0), 1.0) * WEIGHT_MAX).astype(np.int64)

    def induced(self, members: IntArray, ranks: int) -> tuple[IntArray, IntArray, IntArray]:
        """(first, to, weight) of the graph between the members, numbered as they are listed."""
        number = np.full(ranks, -1, dtype=np.int64)
        number[members] = np.arange(members.size)
        lengths = self.first[members + 1] - self.first[members]
        begin = np.concatenate(([0], np.cumsum(lengths)))
        index = np.repeat(self.first[members], lengths) + np.arange(begin[-1]) - np.repeat(begin[:-1], lengths)
        to = number[self.to[index]]
        kept = to >= 0
        owner = np.repeat(np.arange(members.size), lengths)[kept]
        return np.searchsorted(owner, np.arange(members.size + 1)), to[kept], self.weight[index][kept]


def _split(topology: Topology, graph: _Graph, members: IntArray, hosts: IntArray, slots: IntArray, result: IntArray, seed: int) -> None:
    if hosts.size == 1 or not members.size:
        result[members] = hosts[0] if hosts.size else -1
        return
    cut = _border(fabric_of(topology).host_switch[hosts], slots)
    want = int(slots[:cut].sum())
    first, to, weight = graph.induced(members, result.size)
    side = _bisected(first, to, weight, want, seed)
    _split(topology, graph, members[side == 0], hosts[:cut], slots[:cut], result, seed)
    _split(topology, graph, members[side == 1], hosts[cut:], slots[cut:], result, seed)


def _border(switch: IntArray, slots: IntArray) -> int:
    """Where to cut the hosts: between two switches if there are several, nearest to half of the slots."""
    filled = np.cumsum(slots)[:-1]
    between = np.flatnonzero(switch[1:] != switch[:-1])
    choices = between if between.size else np.arange(filled.size)
    return int(choices[np.argmin(np.abs(filled[choices] - slots.sum() / 2))]) + 1


def _bisected(first: IntArray, to: IntArray, weight: IntArray, want: int, seed: int) -> IntArray:
    """Side (0 or 1) of each vertex; exactly ``want`` on side 0."""
    count = first.size - 1
    side = np.ones(count, dtype=np.int64)
    if want == 0 or want == count:
        side[:want] = 0
        return side
    if to.size:
        options = pymetis.Options(seed=seed, ufactor=1)
        _, parts = pymetis.part_graph(2, pymetis.CSRAdjacency(first.tolist(), to.tolist()), eweights=weight.tolist(), tpwgts=[want / count, 1 - want / count], options=options)
        side = np.array(parts, dtype=np.int64)
    else:
        side[:want] = 0
    owner = np.repeat(np.arange(count), np.diff(first))
    while (surplus := int((side == 0).sum()) - want) != 0:
        source = 0 if surplus > 0 else 1
        gain = np.bincount(owner, weights=np.where(side[to] == side[owner], -weight, weight), minlength=count)
        gain[side != source] = -np.inf
        side[int(np.argmax(gain))] = 1 - source
    return side
