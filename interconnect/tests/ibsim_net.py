"""A topology as the simulator ibsim reads it."""

from __future__ import annotations

from ferrule_fabric.model.topology import Topology


def net_file(topology: Topology) -> str:
    ends: dict[str, list[tuple[int, str, int]]] = {name: [] for name in topology.node_names}
    for link in topology.links:
        a, b = int(link.a_port or 0), int(link.b_port or 0)
        ends[link.a].append((a, link.b, b))
        ends[link.b].append((b, link.a, a))
    text = ""
    for number, name in enumerate(topology.node_names):
        kind = "Hca" if number < topology.host_count else "Switch"
        text += f'{kind} {max(port for port, _, _ in ends[name])} "{name}"\n'
        text += "".join(f'[{port}] "{peer}"[{peer_port}]\n' for port, peer, peer_port in sorted(ends[name])) + "\n"
    return text
