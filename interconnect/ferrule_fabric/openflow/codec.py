"""OpenFlow 1.3 as bytes. Section numbers are those of the OpenFlow Switch Specification 1.3.5.

Modifications of flows, of which there are many, and of groups are made here; everything else by os-ken, whose parser also reads what switches send. What comes in is
turned into the few types below; anything malformed raises `FabricError` and the session ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as wire
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from ferrule_fabric.errors import FabricError
from ferrule_fabric.openflow.rules import (
    COOKIE_MAGIC,
    COOKIE_MASK,
    ETHERTYPE_VLAN,
    GROUP_MAGIC,
    GROUP_MAGIC_MASK,
    METER,
    PORT_CONTROLLER,
    VLAN_PRESENT,
    Add,
    AddGroup,
    Change,
    Group,
    Match,
    Place,
    RemoveGroup,
    Rule,
    Steer,
)

VERSION = 4
ROUTES_AFTER_QUEUES = 1
"""The table of the routes where table 0 chooses queues."""
HEADER = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
_DATAPATH = ProtocolDesc(version=VERSION)
_FIELDS = {"eth_dst": (3, 6), "eth_src": (4, 6), "eth_type": (5, 2), "vlan_vid": (6, 2), "ip_dscp": (8, 1), "ip_proto": (10, 1), "ipv4_src": (11, 4), "ipv4_dst": (12, 4), "tcp_dst": (14, 2)}


@dataclass(frozen=True, slots=True)
class Hello:
    """A peer's first message."""

    version: int


@dataclass(frozen=True, slots=True)
class Echo:
    """Asks whether we are there; the answer carries the same data."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """A switch refuses a message."""

    kind: int
    code: int

    def __str__(self) -> str:
        return f"{of.ofp_error_type_to_str(self.kind)}: {of.ofp_error_code_to_str(self.kind, self.code)}"


@dataclass(frozen=True, slots=True)
class Features:
    """Who a switch is."""

    dpid: int
    tables: int


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a switch and whether its link is up."""

    number: int
    name: str
    up: bool


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports of a switch (one part of the answer)."""

    ports: tuple[Port, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class PortChange:
    """A port has come, gone (``port.up`` False) or changed."""

    port: Port


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A packet that a rule sends to the controller."""

    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Flows:
    """Entries of a switch's table (one part): rules that we could have made; of others only their number.

    ``grouped`` are rules that send packets to a group, with its number; what ports these are, the group says. ``steers`` are entries of the table before the
    routes' one, and ``misplaced`` entries that belong into another table: the manager had another number of tables when it made them.
    """

    rules: tuple[Rule, ...]
    grouped: tuple[tuple[Rule, int], ...]
    others: int
    more: bool
    steers: tuple[Steer, ...] = ()
    misplaced: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupsHeld:
    """Groups with our mark (one part): their content by number; None where it isn't what that number says."""

    groups: dict[int, Group | None]
    more: bool


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Bytes received and sent by port (one part)."""

    bytes: dict[int, tuple[int, int]]
    more: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Answer to a barrier, a role request and the like."""

    kind: int


Message = Hello | Echo | Failure | Features | Ports | PortChange | PacketIn | Flows | GroupsHeld | PortCounters | Done


class Framer:
    """Cuts a stream of bytes into messages (section 7.1.1)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole messages that are there now. Raises `FabricError` when the stream isn't OpenFlow 1.3."""
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            version, kind, length, _ = HEADER.unpack_from(self._buffer)
            if version != VERSION and kind != of.OFPT_HELLO:
                raise FabricError("OpenFlow header", f"version {version}, not {VERSION} (OpenFlow 1.3)")
            if length < HEADER.size:
                raise FabricError("OpenFlow header", f"a message of {length} bytes; the header alone has {HEADER.size}")
            if len(self._buffer) < length:
                return
            message = bytes(self._buffer[:length])
            del self._buffer[:length]
            yield message


# To the switch


def encode(message: Any, xid: int) -> bytes:
    """Bytes of an os-ken message."""
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def hello(xid: int) -> bytes:
    """OFPT_HELLO that offers 1.3 alone (section 7.5.1)."""
    return HEADER.pack(VERSION, of.OFPT_HELLO, 16, xid) + struct.pack("!HHI", 1, 8, 1 << VERSION)


def echo_reply(data: bytes, xid: int) -> bytes:
    """OFPT_ECHO_REPLY."""
    return HEADER.pack(VERSION, of.OFPT_ECHO_REPLY, HEADER.size + len(data), xid) + data


