#!/usr/bin/env python3
"""Node agents isolated in every way that containers are, made by unshare: which of them find each other, and by which channel ranks talk.

    tests/locality.py [-k WORD]        runs the cases whose name has WORD in it

Each case runs one program that checks its data, on nodes of one or several kinds, and compares what `FERRULE_WHY=1` reports for each pair.
After each, no socket may be left in the directories that agents meet in, and no process of the job. Needs root and unshare; else all is skipped.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
BUILD = ROOT / "build/locality"
DIRECTORIES = ["/tmp", "/dev/shm"]

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Everybody exchanges 1 MiB with everybody and checks it; says how many processes share memory with it.
   With a file name: only ranks 1 and 2, after the file has appeared, and without an end in order. */
static void exchange(int rank, int to, int from) {
  int bytes = 1 << 20;
  char *out = malloc(bytes), *in = calloc(1, bytes);
  memset(out, 3 * rank + 1, bytes);
  MPI_Sendrecv(out, bytes, MPI_CHAR, to, 0, in, bytes, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < bytes; i++)
    if (in[i] != (char)(3 * from + 1)) MPI_Abort(MPI_COMM_WORLD, 9);
  free(out), free(in);
}
int main(int argc, char **argv) {
  int rank, size, shared;
  long mine, sum;
  MPI_Comm node;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    printf("ready %d\n", rank), fflush(stdout);
    while (access(argv[1], F_OK)) usleep(1000);
    if (rank) exchange(rank, 3 - rank, 3 - rank);
    printf("survived %d\n", rank), fflush(stdout);
    _exit(0);
  }
  for (int step = 0; step < size; step++) exchange(rank, (rank + step) % size, (rank - step + size) % size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &shared);
  mine = rank;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (sum != (long)size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 8);
  printf("rank %d shares with %d\n", rank, shared);
  MPI_Finalize();
  return 0;
}
"""

# $1 is the kind of node; the rest is the agent's command line. "hidden": private directories where agents would meet.
NODE = r"""#!/bin/sh
kind=$1; shift
apart="--pid --fork --mount-proc --ipc --uts --mount"
export TMPDIR=/tmp
# The tree with mpiexec may lie in a directory that is hidden.
hide='mount --bind "$LOCALITY_TEST_TREE" /media; for d in /tmp /dev/shm /run; do mount -t tmpfs none $d; done
mkdir -p "$LOCALITY_TEST_TREE"; mount --bind /media "$LOCALITY_TEST_TREE"; exec "$@"'
case $kind in
  given*) ;;
  *) unset FERRULE_NODE_FD ;;
esac
case $kind in
  plain*) exec "$@" ;;
  given*) exec unshare --user --map-root-user $apart --net sh -c "$hide" sh "$@" ;;
  pid*) exec unshare $apart "$@" ;;
  net*) exec unshare $apart --net "$@" ;;
  user*) exec unshare --user --map-root-user $apart --net "$@" ;;
  jobdir*) FERRULE_JOB_DIR=/mnt exec unshare $apart --net sh -c "mount --bind '$LOCALITY_TEST_DIRECTORY' /mnt; $hide" sh "$@" ;;
  hidden*) exec ip netns exec "$LOCALITY_TEST_NETWORK-${kind#hidden}" unshare $apart sh -c "$hide" sh "$@" ;;
  seen*) exec ip netns exec "$LOCALITY_TEST_NETWORK-${kind#seen}" unshare $apart "$@" ;;
  files*) FERRULE_LOCALITY=file exec unshare $apart --net "$@" ;;
  sandbox*) FERRULE_JOB_DIR=/mnt exec unshare $apart --net sh -c "mount --bind '$LOCALITY_TEST_DIRECTORY' /mnt; $hide" sh "$LOCALITY_TEST_FILTER" "$@" ;;
  off*) FERRULE_LOCALITY=off exec "$@" ;;
  node*) FERRULE_LOCALITY=node exec "$@" ;;
  vm*) FERRULE_LOCALITY=node FERRULE_IVSHMEM="$LOCALITY_TEST_DIRECTORY/region" exec unshare $apart --net "$@" ;;
  cabled*) FERRULE_LOCALITY=node FERRULE_IVSHMEM="$LOCALITY_TEST_DIRECTORY/region" exec ip netns exec "$LOCALITY_TEST_NETWORK-${kind#cabled}" "$@" ;;
  bare*) FERRULE_LOCALITY=node exec ip netns exec "$LOCALITY_TEST_NETWORK-${kind#bare}" "$@" ;;
  near*) FERRULE_IVSHMEM="$LOCALITY_TEST_DIRECTORY/region" exec unshare $apart --net "$@" ;;
esac
"""


