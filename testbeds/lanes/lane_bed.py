"""Hosts on links of a limited rate, with and without a queue for each class of traffic on them.

    sys.exit(lane_bed.enter()) unless lane_bed.is_inside()      puts a Python script into a private world first
    with lane_bed.Bed(hosts=2, mbit=100, classes=True) as bed: bed.prefix("n1") + ["mpiexec", ...]

A host is a network namespace. Each of its interfaces (`eth0`, with two rails also `eth1`) leads to a switch, a Linux bridge per rail in the world's own
network namespace. Both ends of a cable send through HTB: a host into the cable, and the switch towards the host. So a queue forms where it does on real
networks: in the sending host if it alone fills its link, in the switch if several hosts send to one.

In the private world (own mount, network and process namespaces) nothing can be left behind: when its first process ends, or whoever started it is killed
in whatever way, the kernel ends all processes and removes the interfaces.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import enclosure

MARK = "LANE_BED"
#: What may wait in one queue: some 80 ms of 100 Mb/s.
QUEUE_BYTES = 1 << 20
#: What a link may send at once after a pause, in seconds of its rate: 3 KB at 100 Mb/s. Shorter bursts keep links of 1 Gb/s below their rate, as timers come late.
BURST_S = 250e-6
SHARES = 16


@dataclasses.dataclass(frozen=True)
class Queue:
    """A class of a link: which DSCP values it takes, its rank among the others (0 is served first), its part of the rate in %, which it has for sure."""

    name: str
    dscp: tuple[int, ...]
    rank: int
    percent: float


#: What a link with classes does. `rest` takes what has no mark, too. A queue that is served first may still use no more than the link has.
QUEUES = (
    Queue("latency", (46, 40), 0, 30),
    Queue("collectives", (34,), 1, 15),
    Queue("p2p", (26,), 2, 10),
    Queue("rest", (0, 18), 2, 10),
    *(Queue(f"share{i}", (4 * i + 3,), 2, 1.25) for i in range(SHARES)),
    Queue("bulk", (8, 10, 14), 3, 15),
)


class BedError(RuntimeError):
    """The testbed can't be made as asked."""


def unavailable() -> str | None:
    """Why there can be no testbed here, or nothing."""
    if os.geteuid() != 0:
        return "links of a limited rate need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in ("ip", "tc", "nsenter", "unshare", "setpriv") if not shutil.which(name, path=path)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = "ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root handle 1: htb default 1 && ip link add b0 type bridge"
    done = subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True, text=True)
    return f"this machine has no veth, HTB or bridge: {done.stderr.strip()}" if done.returncode else None


def frame_bytes(mbit: float) -> int:
    """The MTU of a link. Fast ones have jumbo frames, as in clusters: with 1500 bytes two processors forward about 300 Mb/s, so the link would not be what limits."""
    return 1500 if mbit < 1000 else 9000


def is_inside() -> bool:
    """Whether this process runs in a private world."""
    return MARK in os.environ


def enter() -> int:
    """Runs this script with its arguments in a private world; returns its exit code."""
    inner = [sys.executable, str(pathlib.Path(__file__).resolve()), "--init", sys.executable, *sys.argv]
    return enclosure.run(inner, dict(os.environ, **{MARK: "1"}))


def queue_commands(device: str, mbit: float, classes: bool, mtu: int) -> list[str]:
    """Commands for `tc -batch` that limit what `device` sends to `mbit` Mb/s, with the queues of QUEUES or with one for all. Queues of one rank take turns packet by packet."""
    burst = round(mbit * 1e6 / 8 * BURST_S)
    quantum = mtu + 100
    bursts = f"burst {burst} cburst {burst}"

    def one(number: int, rank: int, rate: float) -> list[str]:
        return [f"class add dev {device} parent 1:1 classid 1:{number:x} htb rate {rate:g}mbit ceil {mbit:g}mbit {bursts} quantum {quantum} prio {rank}",
                f"qdisc add dev {device} parent 1:{number:x} bfifo limit {QUEUE_BYTES}"]

    numbers = {queue: 0x10 + at for at, queue in enumerate(QUEUES)} if classes else {}
    default = next((number for queue, number in numbers.items() if 0 in queue.dscp), 0x10)
    lines = [f"qdisc add dev {device} root handle 1: htb default {default:x}",
             f"class add dev {device} parent 1: classid 1:1 htb rate {mbit:g}mbit ceil {mbit:g}mbit {bursts} quantum {quantum}"]
    if not classes:
        return lines + one(default, 0, mbit)
    for queue, number in numbers.items():
        lines += one(number, queue.rank, mbit * queue.percent / 100)
        lines += [f"filter add dev {device} parent 1: protocol ip prio 1 u32 match ip tos {dscp << 2:#x} 0xfc flowid 1:{number:x}" for dscp in queue.dscp if dscp]
    return lines


