"""Base lines that don't look at the traffic: D-mod-K, S-mod-K, and ECMP hashing.

At each switch the packet takes one of the out-ports on shortest paths. D-mod-K (E. Zahavi, "Fat-trees routing and node ordering providing
contention free traffic for MPI global collectives", 2012) takes number (destination / divisor) mod ports, where the divisor is the
product of the up-links of the levels below; S-mod-K does so with the source; ECMP takes a hash of the pair. In networks that are no
trees the divisor is 1. With D-mod-K the next hop depends on the switch and the destination only, as InfiniBand's forwarding tables demand.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import IntArray
from ferrule_fabric.model.traffic import Demands
from ferrule_fabric.routing.fabric import Fabric
from ferrule_fabric.routing.flow_paths import FlowPaths, check_reachable

RULES = {"d-mod-k": 0, "s-mod-k": 1, "ecmp": 2}


def static_paths(fabric: Fabric, demands: Demands, rule: str, seed: int = 0) -> FlowPaths:
    """One path per demand by a rule of `RULES`. Raises `FabricError` for an unknown rule or a pair without a path."""
    if rule not in RULES:
        raise FabricError("routing", f"unknown rule {rule!r}; known are {', '.join(RULES)}")
    check_reachable(fabric, demands)
    a, b = fabric.host_switch[demands.src], fabric.host_switch[demands.dst]
    hops = fabric.distance[fabric.row[b], a].astype(np.int64)
    first = np.concatenate(([0], np.cumsum(hops))).astype(np.int64)
    arcs = _walk(RULES[rule], seed, demands.src, demands.dst, a, b, first, fabric.out_first, fabric.out_arc, fabric.out_head, fabric.row, fabric.distance, fabric.divisor)
    return FlowPaths(np.arange(demands.count, dtype=np.int64), np.ones(demands.count), first, arcs)


@njit(cache=True)
def mixed(x: np.uint64) -> np.uint64:
    """A well-mixed 64-bit word (SplitMix64's finalizer; S. Vigna, public domain)."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _walk(
    rule: int,
    seed: int,
    src: IntArray,
    dst: IntArray,
    a: IntArray,
    b: IntArray,
    first: IntArray,
    out_first: IntArray,
    out_arc: IntArray,
    out_head: IntArray,
    row: IntArray,
    distance: NDArray[np.uint16],
    divisor: IntArray,
) -> IntArray:
    arcs = np.empty(first[-1], dtype=np.int64)
    for i in range(src.size):
        u, r = a[i], row[b[i]]
        for step in range(first[i], first[i + 1]):
            ports = 0
            for k in range(out_first[u], out_first[u + 1]):
                ports += distance[r, out_head[k]] < distance[r, u]
            if rule == 0:
                pick = (dst[i] // divisor[u]) % ports
            elif rule == 1:
                pick = (src[i] // divisor[u]) % ports
            else:
                word = mixed(np.uint64(seed) ^ mixed(np.uint64(src[i]) ^ mixed(np.uint64(dst[i]) ^ mixed(np.uint64(u)))))
                pick = np.int64(word % np.uint64(ports))
            for k in range(out_first[u], out_first[u + 1]):
                if distance[r, out_head[k]] < distance[r, u]:
                    if pick == 0:
                        arcs[step] = out_arc[k]
                        u = out_head[k]
                        break
                    pick -= 1
    return arcs
