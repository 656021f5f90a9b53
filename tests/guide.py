#!/usr/bin/env python3
"""The install guide, followed by a script: the commands of docs/user/install.md, in a Debian that has nothing yet, up to a job on two hosts that are joined by ssh.

The commands are read from the page. The root file system is made by mmdebstrap, unpacked anew for each way, and entered by chroot in namespaces that end with the test; so do
its mounts and processes. A user `reader`, who may use sudo, types the commands. The hosts node1 and node2 are network namespaces with one file system; node2 has an sshd.

Needs root and the network: Debian's packages, and with --source also Rust and crates. Packages are kept in build/guide.

Usage: tests/guide.py [--source]      from the .deb; or from source (ten minutes)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import cases
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "testbeds/common"), str(ROOT / "testbeds/containers")]
import enclosure
import image

PAGE = ROOT / "docs/user/install.md"
STORE = ROOT / "build/guide"
#: What a host of a cluster has. Compilers are not among it.
PACKAGES = "sudo,openssh-server,openssh-client,iproute2"
#: Changes whenever the root does.
VERSION = "1"
HOME = "/home/reader"
NODES = {"node1": "10.97.0.1", "node2": "10.97.0.2"}
LIMIT_S = {"deb": 3 * patience.WATCHDOG_S, "source": 30 * patience.WATCHDOG_S}


def blocks(page: str, heading: str) -> list[list[str]]:
    """The blocks of commands below a heading that begins with `heading`, up to the next heading."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.M)
    [text] = [text for title, text in zip(parts[1::2], parts[2::2]) if title.startswith(heading)]
    found: list[list[str]] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("    ") and line.strip():
            if not before.startswith("    "):
                found.append([])
            found[-1].append(line.strip())
        before = line
    return found


def line_with(lines: list[list[str]], word: str) -> str:
    """The one command in which `word` is."""
    found = [line for block in lines for line in block if word in line]
    assert len(found) == 1, f"{PAGE.name}: {len(found)} commands with {word}: {found}"
    return found[0]


class Machine:
    """A Debian below `place`, and who types there."""

    def __init__(self, place: pathlib.Path, limit_s: float) -> None:
        self.root, self.limit_s = place / "root", limit_s
        self.home = self.root / HOME.lstrip("/")
        self.exports: list[str] = []
        self.folder = HOME
        self.root.mkdir()
        check("tar", "-xf", str(base()), "-C", str(self.root))
        (STORE / "archives/partial").mkdir(parents=True, exist_ok=True)
        # The host's own authorities and names, as the administrator of a site would set them up; and the answer to apt's question.
        for source in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copyfile(source, self.root / source.lstrip("/"))
        authorities = self.root / "usr/local/share/ca-certificates"
        authorities.mkdir(parents=True, exist_ok=True)
        for path in pathlib.Path("/usr/local/share/ca-certificates").glob("*.crt"):
            shutil.copyfile(path, authorities / path.name)
        (self.root / "etc/apt/apt.conf.d/90guide").write_text('APT::Get::Assume-Yes "true";\nAPT::Keep-Downloaded-Packages "true";\nBinary::apt::APT::Keep-Downloaded-Packages "true";\n')
        (self.root / "etc/dpkg/dpkg.cfg.d/guide").write_text("force-unsafe-io\n")
        (self.root / "etc/sudoers.d/reader").write_text("reader ALL=(ALL) NOPASSWD: ALL\nDefaults env_keep += \"DEBIAN_FRONTEND\"\n")
        self.inside("apt-get -q update && useradd --create-home --shell /bin/bash reader", user=False)

    def inside(self, command: str, user: bool = True, hosts: bool = False) -> str:
        """Runs a command, of root or of the reader, with the host's network or on node1; returns what it prints."""
        words = ["chroot", *(["--userspec=reader:reader"] if user else []), str(self.root), "/usr/bin/env", "-i", f"HOME={HOME if user else '/root'}", "LANG=C.UTF-8",
                 "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/local/bin:/usr/bin:/bin" + ("" if user else ":/usr/sbin:/sbin"), f"USER={'reader' if user else 'root'}",
                 *(f"{name}={value}" for name, value in os.environ.items() if name.lower() in ("http_proxy", "https_proxy", "no_proxy")),
                 "/bin/bash", "-c", f"set -e; umask 022; cd {self.folder if user else '/'}\n" + "".join(f"{line}\n" for line in self.exports if user) + command]
        mine = [sys.executable, str(pathlib.Path(__file__).resolve()), "--inside", str(self.root), "hosts" if hosts else "alone", *words]
        flags = [*(flag for flag in enclosure.FLAGS if hosts or flag != "--net"), "--uts"]
        begin = time.monotonic()
        done = subprocess.run(["setpriv", "--pdeathsig", "KILL", "unshare", *flags, *mine], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=self.limit_s)
        assert done.returncode == 0, f"{command!r}: exit code {done.returncode}: …{done.stdout[-3000:]}"
        print(f"{time.monotonic() - begin:6.1f} s  {command[:80]}", flush=True)
        return done.stdout

    def types(self, command: str, hosts: bool = False) -> str:
        """What a reader types: what it exports holds for what is typed later."""
        if command.startswith("export "):
            self.exports.append(command)
            return ""
        return self.inside(command, hosts=hosts)


