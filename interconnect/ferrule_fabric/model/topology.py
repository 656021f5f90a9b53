"""A network of hosts and switches, joined by full-duplex links.

Invariants of a `Topology` (checked when it is made): names are unique among hosts and switches; a link joins two different, known nodes;
capacities are positive and finite; a port of a node carries one link. Parallel links between two nodes are allowed.

*Arcs* are the directed halves of links: arc ``2*i`` runs from ``links[i].a`` to ``links[i].b``, arc ``2*i + 1`` back. Their numbers, and those of
nodes (hosts first, then switches, in the order given), are what paths and arrays use; they don't change when links fail.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ferrule_fabric.errors import FabricError

NODES_MAX = 200_000
LINKS_MAX = 2_000_000
NAME_CHARS_MAX = 128

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Host:
    """A compute node. ``mac`` as ``02:00:00:00:00:01``, ``ipv4`` dotted: what flow rules match on; None where unknown."""

    name: str
    mac: str | None = None
    ipv4: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch. ``dpid`` is its OpenFlow datapath id; ``guid`` its InfiniBand node GUID; ``level`` its stage in a tree (0 is next to hosts)."""

    name: str
    dpid: int | None = None
    guid: int | None = None
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link. ``capacity_bps`` bits per second in each direction; ports are the numbers at each end; ``up`` False is a failed link."""

    a: str
    b: str
    capacity_bps: float
    a_port: int | None = None
    b_port: int | None = None
    up: bool = True


@dataclass(frozen=True, slots=True)
class Hop:
    """One switch on a path: in at ``in_port``, out at ``out_port`` (None where the topology has no port numbers)."""

    switch: str
    in_port: int | None
    out_port: int | None


@dataclass(frozen=True)
class Topology:
    """Hosts, switches and links; see the module's invariants. Raises `FabricError` that names the offending entry."""

    name: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    node_index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))
        object.__setattr__(self, "switches", tuple(self.switches))
        object.__setattr__(self, "links", tuple(self.links))
        object.__setattr__(self, "node_index", _node_index(self.hosts, self.switches))
        _check_links(self.links, self.node_index)

    @property
    def host_count(self) -> int:
        """Number of hosts; they are the nodes 0 .. host_count-1."""
        return len(self.hosts)

    @property
    def node_count(self) -> int:
        """Number of hosts and switches."""
        return len(self.hosts) + len(self.switches)

    @property
    def arc_count(self) -> int:
        """Number of arcs: twice the number of links, failed ones included."""
        return 2 * len(self.links)

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Names by node number."""
        return tuple(node.name for node in self.hosts) + tuple(node.name for node in self.switches)

    @cached_property
    def arc_tail(self) -> IntArray:
        """Node that each arc leaves, shape (arc_count,)."""
        return self._ends()[0]

    @cached_property
    def arc_head(self) -> IntArray:
        """Node that each arc enters, shape (arc_count,)."""
        return self._ends()[1]

    @cached_property
    def arc_capacity_bps(self) -> FloatArray:
        """Bits per second of each arc, shape (arc_count,); failed links keep theirs."""
        return np.repeat(np.array([link.capacity_bps for link in self.links], dtype=np.float64), 2)

    @cached_property
    def arc_up(self) -> BoolArray:
        """Whether each arc works, shape (arc_count,)."""
        return np.repeat(np.array([link.up for link in self.links], dtype=np.bool_), 2)

    @cached_property
    def arc_between_switches(self) -> BoolArray:
        """Whether both ends of each arc are switches (the arcs that routing can choose), shape (arc_count,)."""
        hosts = self.host_count
        return (self.arc_tail >= hosts) & (self.arc_head >= hosts)

    @cached_property
    def host_uplink_arcs(self) -> IntArray:
        """Arc from each host to its switch, shape (host_count,); -1 where every link of the host has failed.

        Of several working links the first counts: a host speaks through one port.
        """
        uplink = np.full(self.host_count, -1, dtype=np.int64)
        usable = np.flatnonzero(self.arc_up & (self.arc_tail < self.host_count))
        for arc in usable[::-1]:
            uplink[self.arc_tail[arc]] = arc
        return uplink

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of nodes and links without their state: equal digests have equal arc numbers."""
        text = hashlib.sha256()
        for name in self.node_names:
            text.update(f"n{name}\n".encode())
        for link in self.links:
            text.update(f"l{link.a}\t{link.b}\t{link.capacity_bps!r}\t{link.a_port}\t{link.b_port}\n".encode())
        text.update(f"{self.host_count}".encode())
        return text.hexdigest()

    def with_failed(self, failed: Iterable[int]) -> Topology:
        """The same topology with the links of these numbers down (and no other changed)."""
        down = set(failed)
        for number in down:
            if not 0 <= number < len(self.links):
                raise FabricError("failed links", f"there is no link {number}; the topology has {len(self.links)}")
        return replace(self, links=tuple(replace(link, up=False) if i in down else link for i, link in enumerate(self.links)))

    def with_restored(self, restored: Iterable[int]) -> Topology:
        """The same topology with the links of these numbers up."""
        back = set(restored)
        return replace(self, links=tuple(replace(link, up=True) if i in back else link for i, link in enumerate(self.links)))

    def link_between(self, a: str, b: str) -> int:
        """Number of the first link between two nodes. Raises `FabricError` when there is none."""
        for number, link in enumerate(self.links):
            if {link.a, link.b} == {a, b}:
                return number
        raise FabricError("link", f"no link joins {a!r} and {b!r}")

    def arc_ports(self, arc: int) -> tuple[int | None, int | None]:
        """(port at the arc's tail, port at its head)."""
        link = self.links[arc // 2]
        return (link.a_port, link.b_port) if arc % 2 == 0 else (link.b_port, link.a_port)

    def path_nodes(self, arcs: Sequence[int]) -> tuple[str, ...]:
        """Names of the nodes that consecutive arcs visit. Raises `FabricError` when they aren't consecutive or don't exist."""
        if not arcs:
            return ()
        for i, arc in enumerate(arcs):
            if not 0 <= arc < self.arc_count:
                raise FabricError(f"path.arcs[{i}]", f"there is no arc {arc}")
            if i and self.arc_tail[arc] != self.arc_head[arcs[i - 1]]:
                raise FabricError(f"path.arcs[{i}]", f"arc {arc} leaves {self._name(self.arc_tail[arc])}, but the arc before it enters {self._name(self.arc_head[arcs[i - 1]])}")
        return (self._name(self.arc_tail[arcs[0]]), *(self._name(self.arc_head[arc]) for arc in arcs))

    def path_hops(self, arcs: Sequence[int]) -> tuple[Hop, ...]:
        """The switches of a host-to-host path with the ports used in each: one flow rule per hop."""
        nodes = self.path_nodes(arcs)
        return tuple(Hop(nodes[i + 1], self.arc_ports(arcs[i])[1], self.arc_ports(arcs[i + 1])[0]) for i in range(len(arcs) - 1))

    def _name(self, node: int) -> str:
        return self.node_names[int(node)]

    @cached_property
    def _ends_cache(self) -> tuple[IntArray, IntArray]:
        a = np.array([self.node_index[link.a] for link in self.links], dtype=np.int64)
        b = np.array([self.node_index[link.b] for link in self.links], dtype=np.int64)
        tail = np.empty(2 * len(self.links), dtype=np.int64)
        head = np.empty_like(tail)
        tail[0::2], tail[1::2] = a, b
        head[0::2], head[1::2] = b, a
        return tail, head

    def _ends(self) -> tuple[IntArray, IntArray]:
        return self._ends_cache


def _node_index(hosts: Sequence[Host], switches: Sequence[Switch]) -> dict[str, int]:
    if len(hosts) + len(switches) > NODES_MAX:
        raise FabricError("topology", f"{len(hosts) + len(switches)} nodes; at most {NODES_MAX} are allowed")
    index: dict[str, int] = {}
    named = (("hosts", [host.name for host in hosts]), ("switches", [switch.name for switch in switches]))
    for kind, names in named:
        for i, name in enumerate(names):
            where = f"topology.{kind}[{i}].name"
            if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
                raise FabricError(where, f"must be 1 to {NAME_CHARS_MAX} printable characters, not {name[:40]!r}")
            if name in index:
                raise FabricError(where, f"{name!r} is used twice")
            index[name] = len(index)
    return index


def _check_links(links: Sequence[Link], node_index: dict[str, int]) -> None:
    if len(links) > LINKS_MAX:
        raise FabricError("topology.links", f"{len(links)} links; at most {LINKS_MAX} are allowed")
    used: dict[tuple[str, int], int] = {}
    for i, link in enumerate(links):
        where = f"topology.links[{i}]"
        for end, name in (("a", link.a), ("b", link.b)):
            if name not in node_index:
                raise FabricError(f"{where}.{end}", f"{name!r} is neither a host nor a switch")
        if link.a == link.b:
            raise FabricError(where, f"joins {link.a!r} to itself")
        if not (math.isfinite(link.capacity_bps) and link.capacity_bps > 0):
            raise FabricError(f"{where}.capacity_bps", f"must be positive and finite, not {link.capacity_bps}")
        for end, node, port in (("a_port", link.a, link.a_port), ("b_port", link.b, link.b_port)):
            if port is None:
                continue
            if not 0 < port < 2**32:
                raise FabricError(f"{where}.{end}", f"must be between 1 and 2^32-1, not {port}")
            if (node, port) in used:
                raise FabricError(f"{where}.{end}", f"port {port} of {node!r} already carries links[{used[node, port]}]")
            used[node, port] = i