def bare(kind: int, xid: int) -> bytes:
    """A message that is a header only: features request, barrier request."""
    return HEADER.pack(VERSION, kind, HEADER.size, xid)


def ports_request(xid: int) -> bytes:
    """Asks for all ports."""
    return encode(wire.OFPPortDescStatsRequest(_DATAPATH, 0), xid)


def counters_request(xid: int) -> bytes:
    """Asks for the counters of all ports."""
    return encode(wire.OFPPortStatsRequest(_DATAPATH, 0, of.OFPP_ANY), xid)


def flows_request(xid: int, cookie: int = 0, mask: int = 0) -> bytes:
    """Asks for entries whose cookie is ``cookie`` where ``mask`` has ones."""
    return encode(wire.OFPFlowStatsRequest(_DATAPATH, cookie=cookie, cookie_mask=mask), xid)


def groups_request(xid: int) -> bytes:
    """Asks for all groups."""
    return encode(wire.OFPGroupDescStatsRequest(_DATAPATH, 0), xid)


def role_request(xid: int, generation: int) -> bytes:
    """Asks to be the switch's master (section 6.3.6)."""
    return encode(wire.OFPRoleRequest(_DATAPATH, of.OFPCR_ROLE_MASTER, generation & COOKIE_MASK), xid)


def packet_out(port: int, data: bytes, xid: int) -> bytes:
    """Sends a packet out of a port."""
    return encode(wire.OFPPacketOut(_DATAPATH, of.OFP_NO_BUFFER, of.OFPP_CONTROLLER, [wire.OFPActionOutput(port)], data), xid)


@lru_cache(maxsize=65536)
def _field(name: str, value: str | int) -> bytes:
    number, width = _FIELDS[name]
    data = value.to_bytes(width, "big") if isinstance(value, int) else bytes.fromhex(value.replace(":", "")) if width == 6 else bytes(map(int, value.split(".")))
    if len(data) != width:
        raise FabricError(f"match.{name}", f"{value!r} is not {width} bytes")
    return struct.pack("!HBB", 0x8000, number << 1, width) + data


# Fields in an order in which each one's prerequisite comes before it (section 7.2.3.6).
_ORDER = ("eth_dst", "eth_src", "eth_type", "vlan_vid", "ip_dscp", "ip_proto", "ipv4_src", "ipv4_dst", "tcp_dst")


def _match(match: Match) -> bytes:
    fields = b"".join(_field(name, value) for name in _ORDER if (value := getattr(match, name)) is not None)
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


@lru_cache(maxsize=4096)
def _instructions(ports: tuple[int, ...], group: int | None, push: int = 0, pop: bool = False) -> bytes:
    actions = struct.pack("!HH4x", of.OFPAT_POP_VLAN, 8) if pop else b""
    if push:
        actions += struct.pack("!HHH2x", of.OFPAT_PUSH_VLAN, 8, ETHERTYPE_VLAN) + struct.pack("!HH", of.OFPAT_SET_FIELD, 16) + _field("vlan_vid", VLAN_PRESENT | push) + bytes(6)
    actions += b"".join(_output(port) for port in ports) if group is None else struct.pack("!HHI", of.OFPAT_GROUP, 8, group)
    return struct.pack("!HH4x", of.OFPIT_APPLY_ACTIONS, 8 + len(actions)) + actions


def _output(port: int) -> bytes:
    return struct.pack("!HHIH6x", of.OFPAT_OUTPUT, 16, port, of.OFPCML_NO_BUFFER)


def modification(change: Change, xid: int, meter: int | None = None, table: int = 0) -> bytes:
    """The message for one change: OFPT_FLOW_MOD (section 7.3.4.1) in a table, or OFPT_GROUP_MOD (7.3.4.2). Rules to the controller go through ``meter``."""
    if isinstance(change, AddGroup):
        return _group_mod(of.OFPGC_ADD, change.group.number, change.group, xid)
    if isinstance(change, RemoveGroup):
        return _group_mod(of.OFPGC_DELETE, change.number, None, xid)
    if isinstance(change, Add):
        rule, group = change.rule, change.rule.group
        body = _FLOW_MOD.pack(rule.cookie, 0, table, of.OFPFC_ADD, 0, 0, rule.priority, of.OFP_NO_BUFFER, of.OFPP_ANY, of.OFPG_ANY, 0)
        if meter is not None and PORT_CONTROLLER in rule.ports:
            body += _match(rule.match) + struct.pack("!HHI", of.OFPIT_METER, 8, meter)
        else:
            body += _match(rule.match)
        body += _instructions(rule.ports, group.number if group else None, rule.push, rule.pop)
    else:
        return deletion(Place(table, change.priority, change.match, change.cookie), xid)
    return HEADER.pack(VERSION, of.OFPT_FLOW_MOD, HEADER.size + len(body), xid) + body


