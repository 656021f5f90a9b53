#!/usr/bin/env python3
"""mpiexec over real ssh: hosts with an sshd each (testbeds/ssh), accounts, ports, keys, shells, hosts that fail, kills.

    tests/ssh.py [-k WORD] [--moments N] [--seed N]       runs the cases whose name has WORD in it

Each case ends in bounded time, with nothing left on any host. Needs root; skipped with the reason where the machine can't.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/ssh"))
import patience
import ssh_bed
from ssh_bed import Bed, Host

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: In the private world's own /run, so that all accounts can read it.
DIST = pathlib.Path("/run/ferrule")
MPIEXEC = str(DIST / "bin/mpiexec")
RING = str(DIST / "ring")
#: How long mpiexec may take to give up a host that doesn't answer, beyond the time that it was told to wait.
END_S = 10.0
NOTHING_LEFT_S = 10.0

#: Tells the host and account of each rank after a message has gone round; with an argument it goes round until it is killed.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int rank, size, token = 0;
  char host[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  do {
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } while (argc > 1);
  gethostname(host, sizeof host);
  printf("rank %d of %d on %s as %d\n", rank, size, host, (int)getuid());
  MPI_Finalize();
  return token != (rank + size - 1) % size;
}
"""


def check(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


class Done:
    """How a run of mpiexec ended."""

    def __init__(self, code: int, text: str, seconds: float) -> None:
        self.code, self.text, self.seconds = code, text, seconds

    def hosts(self) -> list[str]:
        """Host and account of each rank, in order."""
        found = sorted((int(rank), f"{host}/{uid}") for rank, host, uid in re.findall(r"rank (\d+) of \d+ on (\S+) as (\d+)", self.text))
        return [place for _, place in found]


def left(bed: Bed) -> dict[str, str]:
    """What still runs on any host."""
    return {f"n{i} {pid}": line for i in bed.processes for pid, line in bed.processes_of(i).items()}


def nothing_left(bed: Bed) -> None:
    patience.until(lambda: not left(bed), NOTHING_LEFT_S, promise=True)
    check(not left(bed), f"left behind: {left(bed)}")


def mpiexec(bed: Bed, *words: str, user: str = "root", **env: str) -> Done:
    """Runs mpiexec on n1 to its end. Ranks of different hosts talk by TCP, as they would on real ones."""
    begin = time.monotonic()
    process = bed.start([MPIEXEC, *words], user, {"FERRULE_LOCALITY": "node", **env})
    try:
        text, _ = process.communicate(timeout=patience.WATCHDOG_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"not over after {patience.WATCHDOG_S:.0f} s: {ended(bed, process, 'the watchdog')[-800:]}") from None
    done = Done(process.returncode, text, time.monotonic() - begin)
    nothing_left(bed)
    return done


def runs(bed: Bed, places: list[str], *words: str, user: str = "root", **env: str) -> Done:
    """A job whose ranks must be at those places."""
    done = mpiexec(bed, *words, RING, user=user, **env)
    check(done.code == 0 and done.hosts() == places, f"exit code {done.code}, ranks at {done.hosts()}, expected {places}: {done.text[-800:]}")
    return done


def fails(bed: Bed, host: str, says: str, *words: str, within_s: float = 0.0) -> None:
    """A job that can't start on `host`: mpiexec says so in bounded time."""
    done = mpiexec(bed, *words, RING)
    check(done.code not in (0, 124) and not done.hosts(), f"exit code {done.code}: {done.text[-800:]}")
    named = [line for line in done.text.splitlines() if line.startswith("mpiexec:") and re.search(rf"\bon {re.escape(host)}\b", line)]
    check(bool(named), f"no line of mpiexec names {host}: {done.text[-800:]}")
    check(re.search(says, done.text) is not None, f"not said: {says}: {done.text[-800:]}")
    limit = (within_s + END_S) * patience.stretch()
    check(done.seconds < limit, f"it took {done.seconds:.1f} s, {limit:.0f} are allowed")


def all_good() -> None:
    """Hosts that work: names, addresses, accounts, ports, shells, paths."""
    hosts = [Host(), Host(), Host(port=2222), Host(shell="/bin/csh", banner="Welcome to this host!"), Host(renamed=("/run/elsewhere", str(DIST)), hidden=str(DIST)),
             Host(), Host(), Host()]
    with Bed(hosts) as bed:
        def case(name: str, run: Callable[[], object]) -> None:
            attempt(f"works: {name}", run)

        case("two hosts by name", lambda: runs(bed, ["n1/0", "n1/0", "n2/0", "n2/0"], "-host", "n1:2,n2:2", "-n", "4"))
        case("two hosts by address", lambda: runs(bed, ["n1/0", "n2/0"], "-host", "10.31.0.1,10.31.0.2"))
        case("only another host", lambda: runs(bed, ["n2/0"], "-host", "n2"))
        case("another account by a host's name", lambda: runs(bed, ["n1/0", "n2/61001"], "-host", "n1,alice@n2"))

        def host_file() -> None:
            (DIST / "hosts").write_text("n1\nn2 slots=2 user=alice\n")
            runs(bed, ["n1/0", "n2/61001", "n2/61001"], "-f", str(DIST / "hosts"))
        case("another account in a host file", host_file)
        case("mpiexec of another account", lambda: runs(bed, ["n1/61001", "n2/61001"], "-host", "n1,n2", user="alice"))
        case("a port from ssh's configuration", lambda: runs(bed, ["n1/0", "n3/0"], "-host", "n1,n3"))
        case("a port in the launcher's command",
             lambda: runs(bed, ["n3/0"], "--launcher-exec", "ssh -F none -p 2222 -o BatchMode=yes", "-host", "10.31.0.3"))

        def banner() -> None:
            done = runs(bed, ["n1/0", "n4/0"], "-host", "n1,n4")
            check("Welcome to this host!" in done.text, f"the banner isn't shown: {done.text}")
        case("csh that prints a banner", banner)
        case("csh in the middle of the tree", lambda: runs(bed, ["n4/0", "n6/0", "n7/0"], "--tree-width", "1", "-host", "n4,n6,n7"))
        case("another path", lambda: runs(bed, ["n5/0"], "--agent-path", "/run/elsewhere/bin/mpiexec", "--preload", "-host", "n5"))
        case("another path by --prefix", lambda: runs(bed, ["n5/0"], "--prefix", "/run/elsewhere", "--preload", "-host", "n5"))
        names = ["n1", "n2", "n3", "n4", "n6", "n7", "n8"]
        case("seven hosts in a tree", lambda: runs(bed, [f"{name}/0" for name in names], "--tree-width", "2", "-host", ",".join(names)))

        def places() -> None:
            (DIST / "ranks").write_text("rank 0=n2 slot=0\nrank 1=n1 slot=0\nrank 2=+n1 slot=*\n")
            runs(bed, ["n2/0", "n1/0", "n2/0"], "--rankfile", str(DIST / "ranks"), "-host", "n1,n2")
            runs(bed, ["n2/0", "n1/0", "n2/0"], "-rankmap", "1,0,1", "-hosts", "n1,n2")
        case("a rank file and a rank map", places)

        def lacks_it() -> None:
            fails(bed, "n5", re.escape(f"{MPIEXEC} can't be run there") + ".*--agent-path", "-host", "n1,n5,n2")
        attempt("fails: no ferrule there", lacks_it)

        def in_csh() -> None:
            fails(bed, "n4", re.escape("/nowhere/mpiexec: Command not found"), "--agent-path", "/nowhere/mpiexec", "-host", "n1,n4")
        attempt("fails: no ferrule there, says csh", in_csh)
        attempt("fails: no key for the account", lambda: fails(bed, "nokey@n2", r"nokey@n2: Permission denied", "-host", "n1,nokey@n2"))
        attempt("fails: a name that nobody knows", lambda: fails(bed, "n99", r"Could not resolve hostname n99", "-host", "n1,n99"))
        attempt("fails: a core that isn't there", lambda: too_many_cores(bed))


def too_many_cores(bed: Bed) -> None:
    (DIST / "ranks").write_text("rank 0=n1 slot=0\nrank 1=n2 slot=60000\n")
    done = mpiexec(bed, "--rankfile", str(DIST / "ranks"), RING)
    check(done.code == 1 and "n2: rank file: rank 1: core 60000 of this host is not there" in done.text, f"exit code {done.code}: {done.text[-800:]}")


#: Name, host, what is said, and how long mpiexec is told to wait.
BAD = [
    ("silent", "n3", r"did not call back in time", 2.0),
    ("black hole", "n4", r"did not call back in time", 2.0),
    ("closed port", "n5", r"n5 port 22: Connection refused", 0.0),
    ("unknown host key", "n6", r"Host key verification failed", 0.0),
]


def all_bad() -> None:
    """Hosts that don't answer, or not as they should; n2 is sound, and nothing may be left there."""
    hosts = [Host(), Host(), Host(kind="silent"), Host(kind="blackhole"), Host(kind="closed"), Host(kind="unknown")]
    with Bed(hosts) as bed:
        for width in ("16", "1"):
            for name, host, says, wait_s in BAD:
                words = ["--spawn-timeout", "2"] if wait_s else []
                run = functools.partial(fails, bed, host, says, *words, "--tree-width", width, "-host", f"n1,n2,{host}", within_s=wait_s)
                attempt(f"fails: {name}, tree width {width}", run)


def victims(bed: Bed) -> dict[str, list[int]]:
    """The processes of the job on both hosts, by what they are."""
    found: dict[str, list[int]] = {}
    for number in bed.processes:
        for pid, line in bed.processes_of(number).items():
            name = ""
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text()
            if line.startswith(RING):
                kind = "rank"
            elif line.startswith(("ssh ", "/usr/bin/ssh ")):
                kind = "ssh"
            elif line.startswith("sshd"):
                kind = "sshd"
            elif MPIEXEC in line:
                # The agent of mpiexec's own host is forked and has its command line.
                kind = "mpiexec" if "-host" in line and name.startswith("mpiexec") else "agent"
            else:
                kind = "other"
            found.setdefault(kind, []).append(pid)
    return found


def started(bed: Bed) -> tuple[subprocess.Popen[str], int]:
    """A job on two hosts that goes on until it is ended, and mpiexec's number: the Popen is of what has put it onto its host."""
    process = bed.start([MPIEXEC, "-host", "n1:2,n2:2", "-n", "4", RING, "forever"], env={"FERRULE_LOCALITY": "node"})
    check(patience.until(lambda: victims(bed).get("mpiexec")), "mpiexec hasn't started")
    return process, min(victims(bed)["mpiexec"])


def ended(bed: Bed, process: subprocess.Popen[str], why: str) -> str:
    """Waits for the end of the job, and for the last process on all hosts; returns what mpiexec has said."""
    begin = time.monotonic()
    patience.until(lambda: process.poll() is not None and not left(bed), NOTHING_LEFT_S, promise=True)
    remains = left(bed)
    # Whatever is left holds the pipe.
    for name in remains:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(name.split()[1]), signal.SIGKILL)
    text = process.communicate(timeout=patience.WATCHDOG_S)[0]
    check(not remains, f"{time.monotonic() - begin:.1f} s after {why} there is still {remains}\n{text[-800:]}")
    return text


