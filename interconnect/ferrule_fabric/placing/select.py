"""Node selection: which of the free hosts a job gets. Results are host numbers in the order in which placements fill them.

``first`` and ``last`` by number; ``even`` takes equally many from every switch, switch after switch; ``interleaved`` the same hosts, but one of each switch
in turn; ``random`` by seed; ``compact`` the fewest switches: the fullest that fits wins, as schedulers with a topology plug-in do.
The placements Block A to E of the experiments are block placement on first, even, last, interleaved and random.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import IntArray, Topology
from ferrule_fabric.routing.fabric import fabric_of

BLOCKS = {"block-a": "first", "block-b": "even", "block-c": "last", "block-d": "interleaved", "block-e": "random"}


def selected(topology: Topology, count: int, how: str = "first", free: IntArray | None = None, seed: int = 0) -> IntArray:
    """``count`` hosts out of ``free`` (ascending host numbers; default: all that are connected). Raises `FabricError` when there are too few."""
    connected = np.flatnonzero(fabric_of(topology).host_switch >= 0)
    hosts = connected if free is None else np.intersect1d(free, connected)
    if how not in SELECTIONS:
        raise FabricError("selection", f"unknown selection {how!r}; known are {', '.join(SELECTIONS)}")
    if count > hosts.size:
        raise FabricError("selection", f"{count} hosts wanted, {hosts.size} free")
    return SELECTIONS[how](topology, hosts, count, seed)


def by_switch(topology: Topology, hosts: IntArray) -> list[IntArray]:
    """The hosts of each switch, switches in order."""
    switch = fabric_of(topology).host_switch[hosts]
    return [hosts[switch == s] for s in np.unique(switch)]


def _first(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    return hosts[:count]


def _last(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    return hosts[hosts.size - count :]


def _even_groups(topology: Topology, hosts: IntArray, count: int) -> list[IntArray]:
    groups = by_switch(topology, hosts)
    taken = [0] * len(groups)
    left = count
    while left:
        for i, group in enumerate(groups):
            if left and taken[i] < group.size:
                taken[i] += 1
                left -= 1
    return [group[:number] for group, number in zip(groups, taken)]


def _even(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    return np.concatenate(_even_groups(topology, hosts, count))


def _interleaved(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    groups = _even_groups(topology, hosts, count)
    longest = max((group.size for group in groups), default=0)
    return np.array([group[i] for i in range(longest) for group in groups if i < group.size], dtype=np.int64)


def _random(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).permutation(hosts)[:count]


def _compact(topology: Topology, hosts: IntArray, count: int, seed: int) -> IntArray:
    groups = by_switch(topology, hosts)
    fits = [group for group in groups if group.size >= count]
    if fits:
        return min(fits, key=lambda group: group.size)[:count]
    taken: list[IntArray] = []
    left = count
    for group in sorted(groups, key=lambda group: -group.size):
        if left <= 0:
            break
        taken.append(group[:left])
        left -= group.size
    return np.concatenate(taken)


SELECTIONS: dict[str, Callable[[Topology, IntArray, int, int], IntArray]] = {
    "first": _first,
    "last": _last,
    "even": _even,
    "interleaved": _interleaved,
    "random": _random,
    "compact": _compact,
}