def deletion(place: Place, xid: int) -> bytes:
    """OFPT_FLOW_MOD that removes one entry if its cookie is this one."""
    head = _FLOW_MOD.pack(place.cookie, COOKIE_MASK, place.table, of.OFPFC_DELETE_STRICT, 0, 0, place.priority, of.OFP_NO_BUFFER, of.OFPP_ANY, of.OFPG_ANY, 0)
    body = head + _match(place.match)
    return HEADER.pack(VERSION, of.OFPT_FLOW_MOD, HEADER.size + len(body), xid) + body


def steering(steer: Steer, xid: int) -> bytes:
    """OFPT_FLOW_MOD for an entry of table 0 that chooses the queue and goes on to table 1 (OFPAT_SET_QUEUE, section 7.2.4; OFPIT_GOTO_TABLE, 7.2.5)."""
    body = _FLOW_MOD.pack(COOKIE_MAGIC, 0, 0, of.OFPFC_ADD, 0, 0, steer.priority, of.OFP_NO_BUFFER, of.OFPP_ANY, of.OFPG_ANY, 0) + _match(steer.match)
    if steer.dscp is not None:
        body += struct.pack("!HH4xHHI", of.OFPIT_APPLY_ACTIONS, 16, of.OFPAT_SET_QUEUE, 8, steer.queue)
    body += struct.pack("!HHB3x", of.OFPIT_GOTO_TABLE, 8, ROUTES_AFTER_QUEUES)
    return HEADER.pack(VERSION, of.OFPT_FLOW_MOD, HEADER.size + len(body), xid) + body


def meter_mod(command: int, number: int, rate_pps: int, burst: int, xid: int) -> bytes:
    """OFPT_METER_MOD (section 7.3.4.4): drops what is above a rate, in packets per second."""
    band = struct.pack("!HHII4x", of.OFPMBT_DROP, 16, rate_pps, burst)
    body = struct.pack("!HHI", command, of.OFPMF_PKTPS | of.OFPMF_BURST, number) + band
    return HEADER.pack(VERSION, of.OFPT_METER_MOD, HEADER.size + len(body), xid) + body


def _group_mod(command: int, number: int, group: Group | None, xid: int) -> bytes:
    """A group of type select. Each bucket watches its port: the switch leaves out what is down before the controller has heard of it."""
    buckets = b""
    for port, weight in zip(group.ports, group.weights) if group else ():
        buckets += struct.pack("!HHII4x", 32, weight, port, of.OFPG_ANY) + _output(port)
    body = struct.pack("!HBxI", command, of.OFPGT_SELECT, number) + buckets
    return HEADER.pack(VERSION, of.OFPT_GROUP_MOD, HEADER.size + len(body), xid) + body


def delete_by_cookie(cookie: int, mask: int, xid: int) -> bytes:
    """Removes all entries with a cookie from all tables."""
    body = _FLOW_MOD.pack(cookie, mask, of.OFPTT_ALL, of.OFPFC_DELETE, 0, 0, 0, of.OFP_NO_BUFFER, of.OFPP_ANY, of.OFPG_ANY, 0) + _match(Match())
    return HEADER.pack(VERSION, of.OFPT_FLOW_MOD, HEADER.size + len(body), xid) + body


# From the switch

# What a switch has to say to us; nothing else is given to os-ken's parser, some of whose loops don't end when a length inside is 0.
_READ = {of.OFPT_ERROR, of.OFPT_ECHO_REPLY, of.OFPT_FEATURES_REPLY, of.OFPT_PACKET_IN, of.OFPT_FLOW_REMOVED, of.OFPT_PORT_STATUS,
         of.OFPT_MULTIPART_REPLY, of.OFPT_BARRIER_REPLY, of.OFPT_ROLE_REPLY}  # fmt: skip
_STATISTICS = {of.OFPMP_PORT_DESC, of.OFPMP_PORT_STATS, of.OFPMP_FLOW, of.OFPMP_GROUP_DESC}


