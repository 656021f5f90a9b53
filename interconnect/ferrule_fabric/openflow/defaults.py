"""Default routes: a tree of shortest paths towards each host, over links that are up, and one tree for broadcasts.

Among several shortest ways out of a switch the destination's number decides (D-mod-K): ``number // choices**level % choices``, with the
switch's level in the tree, so that in a fat tree the hosts of a leaf spread over all roots.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ferrule_fabric.model.topology import Topology


@dataclass(frozen=True)
class DefaultRoutes:
    """``arc[host][switch]`` is the arc that a packet for the host takes out of a switch, ``distance[host][switch]`` how many arcs are left to the host;
    switches by node number; hosts and switches that are cut off are absent. ``broadcast[switch]`` are the arcs out of each switch in the broadcast tree."""

    arc: dict[int, dict[int, int]]
    distance: dict[int, dict[int, int]]
    broadcast: dict[int, tuple[int, ...]]

    def path(self, topology: Topology, src: int, dst: int) -> tuple[int, ...] | None:
        """Arcs from host ``src`` to host ``dst``, None when there is no way."""
        first = int(topology.host_uplink_arcs[src])
        if first < 0 or dst not in self.arc or src == dst:
            return None
        arcs, node = [first], int(topology.arc_head[first])
        while node != dst:
            step = self.arc[dst].get(node)
            if step is None:
                return None
            arcs.append(step)
            node = int(topology.arc_head[step])
        return tuple(arcs)


def default_routes(topology: Topology) -> DefaultRoutes:
    """The default routes of a topology as it is now (links that are down aren't used)."""
    out, into = _adjacency(topology)
    arc: dict[int, dict[int, int]] = {}
    distance: dict[int, dict[int, int]] = {}
    head = topology.arc_head.tolist()
    reach: dict[int, tuple[dict[int, int], list[tuple[int, list[int], int]]]] = {}
    for host in range(topology.host_count):
        uplink = int(topology.host_uplink_arcs[host])
        if uplink < 0:
            continue
        leaf = head[uplink]
        if leaf not in reach:
            away = _distances(leaf, into)
            found = [(node, [step for step in out.get(node, ()) if away.get(head[step]) == far - 1]) for node, far in away.items() if node != leaf]
            reach[leaf] = away, [(node, steps, len(steps) ** (topology.switches[node - topology.host_count].level or 0)) for node, steps in found]
        away, choices = reach[leaf]
        # The last arc is the host's uplink in the other direction.
        arc[host] = {node: steps[host // divisor % len(steps)] for node, steps, divisor in choices} | {leaf: uplink ^ 1}
        distance[host] = {node: far + 1 for node, far in away.items()}
    return DefaultRoutes(arc, distance, _broadcast_tree(topology, out))


def _adjacency(topology: Topology) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Working arcs between switches: by the node they leave (in port order), and the nodes from which each node is reached."""
    out: dict[int, list[int]] = {}
    into: dict[int, list[int]] = {}
    usable = topology.arc_up & topology.arc_between_switches
    tail, head = topology.arc_tail.tolist(), topology.arc_head.tolist()
    for arc in usable.nonzero()[0].tolist():
        out.setdefault(tail[arc], []).append(arc)
        into.setdefault(head[arc], []).append(tail[arc])
    return out, into


def _distances(root: int, into: dict[int, list[int]]) -> dict[int, int]:
    away, queue = {root: 0}, deque([root])
    while queue:
        node = queue.popleft()
        for before in into.get(node, ()):
            if before not in away:
                away[before] = away[node] + 1
                queue.append(before)
    return away


def _broadcast_tree(topology: Topology, out: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
    """A spanning tree of the switches (one per connected part), with the arcs to hosts."""
    ports: dict[int, list[int]] = {node: [] for node in range(topology.host_count, topology.node_count)}
    seen: set[int] = set()
    head = topology.arc_head.tolist()
    for root in ports:
        if root in seen:
            continue
        seen.add(root)
        queue = deque([root])
        while queue:
            node = queue.popleft()
            for arc in out.get(node, ()):
                if head[arc] not in seen:
                    seen.add(head[arc])
                    ports[node].append(arc)
                    ports[head[arc]].append(arc ^ 1)
                    queue.append(head[arc])
    for uplink in topology.host_uplink_arcs.tolist():
        if uplink >= 0:
            ports[head[uplink]].append(uplink ^ 1)
    return {node: tuple(sorted(arcs)) for node, arcs in ports.items() if arcs}