@dataclasses.dataclass
class Case:
    """One job: `hosts` are kinds of nodes; `groups` are the ranks that must share memory, everybody else talks by TCP."""

    name: str
    hosts: str
    groups: list[set[int]]
    ranks: int = 3
    reason: str = ""
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    network: bool = False
    launcher: str = "{node} {host} {command}"
    directory: str = "/"
    files: set[int] = dataclasses.field(default_factory=set)  # ranks that share nothing but a file with all others
    region: int | bytes = 0  # how much memory "VMs" share, or what it is full of
    vms: list[set[int]] = dataclasses.field(default_factory=list)  # ranks that share that memory across kernels


CASES = [
    Case("plain processes", "plain1,plain2", [{0, 1, 2}]),
    Case("own pid, ipc, uts, mnt", "pid1,pid2", [{0, 1, 2}], reason="cma: (pid|another)"),
    Case("own net too, shared /tmp", "net1,net2,net3", [{0, 1, 2}]),
    Case("other user namespaces", "user1,user2,plain3", [{0, 1, 2}]),
    Case("job directory bound in", "jobdir1,jobdir2,jobdir3", [{0, 1, 2}]),
    Case("job directory and plain", "jobdir1,plain2", [{0, 1, 2}], env={"FERRULE_JOB_DIR": "{directory}"}),
    Case("nothing but an inherited socket", "given1,given2,given3", [{0, 1, 2}], directory="/tmp"),
    Case("mixed kinds, four ranks", "plain1,net2,user3,pid4", [{0, 1, 2, 3}], ranks=4),
    Case("nothing shared but a cable", "hidden1,hidden2", [{0, 2}, {1}], network=True, directory="/tmp",
         reason="not on this host: no shared directory, other network namespace"),
    Case("a cable and /tmp", "seen1,seen2", [{0, 1, 2}], network=True),
    Case("files only, by setting", "files1,files2,plain3", [{0, 1, 2}], files={0, 1}, reason="shm-file"),
    Case("sandboxes without unix sockets", "sandbox1,sandbox2,sandbox3", [{0, 1, 2}], files={0, 1, 2}, directory="/tmp"),
    Case("sandboxes and others", "sandbox1,jobdir2,jobdir3", [{0, 1, 2}], files={0}, directory="/tmp"),
    Case("VMs with one region", "vm1,vm2,vm3", [{0, 3}], ranks=4, vms=[{0, 1, 2, 3}], region=16 << 20, reason="same host, other VM"),
    Case("VMs, a small region", "vm1,vm2", [{0, 2}, {1, 3}], ranks=4, vms=[{0, 1, 2, 3}], region=512 << 10),
    Case("VMs, containers in one", "near1,near2,vm3", [{0, 1}], vms=[{0, 1, 2}], region=4 << 20),
    Case("VMs, no room", "cabled1,cabled2", [{0, 2, 4, 6, 8, 10}, {1, 3, 5, 7, 9, 11}], ranks=12, region=256 << 10, network=True,
         reason="ivshmem: .*no room for this job's ranks"),
    Case("VMs, garbage in the region", "cabled1,cabled2", [{0, 2}, {1}], region=b"\xa5", network=True, reason="something else is in it"),
    Case("VMs, one without the device", "cabled1,bare2", [{0, 2}, {1}], region=1 << 20, network=True),
    Case("VMs, by setting", "vm1,vm2", [{0, 2}], vms=[{0, 1, 2}], region=1 << 20, env={"FERRULE_CHANNELS": "shm,ivshmem"}),
    Case("one node off", "plain1,off2,plain3", [{0, 2}], reason="FERRULE_LOCALITY"),
    Case("one node alone", "plain1,node2", [{0, 2}, {1}], reason="FERRULE_LOCALITY does not allow it"),
    Case("off for all", "plain1,plain2", [], env={"FERRULE_LOCALITY": "off"}),
    Case("abstract sockets only", "plain1,plain2", [{0, 1, 2}], env={"TMPDIR": "/nowhere"}, directory="/proc"),
    Case("memory is not passed on", "pid1,pid2", [{0, 1, 2}], env={"FERRULE_SINGLE_COPY_ALLOW": "0"},
         reason="mem: the peer passed no descriptor of its memory"),
]


