"""A network that executes flow rules and groups: says where a packet goes, or may go, given the tables of all switches."""

from __future__ import annotations

from collections.abc import Mapping

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.rules import Change, Groups, Rule, Table, apply, groups_of


class Lost(Exception):
    """No rule takes the packet, or its port leads nowhere."""


class Loop(Exception):
    """The packet comes back to a switch in the state it had there."""


class FakeNetwork:
    """Tables by switch (node number) over the links of a topology; links that are down lose packets."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.tables: dict[int, Table] = {node: {} for node in range(topology.host_count, topology.node_count)}
        self.groups: dict[int, Groups] = {node: {} for node in self.tables}
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
        """A switch executes changes."""
        apply(self.tables[node], self.groups[node], changes)

    def rule(self, node: int, packet: Mapping[str, str | int]) -> Rule | None:
        """The rule that takes a packet at a switch."""
        # Most rules are for another destination: said first, because tests ask this millions of times.
        ends = (None, packet["eth_dst"], packet.get("ipv4_dst"))
        taking = [rule for (_, match), rule in self.tables[node].items() if match.eth_dst in ends and match.ipv4_dst in ends and match.takes(packet)]
        if not taking:
            return None
        best = max(rule.priority for rule in taking)
        chosen = [rule for rule in taking if rule.priority == best]
        assert len(chosen) == 1, f"two rules of one priority take a packet: {chosen}"
        return chosen[0]

    def ways(self, src: str, packet: Mapping[str, str | int]) -> dict[tuple[int, ...], float]:
        """All paths (arcs) that a packet may travel from host ``src``, each to whichever host it reaches, with their shares. Raises `Lost` or `Loop`."""
        topology, up = self.topology, self.topology.arc_up
        first = int(topology.host_uplink_arcs[topology.node_index[src]])
        going: list[tuple[tuple[int, ...], float]] = [((first,), 1.0)]
        found: dict[tuple[int, ...], float] = {}
        while going:
            arcs, share = going.pop()
            arc = arcs[-1]
            if not up[arc]:
                raise Lost(f"{packet} on a link that is down: {topology.path_nodes(arcs)}")
            node = self.head[arc]
            if node < topology.host_count:
                found[arcs] = found.get(arcs, 0.0) + share
                continue
            if any(self.tail[before] == node for before in arcs):
                raise Loop(f"{packet}: {topology.path_nodes(arcs)}")
            for port, part in self._out(node, packet, arc, arcs):
                going.append(((*arcs, self.port_arc[node, port]), share * part))
        return found

    def _out(self, node: int, packet: Mapping[str, str | int], arc: int, arcs: tuple[int, ...]) -> list[tuple[int, float]]:
        """Ports by which a switch may send a packet that came by an arc, with shares."""
        rule = self.rule(node, packet)
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

    def flood(self, src: str, packet: Mapping[str, str | int]) -> list[str]:
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
