"""A topology as the simulator ibsim reads it, and as ibnetdiscover lists it."""

from __future__ import annotations

from ferrule_fabric.model.topology import Topology


def _ends(topology: Topology) -> dict[str, list[tuple[int, str, int]]]:
    ends: dict[str, list[tuple[int, str, int]]] = {name: [] for name in topology.node_names}
    for link in topology.links:
        a, b = int(link.a_port or 0), int(link.b_port or 0)
        ends[link.a].append((a, link.b, b))
        ends[link.b].append((b, link.a, a))
    return ends


def net_file(topology: Topology) -> str:
    """What ibsim reads."""
    ends = _ends(topology)
    text = ""
    for number, name in enumerate(topology.node_names):
        kind = "Hca" if number < topology.host_count else "Switch"
        text += f'{kind} {max(port for port, _, _ in ends[name])} "{name}"\n'
        text += "".join(f'[{port}] "{peer}"[{peer_port}]\n' for port, peer, peer_port in sorted(ends[name])) + "\n"
    return text


def listing_of(topology: Topology, lmc: int) -> str:
    """What ibnetdiscover prints when the subnet manager has given out LIDs."""
    ends = _ends(topology)
    first = 1 << lmc
    lid = {name: first * (number + 1) for number, name in enumerate(topology.node_names)}
    ident = {name: f"{'H' if number < topology.host_count else 'S'}-{0x1000 + number:016x}" for number, name in enumerate(topology.node_names)}
    text = ""
    for number, name in enumerate(topology.node_names):
        count = max(port for port, _, _ in ends[name])
        is_switch = number >= topology.host_count
        text += f'{"Switch" if is_switch else "Ca"}\t{count} "{ident[name]}"\t\t# "{name}"' + (f" enhanced port 0 lid {lid[name]} lmc 0\n" if is_switch else "\n")
        for port, peer, peer_port in sorted(ends[name]):
            own = "" if is_switch else f"lid {lid[name]} lmc {lmc} "
            text += f'[{port}]{"" if is_switch else "(1001)"} \t"{ident[peer]}"[{peer_port}]\t\t# {own}"{peer}" lid {lid[peer]} 4xSDR\n'
        text += "\n"
    return text
