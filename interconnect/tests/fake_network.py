"""A network that executes flow rules and groups: says where a packet goes, or may go, given the tables of all switches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow import update
from ferrule_fabric.openflow.compiler import Compiled
from ferrule_fabric.openflow.rules import VLAN_PRESENT, Change, Groups, Refused, Rule, Table, apply, groups_of

Packet = Mapping[str, str | int]


class Lost(Exception):
    """No rule takes the packet, or its port leads nowhere."""


class Loop(Exception):
    """The packet comes back to a switch in the state it had there."""


def relabelled(rule: Rule | None, packet: Packet) -> Packet:
    """A packet as a rule sends it on."""
    if rule is None or not (rule.push or rule.pop):
        return packet
    assert ("vlan_vid" in packet) == rule.pop and not (rule.push and rule.pop), f"{rule} for {packet}"
    left = {name: value for name, value in packet.items() if name != "vlan_vid"}
    return left | {"vlan_vid": VLAN_PRESENT | rule.push} if rule.push else left


def executed(network: FakeNetwork, old: Compiled, new: Compiled, rng: random.Random) -> Iterator[tuple[update.Round, bool]]:
    """Leads a network from one set of rules to another, messages of a round in any order over switches. Yields after each message: its round, and whether
    that ends with it. At the end the switches hold what is new."""
    for one in update.rounds(old, new):
        queues = {node: list(changes) for node, changes in one.changes.items()}
        while queues:
            node = rng.choice(sorted(queues))
            network.apply(node, [queues[node].pop(0)])
            if not queues[node]:
                del queues[node]
            yield one, not queues
    assert network.tables == new.tables
    assert network.groups == {node: groups_of(table.values()) for node, table in new.tables.items()}


class FakeNetwork:
    """Tables by switch (node number) over the links of a topology; links that are down lose packets."""

    def __init__(self, topology: Topology, entries_max: int = 1 << 30) -> None:
        self.topology, self.entries_max = topology, entries_max
        self.tables: dict[int, Table] = {node: {} for node in range(topology.host_count, topology.node_count)}
        self.groups: dict[int, Groups] = {node: {} for node in self.tables}
        self._found: dict[int, tuple[Table, dict[tuple[object, ...], list[Rule]]]] = {}
        self.head, self.tail = topology.arc_head.tolist(), topology.arc_tail.tolist()
        self.port_arc = {(int(topology.arc_tail[arc]), topology.arc_ports(arc)[0]): arc for arc in range(topology.arc_count)}

    def packet(self, src: str, dst: str, **more: int) -> dict[str, str | int]:
        """A packet from host to host."""
        ends = [self.topology.hosts[self.topology.node_index[name]] for name in (src, dst)]
        fields: dict[str, str | int] = {"eth_src": str(ends[0].mac), "eth_dst": str(ends[1].mac), "eth_type": 0x0800, "ipv4_src": str(ends[0].ipv4), "ipv4_dst": str(ends[1].ipv4)}
        return fields | {"ip_proto": 6, "ip_dscp": 0, "tcp_dst": 5000} | more

    def hold(self, tables: Mapping[int, Table]) -> None:
        """Switches hold these rules and the groups that they need."""
        self.tables = {node: dict(table) for node, table in tables.items()}
        self.groups = {node: groups_of(table.values()) for node, table in tables.items()}

    def apply(self, node: int, changes: list[Change]) -> None:
        """A switch executes changes. Raises `Refused` where its table is too small."""
        self._found.pop(node, None)
        apply(self.tables[node], self.groups[node], changes)
        if len(self.tables[node]) > self.entries_max:
            raise Refused(f"{self.topology.node_names[node]} has {len(self.tables[node])} entries of {self.entries_max}")

    def rule(self, node: int, packet: Packet) -> Rule | None:
        """The rule that takes a packet at a switch."""
        # By the fields in which most rules differ, because tests ask this millions of times.
        table, found = self._found.get(node, (None, {}))
        if table is not self.tables[node]:
            found = {}
            for rule in self.tables[node].values():
                found.setdefault((rule.match.vlan_vid, rule.match.eth_dst, rule.match.ipv4_dst), []).append(rule)
            self._found[node] = self.tables[node], found
        places = product(*({None, packet.get(name)} for name in ("vlan_vid", "eth_dst", "ipv4_dst")))
        taking = [rule for place in places for rule in found.get(place, ()) if rule.match.takes(packet)]
        if not taking:
            return None
        best = max(rule.priority for rule in taking)
        chosen = [rule for rule in taking if rule.priority == best]
        assert len(chosen) == 1, f"two rules of one priority take a packet: {chosen}"
        return chosen[0]

    def ways(self, src: str, packet: Packet) -> dict[tuple[int, ...], float]:
        """All paths (arcs) that a packet may travel from host ``src``, each to whichever host it reaches, with their shares. Raises `Lost` or `Loop`."""
        return self.ways_from(int(self.topology.host_uplink_arcs[self.topology.node_index[src]]), packet)

    def ways_from(self, first: int, packet: Packet, seen: set[tuple[int, int]] | None = None) -> dict[tuple[int, ...], float]:
        """The same from an arc on; ``seen`` gets the arcs on the way with the label (0: none) that the packet has there. With it the packet has
        waited before its first arc, may have to turn there, and then is dropped."""
        topology, up = self.topology, self.topology.arc_up
        going: list[tuple[tuple[int, ...], float, Packet, frozenset[object]]] = [((first,), 1.0, packet, frozenset())]
        found: dict[tuple[int, ...], float] = {}
        while going:
            arcs, share, packet, states = going.pop()
            arc = arcs[-1]
            if not up[arc]:
                raise Lost(f"{packet} on a link that is down: {topology.path_nodes(arcs)}")
            node = self.head[arc]
            if node < topology.host_count:
                if "vlan_vid" in packet:
                    raise Lost(f"{packet} arrives with a label: {topology.path_nodes(arcs)}")
                found[arcs] = found.get(arcs, 0.0) + share
                continue
            if seen is not None:
                seen.add((arc, int(packet.get("vlan_vid", 0))))
            if (node, packet.get("vlan_vid")) in states:
                raise Loop(f"{packet}: {topology.path_nodes(arcs)}")
            rule = self.rule(node, packet)
            if seen is not None and len(arcs) == 1 and rule is not None and not rule.weights and [self.port_arc.get((node, port)) for port in rule.ports] == [arc ^ 1]:
                continue
            states |= {(node, packet.get("vlan_vid"))}
            going += [((*arcs, self.port_arc[node, port]), share * part, relabelled(rule, packet), states) for port, part in self._out(rule, packet, arcs)]
        return found

    def _out(self, rule: Rule | None, packet: Packet, arcs: tuple[int, ...]) -> list[tuple[int, float]]:
        """Ports by which the switch at the end of a way may send a packet by a rule, with shares."""
        arc = arcs[-1]
        node = self.head[arc]
        ports = () if rule is None else rule.ports
        if rule is not None and rule.group is not None:
            assert self.groups[node][rule.group.number] == rule.group
            out = [(port, weight / sum(rule.weights)) for port, weight in zip(ports, rule.weights)]
        else:
            out = [(port, 1.0) for port in ports if self.port_arc.get((node, port)) != (arc ^ 1)]
        back = any(self.port_arc.get((node, port)) == (arc ^ 1) for port, _ in out)
        if back or not out or (rule is not None and not rule.weights and len(out) != 1) or any((node, port) not in self.port_arc for port, _ in out):
            raise Lost(f"{packet} at {self.topology.node_names[node]} with ports {ports}: {self.topology.path_nodes(arcs)}")
        return out

    def flood(self, src: str, packet: Packet) -> list[str]:
        """Hosts that a broadcast reaches, each as often as it is reached. Raises `Loop` when it circulates."""
        topology = self.topology
        start = int(topology.host_uplink_arcs[topology.node_index[src]])
        waiting, reached, steps = [start], [], 0
        while waiting:
            steps += 1
            if steps > 4 * topology.arc_count:
                raise Loop("a broadcast circulates")
            arc = waiting.pop()
            if not topology.arc_up[arc]:
                continue
            node = int(topology.arc_head[arc])
            if node < topology.host_count:
                reached.append(topology.node_names[node])
                continue
            rule = self.rule(node, packet)
            out = [self.port_arc[node, port] for port in (rule.ports if rule else ())]
            waiting += [step for step in out if step != arc ^ 1]
        return reached
