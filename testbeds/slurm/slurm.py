#!/usr/bin/env python3
"""A Slurm cluster on one machine: munged, slurmctld, and one slurmd per network namespace, each with a host name of its own.

    testbeds/slurm/slurm.py --nodes 4 --cpus 4 -- COMMAND ...     runs COMMAND on the cluster's login host
    sys.exit(slurm.enter()) unless slurm.is_inside()              puts a Python script into a private world first
    with slurm.Cluster(nodes=4) as cluster: cluster.run(["srun", "-N4", "hostname"])

In a private world (own mount, network, process and host-name namespaces) nothing can be left behind: when its first process ends, or
whoever started it is killed in whatever way, the kernel ends the daemons and removes namespaces, interfaces and files.
`Cluster` also works outside of one, for who has made the hosts already (`namespaces=`): then `down()` or the end of the `with` block cleans up.
"""

from __future__ import annotations

import argparse
import collections.abc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import enclosure

MARK = "SLURM_BED"
DAEMONS = ("munged", "slurmctld", "slurmd", "srun")
CONF = """ClusterName={name}
SlurmctldHost=ctl({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock
CredType=cred/munge
MpiDefault=none
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/none
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000
AccountingStorageType=accounting_storage/none
KillWait=2
MinJobAge=60
NodeName={nodes} NodeAddr={addresses} NodeHostname={nodes} CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO
"""


