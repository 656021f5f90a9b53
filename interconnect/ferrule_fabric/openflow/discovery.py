"""Finds the links between switches: each port sends an LLDP packet that names it, the switch at the other end hands it to the controller.

The packets are IEEE 802.1AB with locally assigned ids; a packet that isn't ours or is malformed says nothing (None). Anybody on a host could send such
packets: what comes in at a host's port is not believed by the controller.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from ferrule_fabric.model.topology import Host, Link, Switch, Topology
from ferrule_fabric.openflow.rules import COOKIE_MAGIC, ETHERTYPE_LLDP, PORT_CONTROLLER, PRIORITY_DISCOVERY, Match, Rule

LLDP_MAC = bytes.fromhex("0180c200000e")
SOURCE_MAC = bytes.fromhex("02fe44000000")
_LOCAL = 7
RULE = Rule(PRIORITY_DISCOVERY, Match(eth_type=ETHERTYPE_LLDP), (PORT_CONTROLLER,), COOKIE_MAGIC)
"""The rule that hands LLDP packets to the controller."""

End = tuple[int, int]


def _item(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def probe(dpid: int, port: int) -> bytes:
    """The packet that names a port."""
    identity = _item(1, bytes([_LOCAL]) + b"dpid:%016x" % dpid) + _item(2, bytes([_LOCAL]) + struct.pack("!I", port)) + _item(3, struct.pack("!H", 120)) + _item(0, b"")
    packet = LLDP_MAC + SOURCE_MAC + struct.pack("!H", ETHERTYPE_LLDP) + identity
    return packet + bytes(max(0, 60 - len(packet)))


def heard(packet: bytes) -> End | None:
    """The (dpid, port) that a packet names, or None."""
    if len(packet) < 14 or packet[12:14] != struct.pack("!H", ETHERTYPE_LLDP) or packet[6:12] != SOURCE_MAC:
        return None
    items: dict[int, bytes] = {}
    place = 14
    while place + 2 <= len(packet):
        (head,) = struct.unpack_from("!H", packet, place)
        kind, length = head >> 9, head & 0x1FF
        value = packet[place + 2 : place + 2 + length]
        if kind == 0 or len(value) != length:
            break
        items.setdefault(kind, value)
        place += 2 + length
    chassis, port = items.get(1, b""), items.get(2, b"")
    if len(chassis) != 22 or not chassis.startswith(bytes([_LOCAL]) + b"dpid:") or len(port) != 5 or port[0] != _LOCAL:
        return None
    try:
        return int(chassis[6:], 16), struct.unpack("!I", port[1:])[0]
    except ValueError:
        return None


@dataclass
class Discovery:
    """Links heard of so far, as (dpid, port) pairs in both directions."""

    links: dict[End, End] = field(default_factory=dict)

    def on_packet(self, dpid: int, port: int, packet: bytes) -> bool:
        """Takes in a packet that came in at a port; True when it says something new."""
        sender = heard(packet)
        if sender is None or sender == (dpid, port) or self.links.get(sender) == (dpid, port):
            return False
        for end in (sender, (dpid, port)):
            self.forget(end)
        self.links[sender], self.links[dpid, port] = (dpid, port), sender
        return True

    def forget(self, end: End) -> None:
        """A port went down: its link isn't there any more."""
        other = self.links.pop(end, None)
        if other is not None and self.links.get(other) == end:
            del self.links[other]

    def topology(self, switch_names: Mapping[int, str], hosts: Mapping[End, Host], capacity_bps: float) -> Topology:
        """What has been found, with hosts at the ports given. Switches without a name are called by their dpid."""
        dpids = sorted({end[0] for end in (*self.links, *hosts)} | set(switch_names))
        name = {dpid: switch_names.get(dpid, f"dpid-{dpid:x}") for dpid in dpids}
        links = [Link(host.name, name[dpid], capacity_bps, None, port) for (dpid, port), host in sorted(hosts.items())]
        links += [Link(name[a[0]], name[b[0]], capacity_bps, a[1], b[1]) for a, b in sorted(self.links.items()) if a < b]
        return Topology("discovered", tuple(hosts[end] for end in sorted(hosts)), tuple(Switch(name[dpid], dpid) for dpid in dpids), tuple(links))

    def differences(self, topology: Topology) -> list[str]:
        """How what was found differs from a topology: one line per link that is missing or wrong."""
        dpid = {switch.name: switch.dpid for switch in topology.switches}
        lines = []
        for link in topology.links:
            if link.up and dpid.get(link.a) is not None and dpid.get(link.b) is not None:
                a, b = (int(dpid[link.a] or 0), int(link.a_port or 0)), (int(dpid[link.b] or 0), int(link.b_port or 0))
                found = self.links.get(a)
                if found != b:
                    lines.append(f"{link.a} port {a[1]} should lead to {link.b} port {b[1]}, but leads to {'nothing' if found is None else f'dpid {found[0]:x} port {found[1]}'}")
        return lines
