"""Flow rules and groups, and the changes made to a switch's tables.

A rule's cookie says whose it is: ``COOKIE_MAGIC`` in the upper 16 bits, the owner's number (0: the fabric's own) in the lower 48. Rules with any
other cookie belong to somebody else and are never touched.

A rule that splits its packets over several ports does so by a *group* of type select. A group's number follows from what it holds (`Group.number`), so that
rules that split alike share one, and a switch's groups can be told from its rules alone. Numbers that start with other bits belong to somebody else.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule_fabric.errors import FabricError

COOKIE_MAGIC = 0xFE44 << 48
COOKIE_MAGIC_MASK = 0xFFFF << 48
COOKIE_MASK = 2**64 - 1
OWNER_MAX = 2**48 - 1

PRIORITY_BROADCAST = 900
PRIORITY_DEFAULT = 1000
PRIORITY_JOB = 2000
PRIORITY_LABEL = 2900
PRIORITY_DISCOVERY = 3000
PRIORITY_CLASS = 4000

PORT_CONTROLLER = 0xFFFFFFFD
PORT_MAX = 0xFFFFFF00
ETHERTYPE_IPV4, ETHERTYPE_VLAN, ETHERTYPE_LLDP, PROTOCOL_TCP = 0x0800, 0x8100, 0x88CC, 6
VLAN_PRESENT = 0x1000
METER = 0xFE44
"""The meter that packets for the controller go through."""
GROUP_MAGIC = 0xE << 28
GROUP_MAGIC_MASK = 0xF << 28
BROADCAST = "ff:ff:ff:ff:ff:ff"

_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}\Z")


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule matches; None is anything. MAC addresses in lower case."""

    eth_src: str | None = None
    eth_dst: str | None = None
    vlan_vid: int | None = None
    """Number of the VLAN with `VLAN_PRESENT`."""
    eth_type: int | None = None
    ip_dscp: int | None = None
    ip_proto: int | None = None
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    tcp_dst: int | None = None

    def takes(self, packet: Mapping[str, str | int]) -> bool:
        """Whether it matches a packet given by the same field names."""
        return all(getattr(self, name) is None or packet.get(name) == getattr(self, name) for name in self.__slots__)

    def within(self, other: Match) -> bool:
        """Whether ``other`` takes every packet of the same hosts that this one takes."""
        names = ("eth_type", "ip_dscp", "ip_proto", "tcp_dst")
        return all(getattr(other, name) is None or getattr(other, name) == getattr(self, name) for name in names)


@dataclass(frozen=True, slots=True)
class Group:
    """Packets of one connection leave by one of the ports, connections in the proportion of the weights."""

    ports: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def number(self) -> int:
        """The group's number at a switch."""
        content = struct.pack(f"!{2 * len(self.ports)}I", *self.ports, *self.weights)
        return GROUP_MAGIC | int.from_bytes(hashlib.blake2s(content, digest_size=4).digest()) & ~GROUP_MAGIC_MASK


Groups = dict[int, Group]


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a switch's table: packets that match go out of ``ports`` (all of them but the one they came in by) or, if there are ``weights``, out of one."""

    priority: int
    match: Match
    ports: tuple[int, ...]
    cookie: int = COOKIE_MAGIC
    weights: tuple[int, ...] = ()
    push: int = 0
    """The label put on packets before they leave, 0 for none."""
    pop: bool = False
    """Whether the outermost label is taken off."""

    @property
    def key(self) -> tuple[int, Match]:
        """What names an entry: a second rule with this key replaces the first."""
        return self.priority, self.match

    @property
    def group(self) -> Group | None:
        """The group that it sends packets to, None if it needs none."""
        return Group(self.ports, self.weights) if self.weights else None


Table = dict[tuple[int, Match], Rule]


def groups_of(rules: Iterable[Rule]) -> Groups:
    """The groups that rules need."""
    return {group.number: group for rule in rules if (group := rule.group) is not None}


