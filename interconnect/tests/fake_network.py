"""A network that executes flow rules: says where a packet goes, given the tables of all switches."""

from __future__ import annotations

from collections.abc import Mapping

from ferrule_fabric.model.topology import Topology
from ferrule_fabric.openflow.rules import Table


class Lost(Exception):
    """No rule takes the packet, or its port leads nowhere."""


class Loop(Exception):
    """The packet comes back to a switch in the state it had there."""


class FakeNetwork:
    """Tables by switch (node number) over the links of a topology; links that are down lose packets."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.tables: dict[int, Table] = {node: {} for node in range(topology.host_count, topology.node_count)}
        self.port_arc = {(int(topology.arc_tail[arc]), topology.arc_ports(arc)[0]): arc for arc in range(topology.arc_count)}

    def packet(self, src: str, dst: str, **more: int) -> dict[str, str | int]:
        """A packet from host to host."""
        ends = [self.topology.hosts[self.topology.node_index[name]] for name in (src, dst)]
        fields: dict[str, str | int] = {"eth_src": str(ends[0].mac), "eth_dst": str(ends[1].mac), "eth_type": 0x0800, "ipv4_src": str(ends[0].ipv4), "ipv4_dst": str(ends[1].ipv4)}
        return fields | {"ip_proto": 6, "ip_dscp": 0, "tcp_dst": 5000} | more

    def ports(self, node: int, packet: Mapping[str, str | int]) -> tuple[int, ...]:
        """Where a switch sends a packet."""
        taking = [rule for rule in self.tables[node].values() if rule.match.takes(packet)]
        if not taking:
            return ()
        best = max(rule.priority for rule in taking)
        chosen = [rule for rule in taking if rule.priority == best]
        assert len(chosen) == 1, f"two rules of one priority take a packet: {chosen}"
        return chosen[0].ports

    def send(self, src: str, packet: Mapping[str, str | int]) -> tuple[int, ...]:
        """Arcs that a packet travels from host ``src`` to whichever host it reaches. Raises `Lost` or `Loop`."""
        topology = self.topology
        arc = int(topology.host_uplink_arcs[topology.node_index[src]])
        arcs, seen = [arc], set()
        while True:
            if not topology.arc_up[arc]:
                raise Lost(f"{packet} on a link that is down: {topology.path_nodes(arcs)}")
            node = int(topology.arc_head[arc])
            if node < topology.host_count:
                return tuple(arcs)
            if node in seen:
                raise Loop(f"{packet}: {topology.path_nodes(arcs)}")
            seen.add(node)
            ports = [port for port in self.ports(node, packet) if self.port_arc.get((node, port)) != (arc ^ 1)]
            if len(ports) != 1 or (node, ports[0]) not in self.port_arc:
                raise Lost(f"{packet} at {topology.node_names[node]} with ports {ports}: {topology.path_nodes(arcs)}")
            arc = self.port_arc[node, ports[0]]
            arcs.append(arc)

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
            out = [self.port_arc[node, port] for port in self.ports(node, packet)]
            waiting += [step for step in out if step != arc ^ 1]
        return reached
