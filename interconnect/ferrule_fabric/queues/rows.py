"""From the rows of an OVSDB server to the transaction that gives ports the queues that they are to have (ovs-vswitchd.conf.db(5)). Pure.

Ports of equal capacity share one row of QoS, with one row of Queue per class. Rows of ours carry what they are for in ``external_ids``; rows of others, and ports
with QoS of others, are never touched. The whole change is one transaction, which fails if somebody else changes the QoS of a port meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.topology import Topology
from ferrule_fabric.queues.classes import OTHERS, QUEUES

DATABASE = "Open_vSwitch"
MARK = "ferrule-fabric"
KIND = "linux-htb"
Row = Mapping[str, Any]
Operation = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """``operations`` to do, none if all is as it should be; ``ports`` that have queues then; ``foreign``: ports with QoS of somebody else."""

    operations: tuple[Operation, ...]
    ports: int
    foreign: tuple[str, ...]
    bridges: frozenset[int]
    """Datapath ids of the fabric's bridges that this server has."""


def capacities(topology: Topology) -> dict[tuple[int, int], int]:
    """Bits per second of each port of a switch, by datapath id and port number."""
    dpid = {switch.name: switch.dpid for switch in topology.switches}
    ends = [(name, port, link.capacity_bps) for link in topology.links for name, port in ((link.a, link.a_port), (link.b, link.b_port))]
    return {(int(dpid[name] or 0), port): int(capacity) for name, port, capacity in ends if dpid.get(name) is not None and port is not None}


def selection() -> list[Operation]:
    """The requests whose answers `change` takes."""
    columns = {
        "Bridge": ["_uuid", "name", "datapath_id", "ports"],
        "Port": ["_uuid", "name", "interfaces", "qos"],
        "Interface": ["_uuid", "ofport"],
        "QoS": ["_uuid", "type", "other_config", "queues", "external_ids"],
        "Queue": ["_uuid", "other_config", "external_ids"],
    }
    return [{"op": "select", "table": table, "where": [], "columns": names} for table, names in columns.items()]


def change(selected: Sequence[Sequence[Row]], wanted: Mapping[tuple[int, int], int], classes: Iterable[str]) -> Change:
    """What is to be done so that the ports in ``wanted`` (`capacities`) have a queue for each of these classes; with no class they get none.

    Raises `FabricError` if the rows aren't those of `selection`.
    """
    try:
        return _Work(selected, wanted, sorted(classes, key=list(QUEUES).index)).change()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FabricError("OVSDB", f"rows that aren't as Open vSwitch's schema says: {type(error).__name__} {error}") from None


def _all(value: Any) -> list[Any]:
    """The elements of an OVSDB set (RFC 7047, 5.1): one is written without its set."""
    return list(value[1]) if isinstance(value, list) and value[0] == "set" else [value]


def _map(value: Any) -> dict[Any, Any]:
    return dict(value[1])


def _ident(value: Any) -> str:
    """The text of a UUID."""
    kind, text = value
    if kind != "uuid":
        raise ValueError(f"{value!r} is no UUID")
    return str(text)


def _written(values: Mapping[Any, Any]) -> list[Any]:
    return ["map", [[key, value] for key, value in values.items()]]