@dataclass(frozen=True, slots=True)
class Add:
    """Put a rule in, in place of one with the same key."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class Remove:
    """Take out the rule with this key if its cookie is this one."""

    priority: int
    match: Match
    cookie: int


@dataclass(frozen=True, slots=True)
class AddGroup:
    """Put a group in that isn't there."""

    group: Group


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Take out a group; rules that use it go too."""

    number: int


Change = Add | Remove | AddGroup | RemoveGroup


@dataclass(frozen=True, slots=True)
class Steer:
    """An entry of the table before that of the routes: packets of a DSCP value get a queue, and all go on to the routes. ``dscp`` None is the entry for packets
    that no other takes."""

    dscp: int | None = None
    queue: int = 0

    @property
    def priority(self) -> int:
        """That of the entry."""
        return 0 if self.dscp is None else PRIORITY_CLASS

    @property
    def match(self) -> Match:
        """What it takes."""
        return Match() if self.dscp is None else Match(eth_type=ETHERTYPE_IPV4, ip_dscp=self.dscp)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry of ours is that isn't wanted there: which table, and what names it."""

    table: int
    priority: int
    match: Match
    cookie: int


class Refused(Exception):
    """A switch would refuse the change."""


def apply(table: Table, groups: Groups, changes: Iterable[Change]) -> None:
    """Do to a switch's rules and groups what the switch does. Raises `Refused`."""
    for change in changes:
        if isinstance(change, Add):
            if change.rule.group is not None and groups.get(change.rule.group.number) != change.rule.group:
                raise Refused(f"no group for {change.rule}")
            table[change.rule.key] = change.rule
        elif isinstance(change, Remove):
            key = (change.priority, change.match)
            if key in table and table[key].cookie == change.cookie:
                del table[key]
        elif isinstance(change, AddGroup):
            if change.group.number in groups:
                raise Refused(f"group {change.group.number:#x} is there")
            groups[change.group.number] = change.group
        elif groups.pop(change.number, None) is not None:
            for key in [key for key, rule in table.items() if rule.group is not None and rule.group.number == change.number]:
                del table[key]


def job_cookie(owner: int) -> int:
    """The cookie of rules of job number ``owner`` (1 ..)."""
    if not 0 < owner <= OWNER_MAX:
        raise FabricError("job number", f"must be 1 to {OWNER_MAX}, not {owner}")
    return COOKIE_MAGIC | owner


@dataclass(frozen=True, slots=True)
class Selector:
    """Which of a host pair's packets a job's rules take: by MAC or IPv4 addresses, all or only a TCP destination port or a DSCP value (a lane)."""

    by: str = "mac"
    tcp_port: int | None = None
    dscp: int | None = None

    def __post_init__(self) -> None:
        if self.by not in ("mac", "ipv4"):
            raise FabricError("selector.by", f"must be mac or ipv4, not {self.by!r}")
        if self.tcp_port is not None and not 0 < self.tcp_port < 65536:
            raise FabricError("selector.tcp_port", f"must be 1 to 65535, not {self.tcp_port}")
        if self.dscp is not None and not 0 <= self.dscp < 64:
            raise FabricError("selector.dscp", f"must be 0 to 63, not {self.dscp}")

    @property
    def priority(self) -> int:
        """Rules that take only some of a pair's packets go before those that take all; no two kinds have one priority."""
        return PRIORITY_JOB + 50 * (self.by == "ipv4") + 100 * (self.tcp_port is not None) + 200 * (self.dscp is not None)

    def match(self, src: tuple[str | None, str | None], dst: tuple[str | None, str | None], where: str) -> Match:
        """The match for two hosts given as (MAC, IPv4). Raises `FabricError` if the address that is needed isn't known."""
        ipv4 = self.by == "ipv4" or self.tcp_port is not None or self.dscp is not None
        which = 0 if self.by == "mac" else 1
        if src[which] is None or dst[which] is None:
            raise FabricError(where, f"a rule needs {('MAC', 'IPv4')[which]} addresses of both hosts, and one isn't known")
        addresses = {"eth_src": src[0], "eth_dst": dst[0]} if which == 0 else {"ipv4_src": src[1], "ipv4_dst": dst[1]}
        lowered: dict[str, Any] = {name: str(value).lower() for name, value in addresses.items()}
        return Match(
            **lowered,
            eth_type=ETHERTYPE_IPV4 if ipv4 else None,
            ip_proto=PROTOCOL_TCP if self.tcp_port is not None else None,
            tcp_dst=self.tcp_port,
            ip_dscp=self.dscp,
        )


def mac_of(text: str, where: str) -> str:
    """A MAC address in lower case. Raises `FabricError` when it isn't one."""
    lower = text.lower()
    if not _MAC.match(lower):
        raise FabricError(where, f"{text!r} is not a MAC address")
    return lower
