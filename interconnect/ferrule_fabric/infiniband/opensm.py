"""OpenSM's files: forwarding tables for its routing engine ``file``, its options (SL to VL, VL arbitration), and its QoS policy.

Use: ``opensm -F options`` with ``routing_engine file`` and ``lfts_file`` as `options` writes them. Pairs choose among a host's trees by the LID that
they address (`tables.Tables.lid_of`), and a lane by the service level of its class (`lanes.Levels`). Who asks the subnet manager for a path gets the service
level of the QoS class that it names, if the routes have one layer: class numbers are those of `policy`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ferrule_fabric.errors import FabricError
from ferrule_fabric.infiniband.lanes import DATA_VLS, LIMIT_MAX, OTHERS, Levels, vls_text
from ferrule_fabric.infiniband.tables import LID_UNICAST_MAX, Tables
from ferrule_fabric.model.topology import Topology

_SWITCH = re.compile(r"Unicast lids \[.*\] of switch .*\bguid 0x([0-9a-fA-F]{1,16})\b")
_ENTRY = re.compile(r"0x([0-9a-fA-F]{1,4})\s+(\d{1,3})\b")


def lft_file(topology: Topology, tables: Tables) -> str:
    """All tables, as ``dump_lfts`` prints them and OpenSM reads them. Raises `FabricError` for a switch without a GUID."""
    lines = []
    for node, ports in tables.ports.items():
        switch = topology.switches[node - topology.host_count]
        if switch.guid is None:
            raise FabricError(f"topology.switches[{node - topology.host_count}].guid", "isn't known, and OpenSM needs it")
        lines.append(f"Unicast lids [0x1-0x{max(ports):x}] of switch guid 0x{switch.guid:016x} ({switch.name}):")
        lines += [f"0x{lid:04x} {port:03d}" for lid, port in sorted(ports.items())]
        lines.append(f"{len(ports)} valid lids dumped")
    return "\n".join(lines) + "\n"


def read_lfts(text: str, where: str = "lfts") -> dict[int, dict[int, int]]:
    """Tables by the switches' GUIDs, as `lft_file` writes and ``dump_lfts`` prints them. Raises `FabricError` with the line."""
    tables: dict[int, dict[int, int]] = {}
    ports: dict[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if switch := _SWITCH.match(line):
            guid = int(switch[1], 16)
            if guid in tables:
                raise FabricError(f"{where}:{number}", f"switch 0x{guid:016x} occurs twice")
            ports = tables[guid] = {}
        elif entry := _ENTRY.match(line):
            if ports is None:
                raise FabricError(f"{where}:{number}", "an entry before the first switch")
            lid = int(entry[1], 16)
            if lid in ports or not 0 < lid <= LID_UNICAST_MAX:
                raise FabricError(f"{where}:{number}", f"LID 0x{lid:04x} {'occurs twice' if lid in ports else 'is not a unicast LID'}")
            ports[lid] = int(entry[2])
        elif line.startswith("Unicast") or (line.startswith("0x") and ports is not None):
            raise FabricError(f"{where}:{number}", f"not a line of dump_lfts: {line[:80]!r}")
    if not tables:
        raise FabricError(where, "no switch found: these aren't forwarding tables as dump_lfts prints them")
    return tables


def options(levels: Levels, lft_path: str = "lfts", lmc: int = 0, policy_path: str = "") -> str:
    """OpenSM's options. Raises `FabricError` for what OpenSM couldn't read."""
    for where, path in (("lft_path", lft_path), ("policy_path", policy_path)):
        if any(character.isspace() for character in path):
            raise FabricError(where, f"OpenSM can't read a path with spaces: {path!r}")
    if not 0 <= levels.high_limit <= LIMIT_MAX:
        raise FabricError("--high-limit", f"must be 0 to {LIMIT_MAX}, not {levels.high_limit}")
    lines = [
        "routing_engine file",
        f"lfts_file {lft_path}",
        f"lmc {lmc}",
        "qos TRUE",
        f"qos_max_vls {next(vls for vls in DATA_VLS if vls >= levels.used)}",
        f"qos_high_limit {levels.high_limit}",
        f"qos_vlarb_high {vls_text(levels.arbitration(True))}",
        f"qos_vlarb_low {vls_text(levels.arbitration(False))}",
        f"qos_sl2vl {','.join(map(str, levels.sl2vl))}",
        *([f"qos_policy_file {policy_path}"] if policy_path else []),
    ]
    return "\n".join(lines) + "\n"


def policy(levels: Levels) -> str:
    """OpenSM's QoS policy: which service level a path has. A QoS class is numbered as its class's service level; without one a path has that of others.

    Raises `FabricError` if pairs have layers: the subnet manager can't tell these apart.
    """
    if levels.layers > 1:
        raise FabricError("policy", f"the service level depends on the pair of hosts, since the routes have {levels.layers} layers")
    named = {name: level.sl for name, level in levels.by_class.items() if name != OTHERS}
    lines = ["qos-levels"]
    for name, sl in {"DEFAULT": levels.by_class[OTHERS].sl, **named}.items():
        lines += ["    qos-level", f"        name: {name}", f"        sl: {sl}", "    end-qos-level"]
    lines += ["end-qos-levels", "qos-match-rules"]
    for name, sl in named.items():
        # 0 stands for no class.
        if sl:
            lines += ["    qos-match-rule", f"        qos-class: {sl}", f"        qos-level-name: {name}", "    end-qos-match-rule"]
    return "\n".join([*lines, "end-qos-match-rules"]) + "\n"


def checked_ports(topology: Topology, port_count: Mapping[int, int], held: Mapping[int, Mapping[int, int]]) -> dict[int, dict[int, int]]:
    """Tables by node number, if they are for this fabric. ``port_count`` and ``held`` are by GUID. Raises `FabricError` that says what doesn't fit."""
    node_of = {switch.guid: topology.host_count + place for place, switch in enumerate(topology.switches)}
    foreign = [guid for guid in held if guid not in node_of]
    if foreign:
        raise FabricError(f"switch 0x{foreign[0]:016x}", f"isn't in this fabric (nor are {len(foreign) - 1} more): these are tables of another fabric")
    missing = [switch for switch in topology.switches if switch.guid not in held]
    if missing:
        raise FabricError(f"switch {missing[0].name} (0x{missing[0].guid or 0:016x})", f"has no table (nor have {len(missing) - 1} more): these are tables of another fabric")
    cabled = {(int(topology.arc_tail[arc]), topology.arc_ports(arc)[0]) for arc in range(topology.arc_count)}
    ports: dict[int, dict[int, int]] = {}
    for guid, table in held.items():
        node = node_of[guid]
        name, count = topology.node_names[node], port_count.get(guid, 0)
        for lid, port in table.items():
            if port > count:
                raise FabricError(f"switch {name} (0x{guid:016x})", f"has {count} ports, and the table sends LID {lid} to port {port}: these are tables of another fabric")
            if port and (node, port) not in cabled:
                raise FabricError(f"switch {name} (0x{guid:016x})", f"has no link at port {port}, and the table sends LID {lid} there")
        ports[node] = dict(table)
    return ports