def check(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def base() -> pathlib.Path:
    """The root file system as an archive. It is made once."""
    archive = STORE / f"root-{image.codename()}-{VERSION}.tar"
    if not archive.exists():
        STORE.mkdir(parents=True, exist_ok=True)
        new = archive.with_suffix(".new.tar")
        check("mmdebstrap", "--variant=apt", f"--include={PACKAGES}", "--quiet", image.codename(), str(new))
        new.rename(archive)
    return archive


def world(root: pathlib.Path, hosts: bool, command: list[str]) -> int:
    """Process 1 of the namespaces: mounts what a running system has, makes the hosts if wanted, and runs the command on the first one."""
    for words in (("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "run"), ("tmpfs", "tmp")):
        enclosure.call("mount", "--no-mtab", "-t", words[0], *(["-o", "mode=1777"] if words[1] == "tmp" else []), "guide", str(root / words[1]))
    enclosure.call("mount", "--no-mtab", "--rbind", "/dev", str(root / "dev"))
    enclosure.call("mount", "--no-mtab", "-t", "tmpfs", "-o", "mode=1777", "guide", str(root / "dev/shm"))
    enclosure.call("mount", "--no-mtab", "--bind", str(STORE / "archives"), str(root / "var/cache/apt/archives"))
    enclosure.call("hostname", "node1")
    if hosts:
        (root / "run/sshd").mkdir(mode=0o755)
        node2 = subprocess.Popen(["unshare", "--net", "--uts", "chroot", str(root), "/bin/sh", "-c", "hostname node2; echo up; exec /usr/sbin/sshd -D -e"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL)
        assert node2.stdout and node2.stdout.readline() == b"up\n", "node2 does not start"
        enclosure.call("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(node2.pid))
        for enter, address in zip(([], ["nsenter", f"--net=/proc/{node2.pid}/ns/net"]), NODES.values()):
            enclosure.call(*enter, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                enclosure.call(*enter, "ip", "link", "set", link, "up")
        assert patience.until(lambda: answers(NODES["node2"])), "node2's sshd does not answer"
    return enclosure.be_first_process(command)


def answers(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=1):
        return True
    return False


def prepare_ssh(machine: Machine) -> None:
    """A key of the reader, which node2 accepts, and the key of node2, which the reader knows."""
    (machine.root / "etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in NODES.items()))
    machine.inside("mkdir -pm 700 ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys; "
                   "echo node2 $(cat /etc/ssh/ssh_host_ed25519_key.pub) > ~/.ssh/known_hosts")


def a_job_runs(machine: Machine, page: str) -> None:
    """Parts 2 to 4 of the page."""
    for command in [line for block in blocks(page, "2. ") for line in block]:
        machine.types(command)
    said = {command.split()[0]: machine.types(command) for block in blocks(page, "3. ") for command in block}
    ranks = sorted(said["mpiexec"].splitlines())
    assert ranks == [f"rank {i} of 4 on node1" for i in range(4)] + ["sum of the ranks: 6"], said["mpiexec"]
    assert re.search(r"why:\s+0 → 1", said["ferrule"]), said["ferrule"]
    prepare_ssh(machine)
    others = blocks(page, "4. ")[0]
    assert machine.types(line_with([others], "ssh -o"), hosts=True) == "", "ssh says something"
    answer = machine.types(line_with([others], "-hosts node1,node2"), hosts=True)
    assert sorted(answer.splitlines()) == [f"rank {i} of 4 on node{1 + i // 2}" for i in range(4)] + ["sum of the ranks: 6"], answer


def nothing_is_left(machine: Machine) -> None:
    assert not (machine.root / "opt/ferrule").exists(), "/opt/ferrule is there after the removal"
    mounts = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(machine.root) in line]
    assert not mounts, mounts


def from_deb(place: pathlib.Path) -> None:
    page = PAGE.read_text()
    machine = Machine(place, LIMIT_S["deb"])
    check("build/venv/bin/python", "packaging/build.py", "--out", str(place / "packages"))
    [package] = (place / "packages").glob("*.deb")
    shutil.copyfile(package, machine.home / package.name)
    part = blocks(page, "Or from a package")
    for word in (".deb", "apt install gcc", "export PATH", "cp -r"):
        machine.types(line_with(part, word))
    a_job_runs(machine, page)
    assert "`sudo apt remove ferrule`" in page
    machine.types("sudo apt remove ferrule")
    nothing_is_left(machine)


def from_source(place: pathlib.Path) -> None:
    page = PAGE.read_text()
    machine = Machine(place, LIMIT_S["source"])
    machine.folder = f"{HOME}/ferrule"
    names = check("git", "ls-files", "-z")
    (machine.home / "ferrule").mkdir()
    subprocess.run(["tar", "-x", "-C", str(machine.home / "ferrule")], check=True, input=subprocess.run(
        ["tar", "-c", "--null", "--files-from=-"], cwd=ROOT, input=names.encode(), stdout=subprocess.PIPE, check=True).stdout)
    machine.inside(f"chown -R reader:reader {HOME}/ferrule", user=False)
    for command in blocks(page, "1. ")[0]:
        machine.types(command)
    a_job_runs(machine, page)
    assert "`sudo make uninstall PREFIX=/opt/ferrule`" in page
    machine.types("sudo make uninstall PREFIX=/opt/ferrule")
    nothing_is_left(machine)


def unavailable() -> str | None:
    """Why the guide can't be followed here, or nothing."""
    if os.geteuid() != 0:
        return "chroot needs root"
    missing = [name for name in ("mmdebstrap", "unshare", "nsenter", "ip") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)} (examples/prepare.sh test)"
    if subprocess.run(["unshare", *enclosure.FLAGS, "--uts", "true"], capture_output=True).returncode:
        return "this machine doesn't let root make namespaces"
    return None


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        return world(pathlib.Path(sys.argv[2]), sys.argv[3] == "hosts", sys.argv[4:])
    if reason := unavailable():
        print(f"SKIP: {reason}\nguide: 0 passed, 0 failed, 1 skipped")
        return 0
    way: cases.Case = ("source", from_source) if "--source" in sys.argv[1:] else ("deb", from_deb)
    work = STORE / way[0]
    work.mkdir(parents=True, exist_ok=True)
    with open(STORE / f"{way[0]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What a run that was killed by SIGKILL has left: files only, for its mounts ended with it.
        for old in work.iterdir():
            shutil.rmtree(old)
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        return cases.run("guide", [way], below=str(work))


if __name__ == "__main__":
    sys.exit(main())
