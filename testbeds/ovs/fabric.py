#!/usr/bin/env python3
"""A fabric of real Open vSwitch switches (userspace datapath) on one machine: hosts are network namespaces joined by veth pairs.

Everything lives in namespaces and one directory, both with a name of their own per fabric (`fov` + six digits), so several may stand at once
and nothing of the machine's own network is touched. Each fabric belongs to the process that made it: a reaper, in a session of its own, takes
it down when that process ends in whatever way. Fabrics made by the command line stay until `down`.

  fabric.py up --leaves 4 --spines 2 --hosts 20 [--host-mbit 20 --up-mbit 20] | --spec FILE     prints the id
  fabric.py down ID | counters ID | cut ID NODE NODE | mend ID NODE NODE | exec ID HOST COMMAND... | list | reap
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent))
import spec as fabric_spec
from spec import Cable, Spec

ROOT = Path("/tmp")
PREFIX = "fov"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
SOCKET_BUFFER_BYTES = 16 << 20
BUFFER_FILES = ("/proc/sys/net/core/wmem_default", "/proc/sys/net/core/rmem_default")
COMMAND_TIMEOUT_S = 120
OWNER = "owner"
WINDOW_BYTES = 32 << 10
QUEUE_BYTES = 1 << 20


class FabricError(RuntimeError):
    """A fabric can't be made, or a command in it failed."""