def unavailable() -> str | None:
    """Why there can be no cluster here, or nothing."""
    if os.geteuid() != 0:
        return "the Slurm testbed needs root"
    missing = [name for name in DAEMONS if not find(name)]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)}; examples/prepare.sh launchers)"
    if subprocess.run(["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "true"], capture_output=True).returncode:
        return "this machine doesn't let root make namespaces"
    return None


def find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def is_inside() -> bool:
    """Whether this process runs in a private world."""
    return MARK in os.environ


def enter(command: list[str] | None = None) -> int:
    """Runs `command` (default: this script with its arguments) in a private world; returns its exit code."""
    words = command or [sys.executable, *sys.argv]
    inner = [sys.executable, str(pathlib.Path(__file__).resolve()), "--init", *words]
    return enclosure.run(inner, dict(os.environ, **{MARK: "1"}), more=["--uts"])


class Cluster:
    """One cluster. Its login host is where this process runs; node `i` is called PREFIX`i`."""

    def __init__(self, nodes: int = 4, cpus: int = 4, *, prefix: str = "n", namespaces: list[str] | None = None, network: str = "10.21.0", conf: str = "",
                 files: dict[str, str] | None = None) -> None:
        """`namespaces`: existing ones to use as hosts; `conf`: more lines of slurm.conf (`{dir}` is the cluster's directory); `files`: further files there."""
        self.nodes, self.cpus, self.prefix, self.network, self.conf, self.files = nodes, cpus, prefix, network, conf, files or {}
        self.names = [f"{prefix}{i}" for i in range(1, nodes + 1)]
        self.namespaces = namespaces or self.names
        self.own_namespaces = namespaces is None
        self.bridge = f"{prefix}-mgmt"
        self.dir = pathlib.Path()
        self.daemons: list[subprocess.Popen[bytes]] = []

    @property
    def env(self) -> dict[str, str]:
        """What Slurm's commands need."""
        return dict(os.environ, SLURM_CONF=str(self.dir / "slurm.conf"), PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

    def up(self, patience_s: float = 40) -> Cluster:
        """Starts everything and waits until all nodes are idle."""
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/run" if is_inside() else None))
        self.dir.chmod(0o755)
        try:
            self._connect()
            self._configure()
            self._start_daemons()
            self._await_nodes(patience_s)
        except BaseException:
            self.down()
            raise
        return self

    def _connect(self) -> None:
        """A bridge for Slurm's own traffic, with one leg into each node."""
        enclosure.call("ip", "link", "add", self.bridge, "type", "bridge")
        enclosure.call("ip", "addr", "add", f"{self.network}.254/24", "dev", self.bridge)
        enclosure.call("ip", "link", "set", self.bridge, "up")
        if is_inside():
            names = [f"{self.network}.254 ctl", *(f"{self.network}.{i} {name}" for i, name in enumerate(self.names, 1))]
            hosts = pathlib.Path("/run/hosts")
            hosts.write_text("127.0.0.1 localhost\n" + "\n".join(names) + "\n")
            enclosure.call("mount", "--no-mtab", "--bind", str(hosts), "/etc/hosts")
        for number, (name, space) in enumerate(zip(self.names, self.namespaces), 1):
            if self.own_namespaces:
                enclosure.call("ip", "netns", "add", space)
                enclosure.call("ip", "-n", space, "link", "set", "lo", "up")
            enclosure.call("ip", "link", "add", f"m-{name}", "type", "veth", "peer", "name", "mgmt0", "netns", space)
            enclosure.call("ip", "link", "set", f"m-{name}", "master", self.bridge, "up")
            enclosure.call("ip", "-n", space, "addr", "add", f"{self.network}.{number}/24", "dev", "mgmt0")
            enclosure.call("ip", "-n", space, "link", "set", "mgmt0", "up")

    def _configure(self) -> None:
        for name in ("state", "pmix", "shm", *(f"spool.{n}" for n in self.names)):
            (self.dir / name).mkdir()
        key = self.dir / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        last = len(self.names)
        listed = f"{self.prefix}[1-{last}]" if last > 1 else self.names[0]
        addresses = f"{self.network}.[1-{last}]" if last > 1 else f"{self.network}.1"
        values = {"name": self.prefix, "controller": f"{self.network}.254", "dir": self.dir, "nodes": listed, "addresses": addresses, "cpus": self.cpus}
        (self.dir / "slurm.conf").write_text(CONF.format(**values) + self.conf.replace("{dir}", str(self.dir)))
        (self.dir / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.dir}/pmix\n")
        (self.dir / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for name, text in self.files.items():
            (self.dir / name).write_text(text.replace("{dir}", str(self.dir)))
            (self.dir / name).chmod(0o755)

    def _start(self, name: str, words: list[str]) -> None:
        log = open(self.dir / f"{name}.out", "wb")
        self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True))

    def _start_daemons(self) -> None:
        munge = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
        self._start("munged", [find("munged") or "", "--foreground", "--force", *(f"--{k}={self.dir / v}" for k, v in munge.items())])
        deadline = time.monotonic() + 10
        while not (self.dir / "munge.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        # Slurm asks the host for its name.
        named = ["unshare", "--uts", "--mount", "--propagation", "private", "sh", "-c"]
        self._start("slurmctld", [*named, 'hostname ctl; exec "$@"', "sh", find("slurmctld") or "", "-D", "-c", "-f", f"{self.dir}/slurm.conf"])
        for name, space in zip(self.names, self.namespaces):
            # `ip netns exec` gives a mount namespace; own /dev/shm and PMIx directories make it a node.
            private = f'hostname {name}; mount -t tmpfs none /dev/shm; mount -t tmpfs none {self.dir}/pmix; exec "$@"'
            slurmd = [find("slurmd") or "", "-D", "-N", name, "-f", f"{self.dir}/slurm.conf"]
            self._start(f"slurmd.{name}", ["ip", "netns", "exec", space, *named, private, "sh", *slurmd])

    def _await_nodes(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            done = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], env=self.env, capture_output=True, text=True)
            if sum(line.split()[-1] == "idle" for line in done.stdout.splitlines()) == self.nodes:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the nodes have not come up:\n{done.stdout}{done.stderr}{self.log()}")

    def log(self, lines: int = 15) -> str:
        """The end of each daemon's log."""
        out = ""
        for path in sorted(self.dir.glob("*.log")) + sorted(self.dir.glob("*.out")):
            text = path.read_text(errors="replace").splitlines()[-lines:]
            out += "".join(f"{path.name}: {line}\n" for line in text)
        return out

    def run(self, command: collections.abc.Sequence[str], *, timeout: float = 60, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Runs a command on the login host; exit code (-1 after `timeout` seconds) and both outputs."""
        process = subprocess.Popen(command, env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        try:
            text, _ = process.communicate(timeout=timeout)
            return process.returncode, text
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            subprocess.run(["scancel", "--state=RUNNING", "--user=root"], env=self.env, capture_output=True)
            return -1, text

    def down(self) -> None:
        """Ends everything and removes what it has made."""
        # slurmd's steps are in sessions of their own.
        subprocess.run(["scancel", "--user=root"], env=self.env, capture_output=True, timeout=20)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()
        for name, space in zip(self.names, self.namespaces):
            subprocess.run(["ip", "link", "del", f"m-{name}"], capture_output=True)
            if self.own_namespaces:
                subprocess.run(["ip", "netns", "del", space], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()


def main() -> int:
    if sys.argv[1:2] == ["--init"]:
        enclosure.furnish()
        enclosure.call("hostname", "ctl")
        return enclosure.be_first_process(sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    reason = unavailable()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return 77
    if not is_inside():
        return enter()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    with Cluster(options.nodes, options.cpus) as cluster:
        return subprocess.run(command or ["bash"], env=cluster.env).returncode


if __name__ == "__main__":
    sys.exit(main())
