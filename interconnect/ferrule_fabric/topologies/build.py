"""Assembles a `Topology` from bare adjacency: names, addresses and port numbers in a fixed scheme.

Hosts are ``h1`` .. with MAC ``02:00:..`` and IPv4 ``10.x.y.z`` from their number; switches have datapath ids 1 .. in order; ports of a node
are numbered from 1 in the order in which its links are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import NODES_MAX, Host, Link, Switch, Topology


def host_name(number: int) -> str:
    """Name of the host of this number (from 0)."""
    return f"h{number + 1}"


def host_of(number: int) -> Host:
    """Host with an address from its number (from 0). Numbers reach 2^24 - 2."""
    n = number + 1
    return Host(host_name(number), f"02:00:00:{n >> 16 & 255:02x}:{n >> 8 & 255:02x}:{n & 255:02x}", f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}")


def assemble(name: str, host_count: int, switches: Sequence[tuple[str, int | None]], edges: Sequence[tuple[str, str, float]]) -> Topology:
    """A topology of ``host_count`` hosts, switches as (name, level), and edges as (node, node, capacity in bits per second)."""
    check_size(name, host_count + len(switches))
    ports: dict[str, int] = {}
    links = []
    for a, b, capacity_bps in edges:
        ports[a] = ports.get(a, 0) + 1
        ports[b] = ports.get(b, 0) + 1
        links.append(Link(a, b, capacity_bps, ports[a], ports[b]))
    nodes = tuple(Switch(switch, dpid, None, level) for dpid, (switch, level) in enumerate(switches, 1))
    return Topology(name, tuple(host_of(number) for number in range(host_count)), nodes, tuple(links))


def check_size(name: str, nodes: int) -> None:
    """Refuses a generator's parameters before it allocates what they ask for."""
    if nodes > NODES_MAX:
        raise FabricError(name, f"would have {nodes} nodes; at most {NODES_MAX} are allowed")


def check_positive(name: str, **values: int | float) -> None:
    """Refuses parameters that aren't positive."""
    for parameter, value in values.items():
        if not value > 0:
            raise FabricError(f"{name}.{parameter}", f"must be positive, not {value}")