def one_kill(bed: Bed, rng: random.Random) -> str:
    """Kills a process of a job on two hosts; returns what it was."""
    process, mpiexec_pid = started(bed)
    time.sleep(rng.random() ** 2 * 0.8)
    there = victims(bed)
    wanted = rng.choice(["mpiexec", "agent", "ssh", "sshd", "rank"])
    if wanted not in there:
        wanted = rng.choice(sorted(there))
    victim = rng.choice(there[wanted])
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    # A job goes on without the launcher of an agent that has called; the test ends it then.
    if wanted in ("ssh", "sshd", "other") and not patience.until(lambda: process.poll() is not None, 1.0):
        with contextlib.suppress(ProcessLookupError):
            os.kill(mpiexec_pid, signal.SIGTERM)
    text = ended(bed, process, f"{wanted} {victim} was killed")
    check(process.returncode != 0, f"exit code 0 although {wanted} {victim} was killed: {text[-800:]}")
    if wanted in ("rank", "agent"):
        check(re.search(r"\bn[12]\b", text) is not None, f"{wanted} {victim} was killed, and no host is named: {text[-800:]}")
    return wanted


def kills(moments: int, seed: int) -> None:
    """Two hosts, kills at random moments."""
    rng = random.Random(seed)
    counts: dict[str, int] = {}

    def run() -> None:
        with Bed([Host(), Host()]) as bed:
            for moment in range(moments):
                try:
                    wanted = one_kill(bed, rng)
                except AssertionError as error:
                    raise AssertionError(f"moment {moment} of seed {seed}: {error}") from None
                counts[wanted] = counts.get(wanted, 0) + 1
    attempt(f"kills: {moments} moments, seed {seed}", run)
    print("killed " + ", ".join(f"{n} {who}" for who, n in sorted(counts.items())), flush=True)