def sockets() -> set[str]:
    """Sockets of agents, of this job or another."""
    return {path for directory in DIRECTORIES for path in glob.glob(f"{directory}/.ferrule-*")}


def leftovers(before: set[str]) -> set[str]:
    """Sockets that were not there before and don't go away: those of other jobs do."""
    left = sockets() - before

    def gone() -> bool:
        left.intersection_update(sockets())
        return not left

    patience.until(gone, 30)
    return left


def owned(region: pathlib.Path) -> set[str]:
    """Blocks of a region that somebody still owns."""
    with region.open("rb") as file:
        head = file.read(4096 + 1024 * 16)
    return {f"block {i} of the region" for i in range(1024) if any(head[4096 + 16 * i:4104 + 16 * i])}


class Bench:
    """What all cases use."""

    def __init__(self, tmp: pathlib.Path) -> None:
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "exchange.c").write_text(PROGRAM)
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O1", str(BUILD / "exchange.c"), "-o", str(BUILD / "exchange")], check=True)
        self.node = BUILD / "node.sh"
        self.node.write_text(NODE)
        self.node.chmod(0o755)
        self.directory = tmp / "job"
        self.directory.mkdir()
        self.network = f"fl{os.getpid()}"

    def command(self, case: Case, *args: str, ranks: int = 0) -> tuple[list[str], dict[str, str]]:
        """mpiexec's command line and environment."""
        values = {name: text.format(directory=self.directory) for name, text in case.env.items()}
        ours = {"DIRECTORY": str(self.directory), "NETWORK": self.network, "TREE": str(ROOT), "FILTER": str(ROOT / "tests/no_unix_sockets.py")}
        env = dict(os.environ, FERRULE_WHY="1") | {f"LOCALITY_TEST_{name}": value for name, value in ours.items()} | values
        launcher = case.launcher.replace("{node}", str(self.node))
        before = ["ip", "netns", "exec", f"{self.network}-1"] if case.network else []
        command = [*before, MPIEXEC, "--launcher-exec", launcher, "-hosts", case.hosts, "-wdir", case.directory, "-n", str(ranks or case.ranks)]
        return [*command, *args, str(BUILD / "exchange")], env

    def run(self, case: Case) -> str:
        """What is wrong, or nothing."""
        before = sockets()
        region = self.directory / "region"
        if case.region:
            region.write_bytes(bytes(case.region) if isinstance(case.region, int) else case.region * (1 << 20))
        if case.network:
            subprocess.run([str(ROOT / "testbeds/netns/create.sh"), self.network], check=True, stdout=subprocess.DEVNULL)
        try:
            command, env = self.command(case)
            if case.files:
                env["FERRULE_LOCALITY_TIMEOUT"] = "10000"
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=120, errors="replace")
        except subprocess.TimeoutExpired as late:
            return f"no end: {(late.stdout or b'')[-800:]!r}"
        finally:
            if case.network:
                subprocess.run([str(ROOT / "testbeds/netns/remove.sh"), self.network], check=False)
        if done.returncode:
            return f"exit code {done.returncode}: {done.stdout[-1500:]}"
        left = leftovers(before) | (owned(region) if isinstance(case.region, int) and case.region else set())
        return judge(case, done.stdout) or (f"left {left}" if left else "")


def judge(case: Case, output: str) -> str:
    """Compares the channels of all pairs, and the size of the communicators of shared memory."""
    pairs = {(int(a), int(b)): (channel, rest) for a, b, channel, rest in
             re.findall(r"why:\s+(\d+) → (\d+)\s+\S+\s+(\S+)([^\n]*)", output)}
    for a in range(case.ranks):
        for b in range(case.ranks):
            together = any({a, b} <= group for group in case.groups)
            files = {a, b} & case.files
            vms = any({a, b} <= group for group in case.vms)
            wanted = "self" if a == b else "shm-file" if together and files else "shm" if together else "ivshmem" if vms else "tcp"
            channel = pairs.get((a, b), ("nothing", ""))[0]
            if channel.split("+")[0] != wanted:
                return f"{a} → {b} by {channel} instead of {wanted}:\n{output[-2500:]}"
    if case.reason and not any(re.search(case.reason, f"{channel} {rest}") for channel, rest in pairs.values()):
        return f"nobody gives the reason “{case.reason}”:\n{output[-2500:]}"
    return ""