def run(command: list[str], text: str | None = None, check: bool = True, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=timeout_s, check=False)
    if check and done.returncode:
        raise FabricError(f"{' '.join(command)[:300]}: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout


def missing() -> str | None:
    """Why a fabric can't stand here, or None."""
    for program, package in (("ovs-vswitchd", "openvswitch-switch"), ("ovsdb-tool", "openvswitch-common"), ("ip", "iproute2"), ("tc", "iproute2")):
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return f"no {program} (package {package})"
    if os.geteuid() != 0:
        return "not root"
    name = f"{PREFIX}probe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces can't be made"
    run(["ip", "netns", "del", name], check=False)
    return None


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with the pid this names a process for good. None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


class Fabric:
    """A standing fabric. `up` makes one, `attach` finds one by its id; as a context manager it goes down at the end."""

    def __init__(self, ident: str, spec: Spec) -> None:
        self.ident, self.spec = ident, spec
        self.directory = ROOT / f"ferrule-ovs-{ident}"
        self.switch_netns = PREFIX + ident
        self.controller_socket = self.directory / "controller.sock"
        self._reaper: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None

    # Names

    def host_netns(self, host: str) -> str:
        """The network namespace of a host; its interface is eth0."""
        return f"{PREFIX}{self.ident}-{host}"

    def device(self, number: int, end: str) -> str:
        """The device in the switches' namespace of end "a" or "b" of cable `number`."""
        return f"c{number}{end}"

    def cable_between(self, a: str, b: str) -> int:
        """Number of the (first) cable between two nodes."""
        for number, cable in enumerate(self.spec.cables):
            if {cable.a[0], cable.b[0]} == {a, b}:
                return number
        raise FabricError(f"no cable between {a} and {b}")

    # Up and down

    @classmethod
    def up(cls, spec: Spec, owned: bool = True, controller: str | None = None) -> Fabric:
        """Make a fabric. Its switches connect to `controller`, by default the unix socket `controller_socket`, and are fail-secure.

        With `owned` it is taken down when this process ends, else it stays until `down`.
        """
        reap()
        fabric = cls(secrets.token_hex(3), spec)
        fabric.directory.mkdir(mode=0o755)
        if owned:
            # Held as long as the owner lives, in whatever pid namespace that is.
            fabric._lock = open(fabric.directory / OWNER, "w")
            fcntl.flock(fabric._lock, fcntl.LOCK_EX)
        (fabric.directory / "fabric.json").write_text(json.dumps({"owned": owned, "spec": json.loads(spec.to_json())}))
        if owned:
            fabric._reaper = subprocess.Popen([sys.executable, __file__, "wait", fabric.ident], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            fabric._start(controller)
        except BaseException:
            fabric.down()
            raise
        return fabric

    @classmethod
    def attach(cls, ident: str) -> Fabric:
        """The standing fabric `ident`."""
        try:
            data = json.loads((ROOT / f"ferrule-ovs-{ident}" / "fabric.json").read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise FabricError(f"no fabric {ident}: {error}") from error
        return cls(ident, fabric_spec.from_json(json.dumps(data["spec"])))

    def __enter__(self) -> Fabric:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _start(self, controller: str | None) -> None:
        """Namespaces, cables, daemons, bridges, limits, in this order."""
        run(["ip", "netns", "add", self.switch_netns])
        run(["ip", "-n", self.switch_netns, "link", "set", "lo", "up"])
        for host in self.spec.hosts:
            run(["ip", "netns", "add", self.host_netns(host)])
        self._lay_cables()
        self._address_hosts()
        self._start_database()
        with socket_buffers(self.directory):
            self.start_switches()
            self._make_bridges(controller)
        self._limit_rates()

    def _lay_cables(self) -> None:
        lines = []
        for number, cable in enumerate(self.spec.cables):
            ends = []
            for end, (node, _) in (("a", cable.a), ("b", cable.b)):
                host = self.spec.hosts.get(node)
                ends.append(f"name eth0 address {host.mac} netns {self.host_netns(node)}" if host else f"name {self.device(number, end)}")
            # The end in this namespace is named first, a host's end as the peer.
            if cable.a[0] in self.spec.hosts:
                ends.reverse()
            lines.append(f"link add {ends[0]} type veth peer {ends[1]}")
            lines += [f"link set {self.device(number, end)} up" for end, (node, _) in (("a", cable.a), ("b", cable.b)) if node in self.spec.switches]
        run(["ip", "-n", self.switch_netns, "-batch", "-"], "\n".join(lines) + "\n")

    def _address_hosts(self) -> None:
        for name, host in self.spec.hosts.items():
            neighbors = [f"neigh replace {other.ip} lladdr {other.mac} nud permanent dev eth0" for other in self.spec.hosts.values() if other is not host]
            lines = ["link set lo up", f"addr add {host.ip}/9 dev eth0", "link set eth0 up", *neighbors]
            netns = self.host_netns(name)
            run(["ip", "-n", netns, "-batch", "-"], "\n".join(lines) + "\n")
            # Checksums and segments are made by the hosts: the userspace switches don't.
            script = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
            if any(cable.mbit for cable in self.spec.cables):
                # Small windows, and room for them at the limits: what waits there is rarely lost, as in a network with flow control.
                script += f"; echo '4096 {WINDOW_BYTES} {WINDOW_BYTES}' > /proc/sys/net/ipv4/tcp_rmem"
            run(["ip", "netns", "exec", netns, "sh", "-c", f"{script}; ethtool -K eth0 tx off gso off tso off"], check=False)

    def _environment(self) -> list[str]:
        return ["env", *(f"OVS_{name}={self.directory}" for name in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"))]

    def _daemon(self, name: str, arguments: list[str]) -> list[str]:
        files = [f"--unixctl={self.directory}/{name}.ctl", f"--pidfile={self.directory}/{name}.pid", f"--log-file={self.directory}/{name}.log"]
        return [*self._environment(), name, *arguments, *files, "--detach", "--no-chdir", "-vconsole:off"]

    def vsctl(self, *arguments: str) -> str:
        """Run ovs-vsctl on this fabric."""
        return run(["ovs-vsctl", f"--db=unix:{self.directory}/db.sock", "--timeout=60", *arguments])

    def ofctl(self, command: str, switch: str, *arguments: str) -> str:
        """Run ovs-ofctl (OpenFlow 1.3) on one switch."""
        return run([*self._environment(), "ovs-ofctl", "-O", "OpenFlow13", command, f"{self.directory}/{switch}.mgmt", *arguments])

    def _start_database(self) -> None:
        database = f"{self.directory}/conf.db"
        run(["ovsdb-tool", "create", database, SCHEMA])
        run(self._daemon("ovsdb-server", [database, f"--remote=punix:{self.directory}/db.sock"]))
        self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", "other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")

    def start_switches(self) -> None:
        """Start ovs-vswitchd: all switches of the fabric, with empty tables."""
        run(["ip", "netns", "exec", self.switch_netns, *self._daemon("ovs-vswitchd", [f"unix:{self.directory}/db.sock"])])

    def kill_switches(self) -> None:
        """Kill ovs-vswitchd, as a power cut of all switches would."""
        self._kill("ovs-vswitchd", signal.SIGKILL)

    def reconnect(self) -> None:
        """Switches try to reach their controller now instead of after their backoff (up to 8 s)."""
        targets = {name: self.vsctl("get-controller", name).strip() for name in self.spec.switches}
        # Another one for a moment; with none at all a switch would empty its table.
        for other in ("tcp:127.0.0.1:9", None):
            command: list[str] = []
            for name, target in targets.items():
                command += ["--", "set-controller", name, other or target]
            self.vsctl(*command[1:])

    def _make_bridges(self, controller: str | None) -> None:
        command: list[str] = []
        for name, dpid in self.spec.switches.items():
            # A switch may only connect to a unix socket of its own name in the run directory: a link to the common one.
            target = controller or f"unix:{self.directory}/{name}.controller"
            if controller is None:
                (self.directory / f"{name}.controller").symlink_to("controller.sock")
            settings = [f"other_config:datapath-id={dpid:016x}", "other_config:disable-in-band=true", "fail_mode=secure", "protocols=OpenFlow13"]
            command += ["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", *settings, "--", "set-controller", name, target]
            command += ["--", "set", "controller", name, "inactivity_probe=10000"]
        limited = []
        for number, cable in enumerate(self.spec.cables):
            for end, (node, port) in (("a", cable.a), ("b", cable.b)):
                if node in self.spec.switches:
                    device = self.device(number, end)
                    command += ["--", "add-port", node, device, "--", "set", "interface", device, f"ofport_request={port}"]
                    limited += [device] if cable.mbit else []
        if limited:
            # Open vSwitch keeps its hands off the limits of ports with this kind.
            command += ["--", "--id=@noop", "create", "qos", "type=linux-noop"]
            for device in limited:
                command += ["--", "set", "port", device, "qos=@noop"]
        self.vsctl(*command[1:])

    def _limit_rates(self) -> None:
        lines = []
        for number, cable in enumerate(self.spec.cables):
            if cable.mbit:
                lines += [self._limit(self.device(number, end), cable) for end, (node, _) in (("a", cable.a), ("b", cable.b)) if node in self.spec.switches]
                for node, _ in (cable.a, cable.b):
                    if node in self.spec.hosts:
                        run(["tc", "-n", self.host_netns(node), *self._limit("eth0", cable).split()])
        if lines:
            run(["tc", "-n", self.switch_netns, "-batch", "-"], "\n".join(lines) + "\n")

    @staticmethod
    def _limit(device: str, cable: Cable) -> str:
        return f"qdisc replace dev {device} root tbf rate {cable.mbit}mbit burst 32k limit {QUEUE_BYTES}"

    def _kill(self, name: str, signal_number: int) -> None:
        """Send a signal to one of this fabric's daemons and wait until it is gone."""
        try:
            pid = int((self.directory / f"{name}.pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if name.encode() not in words or str(self.directory).encode() not in words:
                return
            os.kill(pid, signal_number)
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + 10
        while started_ticks(pid) is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(OSError):
            if started_ticks(pid) is not None:
                os.kill(pid, signal.SIGKILL)

    def down(self) -> None:
        """Take all of it away: what runs in its namespaces, daemons, namespaces, files. Harmless when it is gone already."""
        if self._reaper is not None and self._reaper.stdin:
            self._reaper.stdin.close()
            self._reaper.wait(timeout=60)
            self._reaper = None
        names = [name for name in run(["ip", "netns", "list"], check=False).split() if name == self.switch_netns or name.startswith(self.switch_netns + "-")]
        for name in names:
            for pid in run(["ip", "netns", "pids", name], check=False).split():
                if name != self.switch_netns:
                    with contextlib.suppress(OSError):
                        os.kill(int(pid), signal.SIGKILL)
        restore_buffers(self.directory)
        for daemon in ("ovs-vswitchd", "ovsdb-server"):
            self._kill(daemon, signal.SIGKILL)
        for name in names:
            run(["ip", "netns", "del", name], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # Use

    def command_in(self, host: str, *command: str) -> list[str]:
        """`command` prefixed so that it runs on a host."""
        if host not in self.spec.hosts:
            raise FabricError(f"no host {host}")
        return ["nsenter", f"--net=/run/netns/{self.host_netns(host)}", *command]

    def counters(self) -> dict[tuple[str, str], int]:
        """Bytes sent so far over each link, by (from, to); parallel cables are added."""
        listed = json.loads(run(["ip", "-j", "-s", "-n", self.switch_netns, "link", "show"]))
        stats = {link["ifname"]: link["stats64"] for link in listed}
        total: dict[tuple[str, str], int] = {}
        for number, cable in enumerate(self.spec.cables):
            for end, here, there in (("a", cable.a[0], cable.b[0]), ("b", cable.b[0], cable.a[0])):
                if here in self.spec.switches:
                    counted = stats[self.device(number, end)]
                    total[here, there] = total.get((here, there), 0) + counted["tx"]["bytes"]
                    if there in self.spec.hosts:
                        total[there, here] = total.get((there, here), 0) + counted["rx"]["bytes"]
        return total

    def _set_cable(self, a: str, b: str, state: str) -> None:
        number = self.cable_between(a, b)
        cable = self.spec.cables[number]
        end = "a" if cable.a[0] in self.spec.switches else "b"
        run(["ip", "-n", self.switch_netns, "link", "set", self.device(number, end), state])

    def cut(self, a: str, b: str) -> None:
        """The link between two nodes fails: both ends lose their carrier."""
        self._set_cable(a, b, "down")

    def mend(self, a: str, b: str) -> None:
        """The link between two nodes comes back."""
        self._set_cable(a, b, "up")


# The default size of socket buffers is the machine's: raised while switches open their sockets (all ports share one for sending; what waits
# at a limit would fill it and be lost without a trace), one fabric at a time, put back also by the reaper.


def restore_buffers(directory: Path) -> None:
    """Put the default socket buffers back if `directory`'s fabric has raised them."""
    with contextlib.suppress(OSError, ValueError):
        saved = json.loads((directory / "buffers.json").read_text())
        for path, value in saved.items():
            Path(path).write_text(value)
        (directory / "buffers.json").unlink()


@contextlib.contextmanager
def socket_buffers(directory: Path) -> Iterator[None]:
    """Raise the default socket buffers for a while."""
    with open(ROOT / "ferrule-ovs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / "buffers.json").write_text(json.dumps({path: Path(path).read_text() for path in BUFFER_FILES if os.path.exists(path)}))
        try:
            for path in BUFFER_FILES:
                if os.access(path, os.W_OK):
                    Path(path).write_text(str(SOCKET_BUFFER_BYTES))
            yield
            time.sleep(0.2)
        finally:
            restore_buffers(directory)


def is_owned(directory: Path) -> bool:
    """Whether the owner of a fabric lives, or it needs none."""
    if not json.loads((directory / "fabric.json").read_text())["owned"]:
        return True
    with open(directory / OWNER) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def standing() -> list[tuple[str, bool]]:
    """Ids of all fabrics of this machine, each with whether its owner lives (or it has none)."""
    found = []
    for path in sorted(ROOT.glob("ferrule-ovs-*/fabric.json")):
        with contextlib.suppress(OSError, json.JSONDecodeError, KeyError):
            found.append((path.parent.name.removeprefix("ferrule-ovs-"), is_owned(path.parent)))
    return found


def reap() -> list[str]:
    """Take down what processes that ended have left."""
    gone = [ident for ident, lives in standing() if not lives]
    for ident in gone:
        with contextlib.suppress(FabricError):
            Fabric.attach(ident).down()
    return gone


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(description="A fabric of Open vSwitch switches in network namespaces")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make a fabric, print its id")
    up.add_argument("--spec", type=Path, help="a fabric as JSON (see spec.py)")
    for name, default in (("leaves", 4), ("spines", 2), ("hosts", 20)):
        up.add_argument(f"--{name}", type=int, default=default)
    up.add_argument("--host-mbit", type=float)
    up.add_argument("--up-mbit", type=float)
    up.add_argument("--controller", help="where switches connect to, as tcp:127.0.0.1:6653; by default a unix socket of the fabric's directory")
    for name, more in (("down", ()), ("counters", ()), ("cut", ("a", "b")), ("mend", ("a", "b")), ("exec", ("host",)), ("wait", ())):
        one = commands.add_parser(name)
        one.add_argument("ident", metavar="ID")
        for argument in more:
            one.add_argument(argument)
        if name == "exec":
            one.add_argument("program", nargs=argparse.REMAINDER)
    commands.add_parser("list")
    commands.add_parser("reap")
    return top


def main(arguments: argparse.Namespace) -> int:
    """Do what the command line says."""
    command = arguments.command
    if command == "up":
        sizes = (arguments.leaves, arguments.spines, arguments.hosts, arguments.host_mbit, arguments.up_mbit)
        spec = fabric_spec.from_json(arguments.spec.read_text()) if arguments.spec else fabric_spec.two_levels(*sizes)
        print(Fabric.up(spec, owned=False, controller=arguments.controller).ident)
    elif command == "list":
        print("".join(f"{ident} {'' if lives else 'left behind'}\n" for ident, lives in standing()), end="")
    elif command == "reap":
        print("".join(f"{ident}\n" for ident in reap()), end="")
    elif command == "wait":
        sys.stdin.buffer.read()  # ends when the owner does
        with contextlib.suppress(FabricError):
            Fabric.attach(arguments.ident).down()
    else:
        fabric = Fabric.attach(arguments.ident)
        if command == "down":
            fabric.down()
        elif command == "counters":
            print("".join(f"{a} {b} {count}\n" for (a, b), count in sorted(fabric.counters().items())), end="")
        elif command == "exec":
            os.execvp("nsenter", fabric.command_in(arguments.host, *arguments.program))
        else:
            getattr(fabric, command)(arguments.a, arguments.b)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(parser().parse_args()))
    except (FabricError, fabric_spec.SpecError, OSError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"fabric: {problem}")
