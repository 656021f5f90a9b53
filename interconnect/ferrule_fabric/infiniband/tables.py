"""From a plan to InfiniBand's linear forwarding tables.

InfiniBand routes by destination only: every switch has one port per destination LID. With LMC m a host has 2**m LIDs, so 2**m trees lead to it, and who
sends chooses one by the LID that it addresses. Each pair of the plan gets the first of its destination's trees that its path agrees with; pairs that
agree with none take the tree in which their path would start best (their own first choice is lost) and are reported. Switches that no path of a tree
crosses forward by default routes: these lead, step by step nearer, to the host or into the tree, so no table has a loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.plan import RoutePlan
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.compiler import port_of
from ferrule_fabric.openflow.defaults import DefaultRoutes, default_routes
from ferrule_fabric.openflow.splits import heaviest

LMC_MAX = 7
LID_UNICAST_MAX = 0xBFFF

_NODE = re.compile(r'^(Switch|Ca)\s+(\d+)\s+"([HS]-[0-9a-fA-F]+)"\s*(?:#\s*"([^"]*)")?(.*)')
_LID = re.compile(r"\blid (\d+)(?: lmc (\d+))?")
_CA_PORT = re.compile(r'^\[\d+\](?:\([0-9a-fA-F]+\))?\s+"[^"]+"\[\d+\][^#]*#\s*lid (\d+) lmc (\d+)')


@dataclass(frozen=True, slots=True)
class Lids:
    """``base`` LID of each node by its id as ibnetdiscover writes it (``H-…``, ``S-…``), the LMC of hosts, and how many ports each switch has, by its GUID."""

    base: Mapping[str, int]
    described: Mapping[str, str]
    lmc: int
    port_count: Mapping[int, int]


@dataclass(frozen=True)
class Tables:
    """``ports[switch][lid]`` by node number; ``lid_of`` which LID a pair addresses; ``left_out`` pairs whose path fits no tree."""

    ports: dict[int, dict[int, int]]
    lid_of: dict[tuple[str, str], int]
    left_out: tuple[tuple[str, str], ...]


def lids_from_ibnetdiscover(text: str) -> Lids:
    """The LIDs of a listing of ``ibnetdiscover``. Raises `FabricError` when hosts have none or different LMCs."""
    base: dict[str, int] = {}
    described: dict[str, str] = {}
    masks: set[int] = set()
    port_count: dict[int, int] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if node := _NODE.match(line):
            current = node[3]
            described[current] = node[4] or ""
            if node[1] == "Switch":
                port_count[int(current[2:], 16)] = int(node[2])
                if lid := _LID.search(node[5]):
                    base[current] = int(lid[1])
        elif current.startswith("H-") and (port := _CA_PORT.match(line)):
            base.setdefault(current, int(port[1]))
            masks.add(int(port[2]))
        if any(lid > LID_UNICAST_MAX for lid in (base.get(current, 0),)):
            raise FabricError(f"ibnetdiscover:{number}", f"LID {base[current]} is not a unicast LID")
    if len(masks) != 1 or max(masks) > LMC_MAX:
        raise FabricError("ibnetdiscover", f"hosts must have one LMC of 0..{LMC_MAX}; found {sorted(masks)}: has the subnet manager run?")
    return Lids(base, described, masks.pop(), port_count)


def base_lids(topology: Topology, lids: Lids) -> dict[int, int]:
    """Base LID of each node of a topology read from the same listing. Raises `FabricError` naming a node that has none."""
    names: dict[str, int] = {}
    for node, lid in lids.base.items():
        words = lids.described[node].split()
        short = words[0] if node.startswith("H-") and words else lids.described[node]
        for name in (node, short):
            names.setdefault(name, lid)
    missing = [name for name in topology.node_names if name not in names]
    if missing:
        raise FabricError("LIDs", f"{missing[0]!r} has none (and {len(missing) - 1} more)")
    return {number: names[name] for number, name in enumerate(topology.node_names)}


def forwarding_tables(topology: Topology, plan: RoutePlan, base: Mapping[int, int], lmc: int) -> Tables:
    """Tables for a plan. Raises `FabricError` when LIDs overlap."""
    plan.check(topology)
    if not 0 <= lmc <= LMC_MAX:
        raise FabricError("LMC", f"must be 0..{LMC_MAX}, not {lmc}")
    trees = 1 << lmc
    _check_lids(topology, base, trees)
    defaults = default_routes(topology)
    chosen: dict[int, list[dict[int, int]]] = {host: [{} for _ in range(trees)] for host in range(topology.host_count)}
    lid_of: dict[tuple[str, str], int] = {}
    left_out = []
    tail = topology.arc_tail.tolist()
    for pair, route in plan:
        arcs = heaviest(route)
        dst = topology.node_index[pair[1]]
        wanted = {tail[arc]: arc for arc in arcs[1:]}
        agreeing = [place for place, tree in enumerate(chosen[dst]) if all(tree.get(node, arc) == arc for node, arc in wanted.items())]
        # Of the trees that agree, one that has most of the path already leaves the others to other paths.
        if agreeing:
            place = max(agreeing, key=lambda place: (len(wanted.keys() & chosen[dst][place].keys()), -place))
            chosen[dst][place].update(wanted)
        else:
            place = max(range(trees), key=lambda place: (chosen[dst][place].get(tail[arcs[1]]) == arcs[1], -place))
            left_out.append(pair)
        lid_of[pair] = base[dst] + place
    return Tables(_ports(topology, defaults, chosen, base), lid_of, tuple(left_out))


def _check_lids(topology: Topology, base: Mapping[int, int], trees: int) -> None:
    used: dict[int, str] = {}
    for node, name in enumerate(topology.node_names):
        count = trees if node < topology.host_count else 1
        for lid in range(base[node], base[node] + count):
            if not 0 < lid <= LID_UNICAST_MAX or lid in used:
                raise FabricError(f"LID of {name}", f"{lid} is {'of ' + used[lid] if lid in used else 'not a unicast LID'}")
            used[lid] = name


def _ports(topology: Topology, defaults: DefaultRoutes, chosen: Mapping[int, list[dict[int, int]]], base: Mapping[int, int]) -> dict[int, dict[int, int]]:
    switches = range(topology.host_count, topology.node_count)
    ports: dict[int, dict[int, int]] = {node: {base[node]: 0} for node in switches}
    for host, trees in chosen.items():
        for place, tree in enumerate(trees):
            for node in switches:
                arc = tree.get(node, defaults.arc.get(host, {}).get(node))
                if arc is not None:
                    ports[node][base[host] + place] = port_of(topology, arc)
    for node, arcs in _between_switches(topology).items():
        for other, arc in arcs.items():
            ports[node][base[other]] = port_of(topology, arc)
    return ports


def _between_switches(topology: Topology) -> dict[int, dict[int, int]]:
    """First arc of a shortest way from each switch to each other: management packets go there."""
    out: dict[int, list[int]] = {}
    usable = topology.arc_up & topology.arc_between_switches
    head = topology.arc_head.tolist()
    for arc in usable.nonzero()[0].tolist():
        out.setdefault(int(topology.arc_tail[arc]), []).append(arc)
    ways: dict[int, dict[int, int]] = {}
    for root in range(topology.host_count, topology.node_count):
        first: dict[int, int] = {}
        level = [root]
        while level:
            following = []
            for node in level:
                for arc in out.get(node, ()):
                    other = head[arc]
                    if other != root and other not in first:
                        first[other] = first.get(node, arc)
                        following.append(other)
            level = following
        ways[root] = first
    return ways