def until_ready(job: subprocess.Popen[str], ranks: int) -> str:
    """Reads what a job prints until all ranks are ready; nothing if it ends before."""
    assert job.stdout
    text = ""
    for line in job.stdout:
        text += line
        if len(re.findall("^ready", text, re.M)) == ranks:
            return text
    return ""


def link_breaks(bench: Bench) -> str:
    """The agent through which two others meet is killed: their ranks go on by TCP. Nobody hangs."""
    go = bench.directory / "go"
    case = Case("", "plain0,plain1,plain2", [], env={"FERRULE_WHY": "0"}, directory=str(bench.directory))
    command, env = bench.command(case, "--continue-on-failure", "--timeout", "120")
    with subprocess.Popen([*command, str(go)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        if not (text := until_ready(job, 3)):
            return "ended before all were ready"
        assert job.stdout
        victim = agent_of_rank(0, job.pid)
        if victim is None:
            job.kill()
            return "cannot find the agent of rank 0"
        os.kill(victim, signal.SIGKILL)
        time.sleep(0.3)
        go.touch()
        text += job.stdout.read()
        job.wait()
    go.unlink()
    return "" if all(f"survived {rank}" in text for rank in (1, 2)) else f"ranks 1 and 2 did not survive: {text[-1500:]}"


def inboxes_of_the_killed(bench: Bench) -> str:
    """Ranks' inboxes are files; mpiexec, an agent, or a whole sandbox at once is killed: none stays."""
    go = bench.directory / "never"
    case = Case("", "sandbox1,sandbox2", [], env={"FERRULE_WHY": "0", "FERRULE_LOCALITY_TIMEOUT": "10000"}, directory="/tmp")
    for victim in ("mpiexec", "agent", "sandbox"):
        command, env = bench.command(case, "--timeout", "120", ranks=2)
        with subprocess.Popen([*command, str(go)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            if not until_ready(job, 2):
                return f"{victim}: ended before all were ready"
            assert job.stdout
            made = list(bench.directory.glob(".ferrule-*"))
            above = above_rank(0, job.pid)
            killed = [job.pid] if victim == "mpiexec" else above[:1] if victim == "agent" else above[:-1]
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            job.stdout.read()
        if len(made) != 2 or not killed:
            return f"{victim}: made {made}, killed {killed}"
        if not patience.until(lambda: not list(bench.directory.glob(".ferrule-*")), 30):
            return f"after SIGKILL of {victim}: {list(bench.directory.glob('.ferrule-*'))}"
    return ""


def agent_of_rank(rank: int, launcher: int) -> int | None:
    """The parent of a rank's process in the job of mpiexec `launcher`."""
    return next(iter(above_rank(rank, launcher)), None)


def above_rank(rank: int, launcher: int) -> list[int]:
    """The processes between a rank and mpiexec `launcher`, from the rank's parent up to mpiexec itself."""
    def parent(pid: int) -> int:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            pid = int(entry.name)
            if f"FERRULE_RANK={rank}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            above, line = parent(pid), [pid]
            while above > 1:
                line.append(above)
                above = parent(above)
            if launcher in line:
                return line[1:line.index(launcher) + 1]
        except (OSError, ValueError):
            continue
    return []


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="WORD")
    word = parser.parse_args().k
    probe = subprocess.run(["unshare", "--pid", "--fork", "--mount", "--net", "--ipc", "--uts", "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        print(f"SKIP  locality: {probe.stderr.strip()}")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ferrule-locality-") as tmp:
        bench = Bench(pathlib.Path(tmp))
        cases = [(case.name, lambda case=case: bench.run(case)) for case in CASES] + [("a link breaks", lambda: link_breaks(bench))]
        cases.append(("inboxes of killed sandboxes", lambda: inboxes_of_the_killed(bench)))
        for name, run in cases:
            if word in name:
                begin = time.monotonic()
                wrong = run()
                failed += bool(wrong)
                print(f"{'FAIL' if wrong else 'ok'}    {name} ({time.monotonic() - begin:.1f} s){': ' + wrong if wrong else ''}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
