"""What a fabric consists of: switches, hosts and the cables between their ports. Plain data, checked when it is read.

JSON form: {"switches": {"leaf0": 513}, "hosts": {"h0": {"mac": "02:..", "ip": "10.10.0.1"}},
"cables": [{"a": ["h0", 0], "b": ["leaf0", 1], "mbit": 20}]}: switch name to datapath id, host name to addresses, a cable's two ends as
node and port number (a host has port 0 only). `mbit` limits each direction; without it the cable is as fast as the machine.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}\Z")
HOSTS_MAX, SWITCHES_MAX = 4000, 1000


class SpecError(ValueError):
    """The description of a fabric is wrong; the message says where."""


@dataclass(frozen=True)
class Host:
    """Addresses of a host."""

    mac: str
    ip: str


@dataclass(frozen=True)
class Cable:
    """A link between two ports; `mbit` is the limit of each direction in Mb/s, None for no limit."""

    a: tuple[str, int]
    b: tuple[str, int]
    mbit: float | None = None


@dataclass(frozen=True)
class Spec:
    """A whole fabric."""

    switches: dict[str, int]
    hosts: dict[str, Host]
    cables: tuple[Cable, ...]

    def __post_init__(self) -> None:
        """Refuse what can't be built."""
        if len(self.hosts) > HOSTS_MAX or len(self.switches) > SWITCHES_MAX:
            raise SpecError(f"{len(self.switches)} switches and {len(self.hosts)} hosts: more than {SWITCHES_MAX} and {HOSTS_MAX}")
        for name in [*self.switches, *self.hosts]:
            if not NAME.match(name):
                raise SpecError(f"name {name!r}: letters, digits, _ . -, at most 15, first a letter")
        if both := self.switches.keys() & self.hosts.keys():
            raise SpecError(f"{sorted(both)[0]!r} is a switch and a host")
        if len(set(self.switches.values())) != len(self.switches):
            raise SpecError("two switches have one datapath id")
        used: set[tuple[str, int]] = set()
        for number, cable in enumerate(self.cables):
            where = f"cable {number}"
            if cable.mbit is not None and not 0.01 <= cable.mbit <= 1e6:
                raise SpecError(f"{where}: {cable.mbit} Mb/s")
            for node, port in (cable.a, cable.b):
                if node not in self.switches and node not in self.hosts:
                    raise SpecError(f"{where}: no node {node!r}")
                if (node, port) in used:
                    raise SpecError(f"{where}: port {port} of {node} is in use")
                if node in self.hosts and port != 0 or node in self.switches and not 1 <= port < 0xFF00:
                    raise SpecError(f"{where}: {node} has no port {port}")
                used.add((node, port))
            if cable.a[0] in self.hosts and cable.b[0] in self.hosts:
                raise SpecError(f"{where}: joins two hosts")

    def to_json(self) -> str:
        """The JSON form."""
        hosts = {name: {"mac": host.mac, "ip": host.ip} for name, host in self.hosts.items()}
        cables = [{"a": list(cable.a), "b": list(cable.b), "mbit": cable.mbit} for cable in self.cables]
        return json.dumps({"switches": self.switches, "hosts": hosts, "cables": cables}, indent=1)


def addresses(number: int) -> Host:
    """MAC and IP addresses of host `number` (from 0) where the caller doesn't care."""
    low = number + 1
    return Host(f"02:00:00:00:{low >> 8:02x}:{low & 255:02x}", f"10.{64 + (low >> 16)}.{low >> 8 & 255}.{low & 255}")


def from_json(text: str) -> Spec:
    """Read the JSON form."""
    try:
        data: Any = json.loads(text)
        hosts = {str(name): Host(str(host["mac"]), str(host["ip"])) for name, host in data["hosts"].items()}
        cables = tuple(
            Cable((str(c["a"][0]), int(c["a"][1])), (str(c["b"][0]), int(c["b"][1])), None if c.get("mbit") is None else float(c["mbit"])) for c in data["cables"]
        )
        return Spec({str(name): int(dpid) for name, dpid in data["switches"].items()}, hosts, cables)
    except (KeyError, TypeError, AttributeError, IndexError, json.JSONDecodeError) as error:
        raise SpecError(f"not a fabric: {type(error).__name__} {error}") from error


def two_levels(leaves: int, spines: int, hosts: int, host_mbit: float | None = None, up_mbit: float | None = None) -> Spec:
    """Leaves with `hosts` hosts in all, each joined to each spine: leaf ports 1.. are hosts, then spines; spine ports are leaves."""
    per_leaf = -(-hosts // leaves)
    switches = {f"leaf{number}": 0x200 + number for number in range(leaves)} | {f"spine{number}": 0x100 + number for number in range(spines)}
    cables = [Cable((f"h{host}", 0), (f"leaf{host // per_leaf}", host % per_leaf + 1), host_mbit) for host in range(hosts)]
    cables += [Cable((f"leaf{leaf}", per_leaf + spine + 1), (f"spine{spine}", leaf + 1), up_mbit) for leaf in range(leaves) for spine in range(spines)]
    return Spec(switches, {f"h{host}": addresses(host) for host in range(hosts)}, tuple(cables))
