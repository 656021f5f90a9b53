"""The engines of the testbed. Each starts containers that sleep and tells how a command is run in one (`enter`).

Only for processes inside a bed (bed.py). `start` returns the reason why an engine can't run here, or nothing.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

import bed
import image

START_S = 30.0


class Unavailable(Exception):
    """An engine, or one of its features, can't be had on this machine; the text says why."""


@dataclasses.dataclass(frozen=True)
class Container:
    """A running container: the name under which mpiexec knows it as a host, and the words that run a command in it."""

    name: str
    engine: str
    enter: tuple[str, ...]

    def run(self, *command: str, timeout_s: float = 30) -> str:
        """Runs a command inside and returns what it printed."""
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {shlex.join(command)}: {done.stdout[-300:]}{done.stderr[-300:]}")
        return done.stdout


def call(*words: str, timeout_s: float = 60) -> str:
    """Runs an engine's command; a failure is Unavailable with its last words."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{shlex.join(words[:3])} took more than {timeout_s:.0f} s") from None
    except OSError as error:
        raise Unavailable(str(error)) from None
    if done.returncode:
        raise Unavailable(f"{shlex.join(words[:3])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout.strip()


def register(container: Container) -> Container:
    """Makes the container known to enter.sh, so that `mpiexec --launcher-exec` reaches it by its name."""
    (bed.slot() / "hosts" / container.name).write_text(shlex.join(container.enter) + "\n")
    return container


def launcher() -> str:
    """The text for `mpiexec --launcher-exec`: any container of any engine, or `plain…` for a process outside of all."""
    return f"{bed.HERE}/enter.sh {{host}} {{command}}"


def volumes() -> list[str]:
    """Options of docker and podman that make image.VISIBLE visible, and what symbolic links directly in it lead to."""
    links = (entry.resolve() for place in image.VISIBLE for entry in place.iterdir() if entry.is_symlink() and entry.is_dir())
    return [word for place in (*image.VISIBLE, *links) for word in ("-v", f"{place}:{place}:ro")]


#: Options of docker and podman for a container that shares image.SHARED with others.
SHARE = ("-v", f"{image.SHARED}:{image.SHARED}")


class Docker:
    """Debian's (or any) dockerd, run by hand. Its default seccomp profile, capabilities and 64 MB /dev/shm are those that users meet."""

    name = "docker"

    def start(self) -> str | None:
        """Starts the daemon and loads the image."""
        if not shutil.which("dockerd"):
            return "no dockerd"
        reason: str | None = None
        for driver in ("overlay2", "vfs"):
            reason = self._start_daemon(driver)
            if reason is None:
                break
        if reason:
            return reason
        try:
            for old in call("docker", "ps", "-aq").split():
                call("docker", "rm", "-f", old)
            if not call("docker", "images", "-q", image.TAG):
                archive = subprocess.Popen(["tar", "-C", str(image.rootfs()), "-c", "."], stdout=subprocess.PIPE)
                subprocess.run(["docker", "import", "-", image.TAG], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True, timeout=120)
                archive.wait()
        except (Unavailable, subprocess.SubprocessError) as error:
            return str(error)
        return None

    def _start_daemon(self, driver: str) -> str | None:
        log = bed.slot() / "dockerd.log"
        settings = bed.slot() / "etc/daemon.json"
        settings.write_text("{}\n")  # Not those of a daemon that this machine may have.
        command = ["dockerd", "--storage-driver", driver, "--bip", "10.78.0.1/24", "--cgroup-parent", bed.cgroup_parent(),
                   "--exec-opt", "native.cgroupdriver=cgroupfs", "--shutdown-timeout", "1", "--config-file", str(settings)]
        if pathlib.Path("/proc/sys/net/ipv6").exists():
            command += ["--ip6tables=false"]
        with open(log, "w") as out:
            daemon = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + START_S
        while time.monotonic() < end and daemon.poll() is None:
            if subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
                return None
            time.sleep(0.1)
        daemon.kill()
        daemon.wait()
        return f"dockerd doesn't come up with {driver}: {log.read_text()[-300:].strip()}"

    def run(self, name: str, *options: str, image_tag: str = image.TAG) -> Container:
        """Starts a container that sleeps; see image.VISIBLE for what it sees of the host."""
        host = [] if any("=container:" in o for o in options) else ["--hostname", name]
        call("docker", "run", "-d", "--init", "--name", name, *host, *volumes(), *options, image_tag, "sleep", "infinity")
        return register(Container(name, self.name, ("docker", "exec", "-i", name)))

    def remove(self, *names: str) -> None:
        subprocess.run(["docker", "rm", "-f", *names], capture_output=True)


