"""Hosts with a real sshd each, in namespaces: accounts, keys, ports, shells, and hosts that misbehave.

    sys.exit(ssh_bed.enter()) unless ssh_bed.is_inside()      puts a Python script into a private world first
    with ssh_bed.Bed([Host(), Host(port=2222)]) as bed: bed.start(["ssh", "n2", "hostname"])

In the private world (own mount, network, process and host-name namespaces) nothing can be left behind: when its first process ends, or whoever
started it is killed in whatever way, the kernel ends all hosts and removes their interfaces and files.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import enclosure

MARK = "SSH_BED"
RUN = pathlib.Path("/run/ssh-bed")
NETWORK = "10.31.0"
#: Accounts and their numbers. `nokey` has no authorized key.
ACCOUNTS = {"root": 0, "alice": 61001, "nokey": 61002}
SSHD = """Port {port}
HostKey {dir}/host_key
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PrintMotd no
MaxStartups 64
AuthorizedKeysFile %h/.ssh/authorized_keys
"""


@dataclasses.dataclass
class Host:
    """`kind`: plain, silent (accepts and says nothing), blackhole (answers nothing), closed (refuses), unknown (its key isn't known)."""

    kind: str = "plain"
    port: int = 22
    shell: str = "/bin/sh"
    #: Printed by the login shell whenever it starts.
    banner: str = ""
    #: A directory that is empty on this host.
    hidden: str = ""
    #: Another name for a directory on this host: path, and what it shows.
    renamed: tuple[str, str] | None = None


def unavailable() -> str | None:
    """Why there can be no hosts here, or nothing."""
    if os.geteuid() != 0:
        return "the ssh testbed needs root"
    missing = [name for name in ("sshd", "ssh", "ssh-keygen", "ip", "tcsh") if not find(name)]
    if missing:
        return f"not installed: {', '.join(missing)} (examples/prepare.sh ssh)"
    if subprocess.run(["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "true"], capture_output=True).returncode:
        return "this machine doesn't let root make namespaces"
    return None


def find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def is_inside() -> bool:
    """Whether this process runs in a private world."""
    return MARK in os.environ


def enter() -> int:
    """Runs this script with its arguments in a private world; returns its exit code."""
    inner = [sys.executable, str(pathlib.Path(__file__).resolve()), "--init", sys.executable, *sys.argv]
    return enclosure.run(inner, dict(os.environ, **{MARK: "1"}), more=["--uts"])


class Bed:
    """The hosts n1, n2 … of one network; commands run on n1."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = list(hosts)
        self.names = [f"n{i}" for i in range(1, len(self.hosts) + 1)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.logs: list[IO[bytes]] = []

    def __enter__(self) -> Bed:
        try:
            self._up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _up(self) -> None:
        RUN.mkdir()
        enclosure.call("ip", "link", "add", "br0", "type", "bridge")
        enclosure.call("ip", "link", "set", "br0", "up")
        self._accounts()
        for number, (name, host) in enumerate(zip(self.names, self.hosts), 1):
            self._host(number, name, host)
        for number, host in enumerate(self.hosts, 1):
            if host.kind in ("plain", "unknown"):
                self._await(number, host)

    def _accounts(self) -> None:
        """One key for all accounts; each host shows its own home directories at the same paths."""
        enclosure.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(RUN / "id"))
        names = [f"{NETWORK}.{i} {name}" for i, name in enumerate(self.names, 1)]
        (RUN / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(names) + "\n")
        known = []
        for number, (name, host) in enumerate(zip(self.names, self.hosts), 1):
            folder = RUN / name
            folder.mkdir()
            enclosure.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key"))
            key = " ".join((folder / "host_key.pub").read_text().split()[:2])
            if host.kind != "unknown":
                known += [f"{place if host.port == 22 else f'[{place}]:{host.port}'} {key}" for place in (name, f"{NETWORK}.{number}")]
        ports = "".join(f"Host {name}\n  Port {host.port}\n" for name, host in zip(self.names, self.hosts) if host.port != 22)
        for name, host in zip(self.names, self.hosts):
            folder = RUN / name
            lines = [f"{user}:x:{uid}:{uid}::/run/ssh-bed/home/{user}:{host.shell}" for user, uid in ACCOUNTS.items()]
            (folder / "passwd").write_text("\n".join([*lines, "sshd:x:61099:65534::/run/sshd:/usr/sbin/nologin", "nobody:x:65534:65534::/:/usr/sbin/nologin"]) + "\n")
            (folder / "shadow").write_text("".join(f"{user}:*:19000:0:99999:7:::\n" for user in [*ACCOUNTS, "sshd", "nobody"]))
            (folder / "sshd_config").write_text(SSHD.format(port=host.port, dir=folder))
            for user, uid in ACCOUNTS.items():
                ssh = folder / "home" / user / ".ssh"
                ssh.mkdir(parents=True)
                shutil.copy(RUN / "id", ssh / "id_ed25519")
                (ssh / "known_hosts").write_text("\n".join(known) + "\n")
                (ssh / "config").write_text(ports)
                if user != "nokey":
                    shutil.copy(RUN / "id.pub", ssh / "authorized_keys")
                if host.banner:
                    # A Bourne shell reads no file when it runs a command; csh reads this one always.
                    (ssh.parent / ".cshrc").write_text(f"echo '{host.banner}'\n")
                for path in [ssh.parent, *ssh.parent.rglob("*")]:
                    os.chown(path, uid, uid)
                    path.chmod(0o700 if path.is_dir() else 0o600)

    def _host(self, number: int, name: str, host: Host) -> None:
        """Namespaces, an address, and sshd or what stands in for it as process 1 of the host."""
        folder = RUN / name
        steps = [
            f"hostname {name}", "ip link set lo up", "mount -t tmpfs -o mode=1777 none /dev/shm",
            f"mount --bind {folder}/passwd /etc/passwd", f"mount --bind {folder}/shadow /etc/shadow", f"mount --bind {RUN}/hosts /etc/hosts",
            f"mkdir -p /run/sshd {RUN}/home", f"mount --bind {folder}/home {RUN}/home",
            f"while ! ip addr add {NETWORK}.{number}/24 dev eth0 2>/dev/null; do sleep 0.01; done", "ip link set eth0 up",
        ]
        if host.renamed:
            steps += [f"mkdir -p {host.renamed[0]}", f"mount --bind {host.renamed[1]} {host.renamed[0]}"]
        if host.hidden:
            steps.append(f"mount -t tmpfs none {host.hidden}")
        # The first process of a host has to reap what others leave to it, so it is a shell.
        if host.kind == "blackhole":
            # It has an address, and no way to answer.
            steps += [f"ip route add blackhole {half}" for half in (f"{NETWORK}.0/25", f"{NETWORK}.128/25")]
        daemon = {"blackhole": "sleep infinity", "silent": f"exec {sys.executable} {pathlib.Path(__file__).resolve()} --silent {host.port}", "closed": "sleep infinity"}
        steps.append(daemon.get(host.kind, f"{find('sshd')} -D -e -f {folder}/sshd_config"))
        log = open(folder / "log", "wb")
        self.logs.append(log)
        # With a last command the shell doesn't become the daemon.
        script = "; ".join([*(f"{step} || exit 1" for step in steps[:-1]), steps[-1], "exit $?"])
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--net", "--pid", "--uts", "--mount-proc", "--fork",
                 "--kill-child=SIGKILL", "sh", "-c", script]
        env = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        env["PATH"] = env.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True)
        self.processes[number] = process
        outside = self.first_process(number)
        enclosure.call("ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(outside))
        enclosure.call("ip", "link", "set", f"v{number}", "master", "br0", "up")

    def first_process(self, number: int) -> int:
        """Process 1 of a host, by the number that it has in this world."""
        launcher = self.processes[number].pid
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
            if children and os.readlink(f"/proc/{children[0]}/ns/net") != os.readlink("/proc/self/ns/net"):
                return int(children[0])
            time.sleep(0.005)
        raise RuntimeError(f"host n{number} has not started")

    def _await(self, number: int, host: Host) -> None:
        """sshd says its first line."""
        enter = ["nsenter", "--target", str(self.first_process(1)), "--net", sys.executable, "-c",
                 f"import socket; s = socket.create_connection(('{NETWORK}.{number}', {host.port}), 2); assert s.recv(4) == b'SSH-'"]
        deadline = time.monotonic() + 20
        while subprocess.run(enter, stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError(f"sshd of n{number}: {(RUN / f'n{number}' / 'log').read_text()[-400:]}")
            time.sleep(0.02)

    def words(self, command: Sequence[str], user: str = "root") -> list[str]:
        """The words that run a command on n1."""
        uid = str(ACCOUNTS[user])
        enter = ["nsenter", "--target", str(self.first_process(1)), "--mount", "--net", "--pid", "--uts"]
        account = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        return [*enter, *account, "sh", "-c", f'cd {RUN}/home/{user} && exec "$@"', "sh", *command]

    def start(self, command: Sequence[str], user: str = "root", env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a command on n1."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        kept.update(HOME=f"{RUN}/home/{user}", USER=user, **(env or {}))
        return subprocess.Popen(self.words(command, user), env=kept, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def processes_of(self, number: int) -> dict[int, str]:
        """All processes of a host but sshd's listener and the first one: number in this world, and command line."""
        space = os.readlink(f"/proc/{self.first_process(number)}/ns/pid")
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if os.readlink(f"/proc/{entry}/ns/pid") == space and line:
                        found[int(entry)] = line
                except OSError:
                    continue
        idle = ("sh -c hostname", "sshd: /", "sleep infinity", f"{sys.executable} {pathlib.Path(__file__).resolve()} --silent")
        return {pid: line for pid, line in found.items() if not any(part in line for part in idle)}

    def down(self) -> None:
        """Ends all hosts."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        for log in self.logs:
            log.close()
        self.processes.clear()
        # A cable goes with its host's namespace, but some time later: the next bed would find it there.
        for device in [*(f"v{number}" for number in range(1, len(self.hosts) + 1)), "br0"]:
            subprocess.run(["ip", "link", "delete", device], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(RUN, ignore_errors=True)


def _be_silent(port: int) -> None:
    """Accepts connections, and says nothing."""
    listener = socket.create_server(("", port))
    callers = []
    while True:
        callers.append(listener.accept())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--init"]:
        enclosure.furnish()
        sys.exit(enclosure.be_first_process(sys.argv[2:]))
    if sys.argv[1:2] == ["--silent"]:
        _be_silent(int(sys.argv[2]))
