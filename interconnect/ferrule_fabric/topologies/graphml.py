"""GraphML, the format of the paper's simulator PFSim, in and out.

Read: any GraphML graph. A node is a host if its ``type``/``kind``/``role`` attribute says ``host``, ``node``, ``terminal``, ``server`` or ``compute``; a
switch if it says ``switch`` or ``router``; else a host if its name begins with ``h``/``n``/``node``/``host`` followed by a number, or, where no node
is told by attribute or name, if it has one neighbor. An edge's ``capacity`` (or ``bandwidth``, ``capacity_bps``, ``weight``) is its bits per second, default 1e9.
Of a directed graph, opposite edges of equal capacity make one link.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import Any

import networkx

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Host, Link, Switch, Topology

BYTES_MAX = 256 << 20
CAPACITY_KEYS = ("capacity_bps", "capacity", "bandwidth", "weight")
HOST_WORDS = frozenset(("host", "node", "terminal", "server", "compute"))
SWITCH_WORDS = frozenset(("switch", "router"))
DEFAULT_BPS = 1e9


def from_graphml(text: str | bytes, name: str = "graphml") -> Topology:
    """The topology of a GraphML document. Raises `FabricError` (document type declarations are refused: entities could grow without limit)."""
    data = text.encode() if isinstance(text, str) else text
    if len(data) > BYTES_MAX:
        raise FabricError(name, f"{len(data)} bytes; at most {BYTES_MAX} are read")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise FabricError(name, "document type declarations are not allowed")
    try:
        graph = networkx.read_graphml(io.BytesIO(data), force_multigraph=True)
    except Exception as error:  # the reader lets errors of the XML parser and of attribute conversion through, of many types
        raise FabricError(name, f"not GraphML: {error}") from None
    is_host = _host_test(graph, name)
    hosts = tuple(Host(str(node), _text(data, "mac"), _text(data, "ipv4")) for node, data in graph.nodes(data=True) if is_host(node))
    switches = tuple(
        Switch(str(node), _number(data, "dpid", f"{name}: node {node}"), None, _number(data, "level", f"{name}: node {node}")) for node, data in graph.nodes(data=True) if not is_host(node)
    )
    return Topology(name, hosts, switches, tuple(_links(graph, name)))


def to_graphml(topology: Topology) -> str:
    """The topology as GraphML, with every attribute that `from_graphml` reads."""
    graph = networkx.MultiGraph(name=topology.name)
    for host in topology.hosts:
        graph.add_node(host.name, **_given(type="host", mac=host.mac, ipv4=host.ipv4))
    for switch in topology.switches:
        graph.add_node(switch.name, **_given(type="switch", dpid=None if switch.dpid is None else str(switch.dpid), level=switch.level))
    for link in topology.links:
        graph.add_edge(link.a, link.b, **_given(capacity=link.capacity_bps, a=link.a, a_port=link.a_port, b_port=link.b_port, up=None if link.up else False))
    return "\n".join(networkx.generate_graphml(graph, named_key_ids=True)) + "\n"


def _host_test(graph: Any, name: str) -> Callable[[Any], bool]:
    told: dict[Any, bool] = {}
    for node, data in graph.nodes(data=True):
        word = next((str(data[key]).lower() for key in ("type", "kind", "role") if key in data), "")
        if word in HOST_WORDS or word in SWITCH_WORDS:
            told[node] = word in HOST_WORDS
        elif re.fullmatch(r"(h|n|node|host)[-_]?\d+", str(node), re.IGNORECASE):
            told[node] = True
    if any(told.values()):
        return lambda node: told.get(node, False)
    single = {node for node in graph if len(set(graph.successors(node) if graph.is_directed() else graph.neighbors(node))) == 1 and told.get(node) is not False}
    if not single:
        raise FabricError(name, "no node is a host: none has type=\"host\", a name like h1, or a single neighbor")
    return lambda node: node in single


def _links(graph: Any, name: str) -> list[Link]:
    links = []
    waiting: dict[tuple[str, str, float], int] = {}
    for i, (a, b, data) in enumerate(graph.edges(data=True)):
        where = f"{name}: edge {i} ({a} -- {b})"
        if data.get("a") == b and not graph.is_directed():
            a, b = b, a
        capacity_bps = _capacity(data, where)
        if graph.is_directed() and waiting.get((str(b), str(a), capacity_bps), 0):
            waiting[str(b), str(a), capacity_bps] -= 1
            continue
        waiting[str(a), str(b), capacity_bps] = waiting.get((str(a), str(b), capacity_bps), 0) + 1
        links.append(Link(str(a), str(b), capacity_bps, _number(data, "a_port", where), _number(data, "b_port", where), bool(data.get("up", True))))
    return links


def _capacity(data: dict[str, Any], where: str) -> float:
    for key in CAPACITY_KEYS:
        if key in data:
            try:
                value = float(data[key])
            except ValueError:
                value = math.nan
            if not (math.isfinite(value) and value > 0):
                raise FabricError(where, f"{key} must be a positive number, not {data[key]!r}")
            return value
    return DEFAULT_BPS


def _number(data: dict[str, Any], key: str, where: str) -> int | None:
    if key not in data:
        return None
    try:
        return int(data[key])
    except ValueError:
        raise FabricError(where, f"{key} must be a whole number, not {data[key]!r}") from None


def _text(data: dict[str, Any], key: str) -> str | None:
    return str(data[key]) if key in data else None


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