def _parts(data: bytes, at: int, end: int, place: int, least: int) -> Iterator[tuple[int, int]]:
    """Begin and end of structures that follow each other, each with its length in 16 bits `place` bytes behind its begin, at least `least`."""
    while at < end:
        length = struct.unpack_from("!H", data, at + place)[0] if end - at >= least else 0
        if not least <= length <= end - at:
            raise FabricError("OpenFlow message", f"malformed: {length} bytes for a part that has {least} to {end - at}")
        yield at, at + length
        at += length


def _check_lengths(data: bytes) -> None:
    """The lengths inside a multipart reply (section 7.3.5): entries, and in them instructions or buckets, and actions."""
    (statistics,) = struct.unpack_from("!H", data, HEADER.size)
    if statistics not in _STATISTICS:
        raise FabricError("OpenFlow message", f"statistics of kind {statistics} that nobody asked for")
    if statistics == of.OFPMP_FLOW:
        for at, end in _parts(data, 16, len(data), 0, 56):
            (match_length,) = struct.unpack_from("!H", data, at + 50)
            for inner, inner_end in _parts(data, at + 48 + (match_length + 7) // 8 * 8, end, 2, 8):
                if struct.unpack_from("!H", data, inner)[0] in (of.OFPIT_APPLY_ACTIONS, of.OFPIT_WRITE_ACTIONS):
                    list(_parts(data, inner + 8, inner_end, 2, 8))
    if statistics == of.OFPMP_GROUP_DESC:
        for at, end in _parts(data, 16, len(data), 0, 8):
            for inner, inner_end in _parts(data, at + 8, end, 0, 16):
                list(_parts(data, inner + 16, inner_end, 2, 8))


def decode(data: bytes, table: int = 0) -> tuple[int, Message]:
    """Transaction id and content of a whole message; ``table`` is where our routes belong. Raises `FabricError` for what is malformed or not expected from a switch."""
    version, kind, length, xid = HEADER.unpack_from(data)
    if length != len(data):
        raise FabricError("OpenFlow message", f"says {length} bytes and has {len(data)}")
    if kind == of.OFPT_HELLO:
        return xid, Hello(version)
    if kind == of.OFPT_ECHO_REQUEST:
        return xid, Echo(data[HEADER.size :])
    if kind not in _READ:
        raise FabricError(f"OpenFlow message of type {kind}", "malformed, or not one that a switch sends")
    try:
        if kind == of.OFPT_MULTIPART_REPLY:
            _check_lengths(data)
        message = ofproto_parser.msg(_DATAPATH, version, kind, length, xid, data)
        content = _content(kind, message, table)
    except FabricError:
        raise
    except Exception as error:  # the parser raises whatever its parts raise
        raise FabricError(f"OpenFlow message of type {kind}", f"malformed: {type(error).__name__} {error}") from error
    if content is None:
        raise FabricError(f"OpenFlow message of type {kind}", "malformed, or not one that a switch sends")
    return xid, content


def _content(kind: int, message: Any, table: int) -> Message | None:
    if message is None:
        return None
    if kind == of.OFPT_ERROR:
        return Failure(message.type, message.code)
    if kind == of.OFPT_FEATURES_REPLY:
        return Features(message.datapath_id, message.n_tables)
    if kind == of.OFPT_PORT_STATUS:
        port = _port(message.desc)
        return PortChange(port if message.reason != of.OFPPR_DELETE else Port(port.number, port.name, False))
    if kind == of.OFPT_PACKET_IN:
        return PacketIn(int(message.match["in_port"]), bytes(message.data))
    if kind in (of.OFPT_BARRIER_REPLY, of.OFPT_ROLE_REPLY, of.OFPT_ECHO_REPLY, of.OFPT_FLOW_REMOVED):
        return Done(kind)
    if kind == of.OFPT_MULTIPART_REPLY:
        return _statistics(message, table)
    return None


def _statistics(message: Any, table: int) -> Message | None:
    more = bool(message.flags & of.OFPMPF_REPLY_MORE)
    if isinstance(message, wire.OFPPortDescStatsReply):
        return Ports(tuple(_port(port) for port in message.body), more)
    if isinstance(message, wire.OFPPortStatsReply):
        return PortCounters({entry.port_no: (entry.rx_bytes, entry.tx_bytes) for entry in message.body}, more)
    if isinstance(message, wire.OFPFlowStatsReply):
        return _flows(message.body, more, table)
    if isinstance(message, wire.OFPGroupDescStatsReply):
        return GroupsHeld({entry.group_id: _group(entry) for entry in message.body if entry.group_id & GROUP_MAGIC_MASK == GROUP_MAGIC}, more)
    return None


def _flows(entries: list[Any], more: bool, table: int) -> Flows:
    rules: list[Rule] = []
    grouped: list[tuple[Rule, int]] = []
    steers: list[Steer] = []
    misplaced: list[Place] = []
    others = 0
    for entry in entries:
        rule, group = _rule(entry)
        steer = _steer(entry)
        if steer is not None and table:
            steers.append(steer)
        elif steer is not None:
            misplaced.append(Place(entry.table_id, steer.priority, steer.match, entry.cookie))
        elif rule is None:
            others += 1
        elif entry.table_id != table:
            misplaced.append(Place(entry.table_id, rule.priority, rule.match, entry.cookie))
        elif group is None:
            rules.append(rule)
        else:
            grouped.append((rule, group))
    return Flows(tuple(rules), tuple(grouped), others, more, tuple(steers), tuple(misplaced))


def _steer(entry: Any) -> Steer | None:
    """What an entry of table 0 does before the routes, None if it is none of these."""
    if entry.table_id or not entry.instructions or entry.instructions[-1].type != of.OFPIT_GOTO_TABLE or entry.instructions[-1].table_id != ROUTES_AFTER_QUEUES:
        return None
    fields, before = dict(entry.match.items()), entry.instructions[:-1]
    steer = Steer()
    if fields or before:
        actions = before[0].actions if len(before) == 1 and before[0].type == of.OFPIT_APPLY_ACTIONS else []
        if len(actions) != 1 or actions[0].type != of.OFPAT_SET_QUEUE or not isinstance(fields.get("ip_dscp"), int):
            return None
        steer = Steer(fields["ip_dscp"], actions[0].queue_id)
    return steer if entry.priority == steer.priority and Match(**fields) == steer.match and entry.cookie == COOKIE_MAGIC else None


def _group(entry: Any) -> Group | None:
    """The group of an entry if it holds what we would put under its number."""
    ports: list[int] = []
    for bucket in entry.buckets:
        if len(bucket.actions) != 1 or bucket.actions[0].type != of.OFPAT_OUTPUT:
            return None
        ports.append(bucket.actions[0].port)
    group = Group(tuple(ports), tuple(bucket.weight for bucket in entry.buckets))
    return group if entry.type == of.OFPGT_SELECT and group.number == entry.group_id else None


def _port(description: Any) -> Port:
    down = description.state & of.OFPPS_LINK_DOWN or description.config & of.OFPPC_PORT_DOWN
    return Port(description.port_no, description.name.decode("ascii", "replace"), not down)


def _rule(entry: Any) -> tuple[Rule | None, int | None]:
    """The rule of a table entry, None if it has anything that our rules never have; and the number of the group that it uses."""
    fields = dict(entry.match.items())
    if entry.table_id > ROUTES_AFTER_QUEUES or fields.keys() - _FIELDS.keys() or any(not isinstance(value, str | int) for value in fields.values()):
        return None, None
    metered = [instruction for instruction in entry.instructions if instruction.type == of.OFPIT_METER and instruction.meter_id == METER]
    instructions = [instruction for instruction in entry.instructions if instruction not in metered]
    actions = [action for instruction in instructions for action in getattr(instruction, "actions", [None])]
    if any(instruction.type != of.OFPIT_APPLY_ACTIONS for instruction in instructions):
        return None, None
    group: int | None = None
    ports: list[int] = []
    push, pop, actions = _label(actions)
    if len(actions) == 1 and actions[0].type == of.OFPAT_GROUP:
        group = int(actions[0].group_id)
    elif any(action.type != of.OFPAT_OUTPUT for action in actions):
        return None, None
    else:
        ports = [action.port for action in actions]
    if metered and ports != [PORT_CONTROLLER]:
        return None, None
    return Rule(entry.priority, Match(**fields), tuple(ports), entry.cookie, push=push, pop=pop), group


def _label(actions: list[Any]) -> tuple[int, bool, list[Any]]:
    """The label that actions push, whether they take one off, and the actions after that."""
    pop = bool(actions) and actions[0].type == of.OFPAT_POP_VLAN
    rest = actions[pop:]
    if len(rest) > 1 and rest[0].type == of.OFPAT_PUSH_VLAN and rest[0].ethertype == ETHERTYPE_VLAN and rest[1].type == of.OFPAT_SET_FIELD and rest[1].key == "vlan_vid":
        value = int(rest[1].value)
        if value > VLAN_PRESENT:
            return value & ~VLAN_PRESENT, pop, rest[2:]
    return 0, pop, rest
