#!/usr/bin/env python3
"""A private world for container engines: own mount, network and process namespaces that vanish with the command that runs in them.

    testbeds/containers/bed.py [--engines docker,podman] COMMAND ...     runs COMMAND with the engines at hand
    sys.exit(bed.enter()) unless bed.is_inside()                         does the same to a Python script

Inside, `docker`, `podman`, `ch-run` and `unshare` work as on a machine that has them installed, but on storage, networks and sockets of
their own: /run is empty, /var/lib/docker and /var/lib/containers lie in build/containers/slot-N, the only interface is lo until an
engine makes its bridge. The first process inside is process 1 of the namespace: when it ends, or whoever started it is
killed in whatever way, the kernel ends daemons and containers, mounts and interfaces. What remains are files of the slot
and empty cgroups, which the next user of the slot removes.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import enclosure
import image

MARK = "CONTAINER_BED"
PODMAN_CONF = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
cgroups = "enabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""


def is_inside() -> bool:
    """Whether this process runs in a bed."""
    return MARK in os.environ


def slot() -> pathlib.Path:
    """The directory of the bed that this process runs in."""
    return pathlib.Path(os.environ[MARK])


def cgroup_parent(place: pathlib.Path | None = None) -> str:
    """The cgroup below which all containers of a bed (this one) are."""
    return f"/ferrule-{(place or slot()).name}-{image.ROOT.stat().st_ino}"


def unavailable() -> str | None:
    """Why no bed can be had here, or nothing."""
    if os.geteuid() != 0:
        return "the container testbed needs root"
    if sys.platform != "linux" or subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True).returncode:
        return "this machine doesn't let root make namespaces"
    return None


def enter(command: list[str] | None = None) -> int:
    """Runs `command` (default: this script with its arguments) in a bed; returns its exit code."""
    reason = unavailable()
    if reason:
        print(f"skipped: {reason}")
        return 0
    subprocess.run([str(HERE / "prepare.sh")], check=True)
    image.rootfs()
    place, lock = _take_slot()
    words = command or [sys.executable, *sys.argv]
    env = dict(os.environ, **{MARK: str(place)})
    inner = [sys.executable, str(HERE / "bed.py"), "--init", *words]
    # The descriptor of the lock lives in process 1 of the bed: the slot is taken as long as anything in the bed lives.
    code = enclosure.run(inner, env, pass_fds=(lock.fileno(),))
    _remove_cgroups(place)
    return code


def _take_slot() -> tuple[pathlib.Path, typing.TextIO]:
    """A slot that nobody uses, cleaned of what its last user left."""
    for number in range(64):
        place = image.STORE / f"slot-{number}"
        place.mkdir(parents=True, exist_ok=True)
        lock = open(place / "lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return place, lock
    raise RuntimeError("64 beds are in use")


def _remove_leftovers() -> None:
    """What the last user of this slot left. Nothing of it is mounted or running any more."""
    place = slot()
    for name in ("hosts", "docker/containers", "docker/network"):
        shutil.rmtree(place / name, ignore_errors=True)
    _remove_cgroups(place)


def _remove_cgroups(place: pathlib.Path) -> None:
    for parent in (*pathlib.Path("/sys/fs/cgroup").glob(cgroup_parent(place)[1:]), *pathlib.Path("/sys/fs/cgroup").glob("*" + cgroup_parent(place))):
        for folder in sorted((p for p in parent.rglob("*") if p.is_dir()), reverse=True):
            _remove_directory(folder)
        _remove_directory(parent)


def _remove_directory(folder: pathlib.Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass


def _furnish() -> None:
    """Own /run, own storage of the engines, lo."""
    place = slot()
    _remove_leftovers()
    for name in ("hosts", "docker", "containers", "etc"):
        (place / name).mkdir(exist_ok=True)
    mount = ["mount", "--no-mtab"]
    subprocess.run([*mount, "-t", "tmpfs", "-o", "mode=755", "bed", "/run"], check=True)
    for name in ("lock", "user", image.SHARED):
        pathlib.Path("/run", name).mkdir()
    os.chmod(image.SHARED, 0o1777)
    for name, target in (("docker", "/var/lib/docker"), ("containers", "/var/lib/containers")):
        pathlib.Path(target).mkdir(parents=True, exist_ok=True)
        subprocess.run([*mount, "--bind", str(place / name), target], check=True)
    (place / "etc/containers.conf").write_text(PODMAN_CONF + f'[network]\nnetwork_config_dir = "{place}/etc/net"\n')
    (place / "etc/storage.conf").write_text('[storage]\ndriver = "overlay"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n')
    os.environ["CONTAINERS_CONF"] = str(place / "etc/containers.conf")
    os.environ["CONTAINERS_STORAGE_CONF"] = str(place / "etc/storage.conf")
    os.environ.setdefault("USER", "root")
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def main() -> int:
    if sys.argv[1:2] == ["--init"]:
        _furnish()
        return enclosure.be_first_process(sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engines", default="docker,podman", help="daemons to start and images to load first")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not is_inside():
        return enter()
    import engines

    for name in filter(None, options.engines.split(",")):
        reason = engines.ENGINES[name]().start()
        if reason:
            print(f"{name} is not available: {reason}", file=sys.stderr)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return subprocess.run(command or ["bash"]).returncode


if __name__ == "__main__":
    sys.exit(main())
