"""Whether InfiniBand's forwarding tables can deadlock, virtual lane by virtual lane, and which layers keep them from it.

Credits are given per virtual lane, so lanes don't hold each other up: each has a graph of channels of its own (`routing.deadlock`). Of the packets, those
between hosts count, from every switch with hosts to every LID of a host, whatever pairs a job has: anybody may address any LID. Packets of the subnet
management (VL 15) need no credits. Arcs between hosts and switches are left out, since nothing leads to the first or on from the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.routing.deadlock import cycle_of, layered

Ports = Mapping[int, Mapping[int, int]]
"""Output port by switch (node number) and LID."""
From = tuple[int, int]
"""Switch (node number) where packets enter, and the LID that they are for."""


@dataclass(frozen=True)
class Layers:
    """``count`` layers; ``of`` has the layer of packets that enter at a switch for a LID, where it isn't 0."""

    count: int
    of: Mapping[From, int]


def ways(topology: Topology, ports: Ports, lids: Iterable[int]) -> dict[From, tuple[int, ...]]:
    """The arcs between switches that packets for these LIDs of hosts take, by where they enter. Raises `FabricError` for a loop or a way that ends."""
    arc_of = {(int(topology.arc_tail[arc]), topology.arc_ports(arc)[0]): arc for arc in range(topology.arc_count)}
    head, between = topology.arc_head.tolist(), topology.arc_between_switches.tolist()
    entries = sorted({head[arc] for arc in topology.host_uplink_arcs.tolist() if arc >= 0})
    found: dict[From, tuple[int, ...]] = {}
    for lid in lids:
        for entry in entries:
            arcs: list[int] = []
            node = entry
            while True:
                arc = arc_of.get((node, ports.get(node, {}).get(lid, 0)))
                if arc is None or len(arcs) > topology.node_count:
                    what = "go round in a loop" if arc is not None else f"end at {topology.node_names[node]}, which has no port for it"
                    raise FabricError(f"LID {lid}", f"packets from {topology.node_names[entry]} {what}")
                if not between[arc]:
                    break
                arcs.append(arc)
                node = head[arc]
            found[entry, lid] = tuple(arcs)
    return found


def cycle_in(found: Mapping[From, tuple[int, ...]], layers: Layers) -> tuple[int, tuple[int, ...]] | None:
    """A layer with a cycle in its graph of channels, and the cycle's arcs; None if there is none."""
    graphs: list[dict[int, set[int]]] = [{} for _ in range(layers.count)]
    for place, arcs in found.items():
        graph = graphs[layers.of.get(place, 0)]
        for one, other in zip(arcs, arcs[1:]):
            graph.setdefault(one, set()).add(other)
    return next(((layer, arcs) for layer, arcs in enumerate(map(cycle_of, graphs)) if arcs), None)


def layers_of(found: Mapping[From, tuple[int, ...]], layers_max: int) -> Layers:
    """As few layers as the first fit finds; one if the tables can't deadlock at all. Raises `FabricError` if ``layers_max`` aren't enough."""
    single = Layers(1, {})
    if cycle_in(found, single) is None:
        return single
    # Packets that take the same way share its layer.
    distinct = list(dict.fromkeys(found.values()))
    layer_of = dict(zip(distinct, layered(([arcs] for arcs in distinct), layers_max)))
    of = {place: layer_of[arcs] for place, arcs in found.items() if layer_of[arcs]}
    return Layers(1 + max(layer_of.values()), of)


def told(topology: Topology, arcs: Iterable[int]) -> str:
    """A cycle as people read it: the switches that it goes through."""
    names = [topology.node_names[int(topology.arc_tail[arc])] for arc in arcs]
    return " -> ".join([*names, *names[:1]])