class Bed:
    """The hosts n1, n2 … with a link of `mbit` Mb/s each and on each rail; host i has the address 10.45.RAIL.i on rail 0, 1 … `mtu` is that of the links, in bytes; 0: as `frame_bytes` says.

    Raises BedError for sizes that can't be, RuntimeError if a command of iproute2 fails.
    """

    def __init__(self, hosts: int = 2, mbit: float = 100, classes: bool = True, rails: int = 1, mtu: int = 0) -> None:
        if not (2 <= hosts <= 200 and 1 <= rails <= 4 and 1 <= mbit <= 10_000):
            raise BedError(f"2 to 200 hosts, 1 to 4 rails and 1 to 10000 Mb/s can be had, asked for are {hosts}, {rails} and {mbit:g}")
        self.names = [f"n{i}" for i in range(1, hosts + 1)]
        self.mbit, self.classes, self.rails, self.mtu = mbit, classes, rails, mtu or frame_bytes(mbit)

    def __enter__(self) -> Bed:
        try:
            self._up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def address(self, name: str, rail: int = 0) -> str:
        """The address of a host on a rail."""
        return f"10.45.{rail}.{self.names.index(name) + 1}"

    def port(self, name: str, rail: int = 0) -> str:
        """The switch's end of a host's cable, in the network namespace of the world."""
        return f"p{rail}{name}"

    def prefix(self, name: str) -> list[str]:
        """The words that run a command on a host."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    def job_options(self, each: int) -> list[str]:
        """Options of mpiexec for `each` ranks on each host."""
        return ["--launcher-exec", "nsenter --net=/run/netns/{host} {command}", "-host", ",".join(f"{name}:{each}" for name in self.names)]

    def _up(self) -> None:
        for rail in range(self.rails):
            enclosure.call("ip", "link", "add", f"br{rail}", "type", "bridge", "mcast_snooping", "0")
            enclosure.call("ip", "link", "set", f"br{rail}", "up")
        for name in self.names:
            enclosure.call("ip", "netns", "add", name)
            enclosure.call("ip", "-n", name, "link", "set", "lo", "up")
            for rail in range(self.rails):
                self._cable(name, rail)

    def _cable(self, name: str, rail: int) -> None:
        port, device = self.port(name, rail), f"eth{rail}"
        enclosure.call("ip", "link", "add", port, "type", "veth", "peer", "name", device, "netns", name)
        # Packets have the size that they have on a wire: a queue of packets of 64 KiB would be another network.
        mtu = str(self.mtu)
        enclosure.call("ip", "link", "set", port, "gso_max_segs", "1", "mtu", mtu)
        enclosure.call("ip", "-n", name, "link", "set", device, "gso_max_segs", "1", "mtu", mtu)
        enclosure.call("ip", "link", "set", port, "master", f"br{rail}", "up")
        enclosure.call("ip", "-n", name, "addr", "add", f"{self.address(name, rail)}/24", "dev", device)
        enclosure.call("ip", "-n", name, "link", "set", device, "up")
        for words, end in ((("tc",), port), (("tc", "-n", name), device)):
            lines = "\n".join(queue_commands(end, self.mbit, self.classes, self.mtu)) + "\n"
            done = subprocess.run([*words, "-batch", "-"], input=lines, text=True, capture_output=True)
            if done.returncode:
                raise RuntimeError(f"tc: {done.stderr.strip()}")

    def cut(self, name: str, rail: int = 0) -> None:
        """The host's cable is pulled out: both ends lose their carrier."""
        enclosure.call("ip", "link", "set", self.port(name, rail), "down")

    def mend(self, name: str, rail: int = 0) -> None:
        """The cable is back."""
        enclosure.call("ip", "link", "set", self.port(name, rail), "up")

    def sent_bytes(self, name: str, rail: int = 0) -> dict[str, int]:
        """What a host has sent so far, by the name of the queue; without classes all is `rest`."""
        text = subprocess.run(["tc", "-n", name, "-s", "class", "show", "dev", f"eth{rail}"], capture_output=True, text=True, check=True).stdout
        names = {f"1:{0x10 + at:x}": queue.name for at, queue in enumerate(QUEUES)} if self.classes else {"1:10": "rest"}
        found: dict[str, int] = {}
        number = ""
        for words in (line.split() for line in text.splitlines()):
            if words[:2] == ["class", "htb"]:
                number = words[2]
            elif words[:1] == ["Sent"] and number in names:
                found[names[number]] = int(words[1])
        return found

    def down(self) -> None:
        """Ends what runs on the hosts, and removes them. Harmless when they are gone already."""
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in map(int, pids):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        for rail in range(self.rails):
            for port in (self.port(name, rail) for name in self.names):
                subprocess.run(["ip", "link", "delete", port], capture_output=True)
            subprocess.run(["ip", "link", "delete", f"br{rail}"], capture_output=True)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--init"]:
        sys.exit(__doc__)
    enclosure.furnish()
    sys.exit(enclosure.be_first_process(sys.argv[2:]))