def host_gone() -> None:
    """A host that is switched off while the job runs."""
    with Bed([Host(), Host()]) as bed:
        process, _ = started(bed)
        check(patience.until(lambda: len(victims(bed).get("rank", [])) == 4), "the job hasn't started")
        bed.processes.pop(2).kill()
        text = ended(bed, process, "n2 was switched off")
        check(process.returncode != 0 and re.search(r"\bn2\b", text) is not None, f"exit code {process.returncode}: {text[-800:]}")


wanted_word = ""
counts = {"passed": 0, "failed": 0}


def attempt(name: str, run: Callable[[], object]) -> None:
    """Runs one case, and says how it went."""
    if wanted_word not in name:
        return
    try:
        run()
    except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        counts["failed"] += 1
        print(f"FAIL {name}: {error}", flush=True)
    else:
        counts["passed"] += 1
        print(f"ok   {name}", flush=True)


def main() -> int:
    global wanted_word
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--moments", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    why = ssh_bed.unavailable()
    if why:
        print(f"skip  ssh: {why}\nssh: 0 passed, 0 failed, 1 skipped")
        return 0
    if not ssh_bed.is_inside():
        return ssh_bed.enter()
    wanted_word = options.k
    shutil.copytree(ROOT / "dist", DIST, symlinks=True)
    DIST.chmod(0o755)
    (DIST / "ring.c").write_text(PROGRAM)
    subprocess.run([str(DIST / "bin/mpicc"), "-O1", "-o", RING, str(DIST / "ring.c")], check=True)
    for group in (all_good, all_bad, functools.partial(attempt, "kills: a whole host", host_gone), functools.partial(kills, options.moments, options.seed)):
        group()
    print(f"ssh: {counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