class Podman:
    """Podman with runc as root; `--uidmap` gives a container a user namespace of its own."""

    name = "podman"

    def start(self) -> str | None:
        if not shutil.which("podman") or not shutil.which("runc"):
            return "no podman or no runc"
        try:
            for old in call("podman", "ps", "-aq").split():
                call("podman", "rm", "-f", "-t", "0", old)
            if not call("podman", "images", "-q", image.TAG):
                archive = subprocess.Popen(["tar", "-C", str(image.rootfs()), "-c", "."], stdout=subprocess.PIPE)
                subprocess.run(["podman", "import", "-q", "-", image.TAG], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True, timeout=120)
                archive.wait()
            container = self.run("podman-probe")
            container.run("true")
            self.remove(container.name)
        except (Unavailable, RuntimeError, subprocess.SubprocessError) as error:
            return str(error)
        return None

    def run(self, name: str, *options: str) -> Container:
        """Starts a container that sleeps."""
        call("podman", "run", "-d", "--name", name, "--hostname", name, "--cgroup-parent", bed.cgroup_parent(),
             *volumes(), *options, image.TAG, "sleep", "infinity")
        return register(Container(name, self.name, ("podman", "exec", "-i", name)))

    def remove(self, *names: str) -> None:
        subprocess.run(["podman", "rm", "-f", "-t", "0", *names], capture_output=True)


class Charliecloud:
    """Charliecloud: user and mount namespaces only; a container is no more than the process that runs in it."""

    name = "charliecloud"

    def start(self) -> str | None:
        if not shutil.which("ch-run"):
            return "no ch-run"
        try:
            self.run("ch-probe").run("true")
        except (Unavailable, RuntimeError) as error:
            return str(error)
        return None

    def run(self, name: str, *options: str) -> Container:
        """A container that shares image.SHARED with all others."""
        binds = [word for place in (*image.VISIBLE, image.SHARED) for word in ("-b", f"{place}:{place}")]
        return register(Container(name, self.name, ("ch-run", "-t", *binds, *options, str(image.rootfs()), "--")))

    def remove(self, *names: str) -> None:
        """Nothing is left of a process that has ended."""


class Unshare:
    """Plain namespaces by unshare(1): a sleeping process holds them, with its own interface on a bridge if it has a network of its own."""

    name = "unshare"
    BRIDGE = "bed0"

    def __init__(self) -> None:
        self.holders: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> str | None:
        try:
            call("unshare", "--user", "--map-root-user", "--pid", "--fork", "true")
            if subprocess.run(["ip", "link", "show", self.BRIDGE], capture_output=True).returncode:
                call("ip", "link", "add", self.BRIDGE, "type", "bridge")
                call("ip", "addr", "add", "10.79.0.1/24", "dev", self.BRIDGE)
                call("ip", "link", "set", self.BRIDGE, "up")
                # Docker lets nothing pass between other interfaces; here all containers shall reach each other.
                for way in ("-i", "-o"):
                    call("iptables", "-I", "FORWARD", way, self.BRIDGE, "-j", "ACCEPT")
        except Unavailable as error:
            return str(error)
        return None

    def run(self, name: str, *options: str) -> Container:
        """`options` are unshare's: which namespaces are new. The file system is that of the bed."""
        fork = ["--fork", "--kill-child"] if "--pid" in options else []
        holder = subprocess.Popen(["unshare", *options, *fork, "sleep", "infinity"], stdin=subprocess.DEVNULL, start_new_session=True)
        self.holders[name] = holder
        pid = self._sleeper(holder)
        enter = ["nsenter", "--target", str(pid), "--mount"] if "--mount" in options else ["nsenter", "--target", str(pid)]
        for option in ("user", "pid", "net", "ipc", "uts", "cgroup"):
            if f"--{option}" in options:
                enter.append(f"--{option}")
        if "--user" in options:
            enter.append("--preserve-credentials")
        if "--uts" in options:
            call(*enter, "hostname", name)
        if "--net" in options:
            self._connect(pid, len(self.holders))
        return register(Container(name, self.name, tuple(enter)))

    @staticmethod
    def _sleeper(holder: subprocess.Popen[bytes]) -> int:
        """The process that sleeps: unshare itself after exec, or its child."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            for pid in (*map(int, children), holder.pid):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    return pid
            time.sleep(0.01)
        raise Unavailable("unshare doesn't start")

    def _connect(self, pid: int, number: int) -> None:
        inside = ["nsenter", "--target", str(pid), "--net"]
        call("ip", "link", "add", f"bed-v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        call("ip", "link", "set", f"bed-v{number}", "master", self.BRIDGE, "up")
        call(*inside, "ip", "addr", "add", f"10.79.0.{number + 10}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            call(*inside, "ip", "link", "set", link, "up")
        call(*inside, "ip", "route", "add", "default", "via", "10.79.0.1")

    def remove(self, *names: str) -> None:
        for name in names:
            holder = self.holders.get(name)
            if holder and holder.poll() is None:
                os.killpg(holder.pid, signal.SIGKILL)
                holder.wait()


def plain(name: str) -> Container:
    """Not a container at all: a process of the bed. The name must begin with `plain`."""
    assert re.fullmatch(r"plain\w*", name)
    return register(Container(name, "plain", ("env",)))


ENGINES = {engine.name: engine for engine in (Docker, Podman, Charliecloud, Unshare)}
