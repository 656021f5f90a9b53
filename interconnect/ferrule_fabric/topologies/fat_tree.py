"""Fat trees: the extended generalized fat tree XGFT(h; m1..mh; w1..wh) and its common special cases.

Source: S. R. Öhring et al., "On generalized fat trees", IPPS 1995. Level l has m[l+1]*..*m[h]*w[1]*..*w[l] nodes; a node of level l has m[l] children
and w[l+1] parents. Level 0 are the hosts. Here switch levels are counted from 0 (`Switch.level`), so the leaves have level 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.topologies.build import assemble, check_positive, check_size, host_name

LEVELS_MAX = 8


def xgft(children: Sequence[int], parents: Sequence[int], host_bps: float = 1e9, up_bps: float | Sequence[float] | None = None) -> Topology:
    """XGFT with ``children`` = (m1, .., mh) and ``parents`` = (w1, .., wh).

    ``up_bps`` is the capacity of switch links, one for all levels or one per level from the leaves up; default ``host_bps``. With w1 > 1
    hosts have several links, of which routing uses the first.
    """
    h = len(children)
    name = f"xgft({h};{','.join(map(str, children))};{','.join(map(str, parents))})"
    if not 1 <= h <= LEVELS_MAX or len(parents) != h:
        raise FabricError(name, f"needs 1 to {LEVELS_MAX} levels with as many m as w, not {h} and {len(parents)}")
    check_positive(name, m=min(children), w=min(parents), host_bps=host_bps)
    between = [host_bps if up_bps is None else up_bps] * (h - 1) if up_bps is None or isinstance(up_bps, int | float) else list(up_bps)
    if len(between) != h - 1:
        raise FabricError(f"{name}.up_bps", f"needs {h - 1} capacities, not {len(between)}")
    capacity = [host_bps, *between]
    sizes = [prod(children[level:]) * prod(parents[:level]) for level in range(h + 1)]
    check_size(name, sum(sizes))
    switches = [(_switch_name(level, number), level - 1) for level in range(1, h + 1) for number in range(sizes[level])]
    edges = []
    for level in range(h):
        for number in range(sizes[level]):
            below = host_name(number) if level == 0 else _switch_name(level, number)
            edges += [(below, _switch_name(level + 1, parent), capacity[level]) for parent in _parents(number, level, children, parents)]
    return assemble(name, sizes[0], switches, edges)


def _parents(number: int, level: int, children: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Numbers of the parents of a node. A node's number has the digits (upper subtrees, w-digits below), the latter least significant."""
    below = prod(parents[:level])
    subtree, copy = divmod(number, below)
    return [(subtree // children[level]) * below * parents[level] + choice * below + copy for choice in range(parents[level])]


def _switch_name(level: int, number: int) -> str:
    return f"s{level}-{number + 1}"


def two_level(leaves: int, spines: int, hosts_per_leaf: int, host_bps: float = 1e9, up_bps: float | None = None) -> Topology:
    """Leaf and spine switches with one link between each; oversubscription is hosts_per_leaf * host_bps : spines * up_bps."""
    return xgft((hosts_per_leaf, leaves), (1, spines), host_bps, up_bps)


def k_ary(k: int, host_bps: float = 1e9, oversubscription: float = 1.0) -> Topology:
    """Three levels of k-port switches, k^3/4 hosts (k even). Switch links carry host_bps / oversubscription."""
    if k < 2 or k % 2:
        raise FabricError("fat-tree.k", f"must be even and at least 2, not {k}")
    check_positive("fat-tree", oversubscription=oversubscription)
    return xgft((k // 2, k // 2, k), (1, k // 2, k // 2), host_bps, host_bps / oversubscription)
