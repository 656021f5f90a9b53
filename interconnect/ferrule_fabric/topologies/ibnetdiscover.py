"""Reader of what InfiniBand's ``ibnetdiscover`` prints (infiniband-diags).

A node's block opens with a line such as ``Switch 36 "S-0002c9..." # "name" ... lid 3`` or ``Ca 2 "H-0002c9..." # "host HCA-1"``, and each of its ports is
a line ``[port] "S-..."[peer port](guid) # "peer name" lid 4 4xQDR``. Every link occurs at both ends; one is kept. The rate of a link comes
from its width and speed words, as data rate without line coding.
"""

from __future__ import annotations

import re
from collections import Counter

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Host, Link, Switch, Topology

# Data rate of one lane in bits per second: SDR, DDR and QDR after 8b/10b, the others after 64b/66b (InfiniBand Architecture Specification, vol. 2).
LANE_BPS = {"SDR": 2e9, "DDR": 4e9, "QDR": 8e9, "FDR10": 10e9, "FDR": 13.64e9, "EDR": 25e9, "HDR": 50e9, "NDR": 100e9, "XDR": 200e9}
LINES_MAX = 5_000_000

_NODE = re.compile(r'^(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s*(?:#\s*"([^"]*)")?')
_PORT = re.compile(r'^\[(\d+)\](?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\]')
_RATE = re.compile(r"(\d+)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")


def from_ibnetdiscover(text: str, name: str = "ibnetdiscover") -> Topology:
    """The topology of a listing. Hosts are channel adapters, named by the first word of their description; switches keep their GUIDs.

    Raises `FabricError` with the line for what isn't understood, for links to unknown nodes and for ends that contradict each other.
    """
    kinds: dict[str, str] = {}
    described: dict[str, str] = {}
    ends: dict[tuple[str, int], tuple[str, int, float, int]] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if number > LINES_MAX:
            raise FabricError(f"{name}:{number}", f"more than {LINES_MAX} lines")
        if node := _NODE.match(line):
            current = node[3]
            if current in kinds:
                raise FabricError(f"{name}:{number}", f"{current!r} occurs twice")
            kinds[current], described[current] = node[1], node[4] or ""
        elif port := _PORT.match(line):
            if not current:
                raise FabricError(f"{name}:{number}", "a port before the first node")
            if (current, int(port[1])) in ends:
                raise FabricError(f"{name}:{number}", f"port {port[1]} of {current!r} occurs twice")
            ends[current, int(port[1])] = (port[2], int(port[3]), _rate_bps(line), number)
        elif line.startswith("["):
            raise FabricError(f"{name}:{number}", f"not a port line: {line[:80]!r}")
    if not kinds:
        raise FabricError(name, "no node found: this isn't the output of ibnetdiscover")
    names = _names(kinds, described)
    hosts = tuple(Host(names[node]) for node, kind in kinds.items() if kind == "Ca")
    switches = tuple(Switch(names[node], None, _guid(node)) for node, kind in kinds.items() if kind != "Ca")
    return Topology(name, hosts, switches, tuple(_links(name, ends, names)))


def _links(name: str, ends: dict[tuple[str, int], tuple[str, int, float, int]], names: dict[str, str]) -> list[Link]:
    links = []
    for (node, port), (peer, peer_port, rate_bps, line) in ends.items():
        if peer not in names:
            raise FabricError(f"{name}:{line}", f"{peer!r} has no block of its own")
        back = ends.get((peer, peer_port))
        if back is not None and back[:2] != (node, port):
            raise FabricError(f"{name}:{line}", f"says that port {port} of {node!r} leads to port {peer_port} of {peer!r}, but that one leads to port {back[1]} of {back[0]!r}")
        if back is None or (node, port) < (peer, peer_port):
            links.append(Link(names[node], names[peer], rate_bps, port, peer_port))
    return links


def _names(kinds: dict[str, str], described: dict[str, str]) -> dict[str, str]:
    """Names by node id: a host's is the first word of its description if unique, a switch's its description or id."""
    wanted = {node: (described[node].split()[0] if kind == "Ca" and described[node].split() else described[node]) or node for node, kind in kinds.items()}
    times = Counter(wanted.values())
    return {node: text if times[text] == 1 else node for node, text in wanted.items()}


def _rate_bps(line: str) -> float:
    found = _RATE.search(line)
    return int(found[1]) * LANE_BPS[found[2]] if found else 4 * LANE_BPS["SDR"]


def _guid(node: str) -> int | None:
    digits = node.partition("-")[2]
    return int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]{1,16}", digits) else None