class _Work:
    """One computation of `change`."""

    def __init__(self, selected: Sequence[Sequence[Row]], wanted: Mapping[tuple[int, int], int], classes: list[str]) -> None:
        self.bridges, self.ports, interfaces, qos, queues = selected
        self.wanted, self.classes = wanted, classes
        self.number_of = {_ident(row["_uuid"]): (_all(row["ofport"]) or [0])[0] for row in interfaces}
        self.qos = {_ident(row["_uuid"]): row for row in qos if MARK in _map(row["external_ids"])}
        self.queues = {_ident(row["_uuid"]): row for row in queues if MARK in _map(row["external_ids"])}
        self.operations: list[Operation] = []
        self.kept: set[str] = set()
        self.made: dict[int, Any] = {}

    def change(self) -> Change:
        port_row = {_ident(row["_uuid"]): row for row in self.ports}
        foreign, present, count = [], set(), 0
        for bridge in self.bridges:
            datapath = _all(bridge["datapath_id"])
            dpid = int(datapath[0], 16) if datapath else None
            for place in _all(bridge["ports"]):
                row = port_row[_ident(place)]
                numbers = [self.number_of[_ident(interface)] for interface in _all(row["interfaces"])]
                rate = next((self.wanted[dpid, number] for number in numbers if dpid is not None and (dpid, number) in self.wanted), None)
                held = [_ident(one) for one in _all(row["qos"])]
                if rate is not None and dpid is not None:
                    present.add(dpid)
                ours = all(one in self.qos for one in held)
                if rate is not None and self.classes and not ours:
                    foreign.append(f"{bridge['name']} {row['name']}")
                elif rate is not None and self.classes:
                    count += 1
                    self._give(row, held, self._qos_of(rate))
                elif held and ours:
                    self._give(row, held, None)
        gone = [("QoS", one) for one in self.qos if one not in self.kept] + [("Queue", one) for one in self.queues if one not in self.kept]
        self.operations += [{"op": "delete", "table": table, "where": [["_uuid", "==", ["uuid", one]]]} for table, one in gone]
        return Change(tuple(self.operations), count, tuple(foreign), frozenset(present))

    def _give(self, port: Row, held: list[str], qos: Any) -> None:
        """The port gets this row of QoS, or none."""
        if qos is not None and held and qos == ["uuid", held[0]]:
            return
        where = [["_uuid", "==", port["_uuid"]]]
        self.operations.append({"op": "wait", "timeout": 0, "table": "Port", "where": where, "columns": ["qos"], "until": "==", "rows": [{"qos": port["qos"]}]})
        self.operations.append({"op": "update", "table": "Port", "where": where, "row": {"qos": ["set", []] if qos is None else qos}})

    def _qos_of(self, rate: int) -> Any:
        """The row for ports of this rate: one that is there, or a new one."""
        if rate not in self.made:
            self.made[rate] = next((["uuid", one] for one in sorted(self.qos) if self._is_right(one, rate)), None) or self._insert(rate)
        return self.made[rate]

    def _queue(self, name: str, rate: int) -> dict[str, str]:
        """What a row of Queue says."""
        queue = QUEUES[name]
        return {"min-rate": str(max(1, rate * queue.part // 1000)), "max-rate": str(rate), "priority": str(queue.priority)}

    def _is_right(self, one: str, rate: int) -> bool:
        row = self.qos[one]
        if row["type"] != KIND or _map(row["other_config"]) != {"max-rate": str(rate)}:
            return False
        held = {int(number): _ident(queue) for number, queue in row["queues"][1]}
        wanted = {QUEUES[name].number: self._queue(name, rate) for name in (OTHERS, *self.classes)}
        if {number: _map(self.queues[queue]["other_config"]) for number, queue in held.items() if queue in self.queues} != wanted or len(held) != len(wanted):
            return False
        self.kept |= {one, *held.values()}
        return True

    def _insert(self, rate: int) -> Any:
        queues = []
        for name in (OTHERS, *self.classes):
            label = f"queue_{rate}_{name}"
            content = {"other_config": _written(self._queue(name, rate)), "external_ids": _written({MARK: name})}
            self.operations.append({"op": "insert", "table": "Queue", "row": content, "uuid-name": label})
            queues.append([QUEUES[name].number, ["named-uuid", label]])
        row: dict[str, Any] = {"type": KIND, "other_config": _written({"max-rate": str(rate)}), "queues": ["map", queues], "external_ids": _written({MARK: ",".join(self.classes)})}
        self.operations.append({"op": "insert", "table": "QoS", "row": row, "uuid-name": f"qos_{rate}"})
        return ["named-uuid", f"qos_{rate}"]
