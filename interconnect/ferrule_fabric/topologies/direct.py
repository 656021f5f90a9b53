"""Networks in which every switch has hosts: torus, HyperX, dragonfly, random regular; and dragonfly+ with its leaves and spines.

Sources: J. Ahn et al., "HyperX", SC 2009; J. Kim et al., "Technology-driven, highly-scalable dragonfly topology", ISCA 2008; A. Shpiner et al.,
"Dragonfly+", HiPINEB 2017; A. Singla et al., "Jellyfish", NSDI 2012.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import networkx

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.build import assemble, check_positive, check_size, host_name

DIMENSIONS_MAX = 8
Edges = list[tuple[str, str, float]]


def torus(sizes: Sequence[int], hosts_per_switch: int = 1, host_bps: float = 1e9, switch_bps: float | None = None) -> Topology:
    """Torus of these side lengths. A side of 2 has one link, not two; a side of 1 none."""
    name = f"torus({'x'.join(map(str, sizes))})"
    points = _grid(name, sizes, hosts_per_switch)
    edges: Edges = []
    for point in points:
        for axis, side in enumerate(sizes):
            ahead = (*point[:axis], (point[axis] + 1) % side, *point[axis + 1 :])
            if side > 2 or (side == 2 and point[axis] == 0):
                edges.append((_at(point), _at(ahead), switch_bps or host_bps))
    return _with_hosts(name, [_at(point) for point in points], hosts_per_switch, host_bps, edges)


def hyperx(sizes: Sequence[int], hosts_per_switch: int = 1, host_bps: float = 1e9, switch_bps: float | None = None) -> Topology:
    """HyperX: in each dimension the switches of a line are all joined to each other (with 2 dimensions: flattened butterfly)."""
    name = f"hyperx({'x'.join(map(str, sizes))})"
    points = _grid(name, sizes, hosts_per_switch)
    edges: Edges = []
    for point in points:
        for axis, side in enumerate(sizes):
            edges += [(_at(point), _at((*point[:axis], other, *point[axis + 1 :])), switch_bps or host_bps) for other in range(point[axis] + 1, side)]
    return _with_hosts(name, [_at(point) for point in points], hosts_per_switch, host_bps, edges)


def dragonfly(groups: int, routers: int, globals_per_router: int, hosts_per_router: int, host_bps: float = 1e9, local_bps: float | None = None, global_bps: float | None = None) -> Topology:
    """Dragonfly: ``groups`` of ``routers`` all joined to each other, and ``globals_per_router`` links from each router to other groups.

    Global links go round robin over the other groups (consecutive arrangement); every pair of groups has at least one, so
    groups <= routers * globals_per_router + 1.
    """
    name = f"dragonfly(g={groups},a={routers},h={globals_per_router},p={hosts_per_router})"
    check_positive(name, groups=groups, routers=routers, globals_per_router=globals_per_router, hosts_per_router=hosts_per_router)
    check_size(name, groups * routers * (1 + hosts_per_router))
    names = [_in_group("r", group, router) for group in range(groups) for router in range(routers)]
    edges: Edges = [
        (_in_group("r", group, a), _in_group("r", group, b), local_bps or host_bps) for group in range(groups) for a, b in itertools.combinations(range(routers), 2)
    ]
    edges += _global_links(name, "r", groups, routers, globals_per_router, global_bps or host_bps)
    return _with_hosts(name, names, hosts_per_router, host_bps, edges)


def dragonfly_plus(
    groups: int, leaves: int, spines: int, globals_per_spine: int, hosts_per_leaf: int, host_bps: float = 1e9, local_bps: float | None = None, global_bps: float | None = None
) -> Topology:
    """Dragonfly+: each group is a complete bipartite graph of leaves (with hosts) and spines (with global links)."""
    name = f"dragonfly+(g={groups},l={leaves},s={spines},h={globals_per_spine},p={hosts_per_leaf})"
    check_positive(name, groups=groups, leaves=leaves, spines=spines, globals_per_spine=globals_per_spine, hosts_per_leaf=hosts_per_leaf)
    check_size(name, groups * (leaves * (1 + hosts_per_leaf) + spines))
    leaf_names = [_in_group("l", group, leaf) for group in range(groups) for leaf in range(leaves)]
    spine_names = [_in_group("s", group, spine) for group in range(groups) for spine in range(spines)]
    edges: Edges = [
        (_in_group("l", group, leaf), _in_group("s", group, spine), local_bps or host_bps) for group in range(groups) for leaf in range(leaves) for spine in range(spines)
    ]
    edges += _global_links(name, "s", groups, spines, globals_per_spine, global_bps or host_bps)
    return _with_hosts(name, leaf_names, hosts_per_leaf, host_bps, edges, spine_names)


def random_regular(switches: int, degree: int, hosts_per_switch: int, seed: int, host_bps: float = 1e9, switch_bps: float | None = None) -> Topology:
    """Connected random graph in which each switch has ``degree`` links to others. The same seed gives the same graph."""
    name = f"random({switches},{degree},seed={seed})"
    check_positive(name, switches=switches, degree=degree, hosts_per_switch=hosts_per_switch)
    check_size(name, switches * (1 + hosts_per_switch))
    if degree >= switches or switches * degree % 2:
        raise FabricError(name, "needs degree < switches and an even number of ends")
    for attempt in range(100):
        graph = networkx.random_regular_graph(degree, switches, seed=seed + 1_000_003 * attempt)
        if networkx.is_connected(graph):
            edges = [(f"s{a + 1}", f"s{b + 1}", switch_bps or host_bps) for a, b in sorted(tuple(sorted(edge)) for edge in graph.edges)]
            return _with_hosts(name, [f"s{number + 1}" for number in range(switches)], hosts_per_switch, host_bps, edges)
    raise FabricError(name, "no connected graph in 100 attempts; take a higher degree")


def _global_links(name: str, kind: str, groups: int, routers: int, per_router: int, capacity_bps: float) -> Edges:
    """Links between groups. Slot i of group g (router i // per_router) leads to the group at distance 1 + i mod (groups-1), whose slot mirrors it."""
    slots = routers * per_router
    if groups == 1:
        return []
    if slots < groups - 1:
        raise FabricError(name, f"{slots} global links per group don't reach {groups - 1} other groups")
    edges: Edges = []
    rounds = slots // (groups - 1)
    for turn in range(rounds):
        for group in range(groups):
            for distance in range(1, groups):
                other = (group + distance) % groups
                if group < other:
                    here, there = turn * (groups - 1) + distance - 1, turn * (groups - 1) + (group - other) % groups - 1
                    edges.append((_in_group(kind, group, here // per_router), _in_group(kind, other, there // per_router), capacity_bps))
    return edges


def _grid(name: str, sizes: Sequence[int], hosts_per_switch: int) -> list[tuple[int, ...]]:
    if not 1 <= len(sizes) <= DIMENSIONS_MAX:
        raise FabricError(name, f"needs 1 to {DIMENSIONS_MAX} dimensions, not {len(sizes)}")
    check_positive(name, size=min(sizes), hosts_per_switch=hosts_per_switch)
    check_size(name, prod(sizes) * (1 + hosts_per_switch))
    return list(itertools.product(*(range(size) for size in sizes)))


def _at(point: Sequence[int]) -> str:
    return "s" + "-".join(str(x) for x in point)


def _in_group(kind: str, group: int, number: int) -> str:
    return f"{kind}{group + 1}-{number + 1}"


def _with_hosts(name: str, edge_switches: Sequence[str], hosts_per_switch: int, host_bps: float, edges: Edges, others: Sequence[str] = ()) -> Topology:
    check_positive(name, host_bps=host_bps)
    host_edges = [(host_name(i), edge_switches[i // hosts_per_switch], host_bps) for i in range(len(edge_switches) * hosts_per_switch)]
    level = 0 if others else None
    switches = [(switch, level) for switch in edge_switches] + [(switch, 1) for switch in others]
    return assemble(name, len(host_edges), switches, host_edges + edges)
