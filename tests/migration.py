#!/usr/bin/env python3
"""`ferrule drain` and `ferrule resume` under a running job on two hosts in namespaces, one of which gets another address each time.

    tests/migration.py [-k WORD]        runs the cases whose name has WORD in it

Each host has two cables: one for mpiexec and the agents, whose address stays, and one for the ranks. Needs root; skipped with the reason where the machine can't.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/lanes")]
import migration_thread
import patience
from migration_job import DIST, Failed, Job, check

import lane_bed

ROUNDS = 20


def to_and_fro(bed: lane_bed.Bed, folder: str) -> None:
    """Twenty moves of either host: nothing is lost, doubled or reordered, and no descriptor is left."""
    job = Job(bed, folder)
    try:
        times = [job.move(bed.names[round % 2]) for round in range(ROUNDS)]
        said = job.end()
    finally:
        job.kill()
    for phase in ("pre-migration", "ready", "post-migration"):
        taken = sorted(time[phase] for time in times)
        print(f"  {phase}: median {taken[len(taken) // 2] / 1000:.1f} ms, most {taken[-1] / 1000:.1f} ms")
    print(f"  {said.strip().splitlines()[-1]}")


def tcp_inside_too(bed: lane_bed.Bed, folder: str) -> None:
    """Ranks of one host that talk over TCP get new connections, too; several lanes each."""
    job = Job(bed, folder, CHANNELS="tcp", LANES="2")
    try:
        for round in range(4):
            job.move(bed.names[round % 2])
        job.end()
    finally:
        job.kill()


def both_and_for_a_while(bed: lane_bed.Bed, folder: str) -> None:
    """Both hosts at once, resumed by mpiexec itself; a second drain meanwhile is refused, and so is an unknown host."""
    job = Job(bed, folder)
    try:
        code, said = job.ferrule("drain", "n1,nowhere")
        check(code == 1 and "nowhere is none of the job's hosts: n1, n2" in said, said)
        code, said = job.ferrule("resume")
        check(code == 1 and "nothing is suspended" in said, said)
        code, said = job.ferrule("drain", "n1,n2", "--for", "0.3")
        check(code == 0 and "all endpoints have been resumed" in said and "post-migration" in said, said)
        code, said = job.ferrule("drain", "n1")
        check(code == 0 and "all endpoints concerned are suspended" in said, said)
        code, said = job.ferrule("drain", "n2")
        check(code == 1 and "another epoch is not over" in said, said)
        code, said = job.ferrule("drain", "--status")
        check(code == 0 and "are suspended" in said, said)
        check(job.ferrule("resume")[0] == 0, "resume")
        job.end()
    finally:
        job.kill()


def one_computes(bed: lane_bed.Bed, folder: str) -> None:
    """A rank outside of MPI doesn't answer: the limit ends that, the rank is named, the job goes on, and can be drained later."""
    job = Job(bed, folder, "compute", "6")
    try:
        code, said = job.ferrule("drain", "n1", "--limit", "0.5")
        check(code == 1 and "rank 3 has yet to answer" in said, said)
        check(patience.until(lambda: job.ferrule("drain", "n2", "--for", "0.1")[0] == 0, pause_s=0.5), "it can't be drained afterwards")
        job.end()
    finally:
        job.kill()


def nobody_resumes(bed: lane_bed.Bed, folder: str) -> None:
    """Whoever drained dies: mpiexec resumes after the hold."""
    job = Job(bed, folder)
    try:
        client = subprocess.Popen([*bed.prefix("n1"), str(DIST / "bin/ferrule"), "drain", "n2", "--for", "1"], stdout=subprocess.DEVNULL)
        check(patience.until(lambda: "are suspended" in job.ferrule("drain", "--status")[1]), "it was never suspended")
        client.kill()
        client.wait()
        check(patience.until(lambda: "have been resumed" in job.ferrule("drain", "--status")[1]), "it was never resumed")
        job.end()
    finally:
        job.kill()


def network_comes_late(bed: lane_bed.Bed, folder: str) -> None:
    """The host has no network yet when the job is resumed: its ranks wait for it."""
    job = Job(bed, folder)
    try:
        check(job.ferrule("drain", "n2")[0] == 0, "drain")
        subprocess.run(["ip", "-n", "n2", "addr", "flush", "dev", "eth1"], check=True)
        with subprocess.Popen([*bed.prefix("n1"), str(DIST / "bin/ferrule"), "resume"], stdout=subprocess.PIPE, text=True) as resuming:
            check(patience.until(lambda: "has yet to tell its new address" in job.ferrule("drain", "--status")[1]), "nobody waits for the network")
            subprocess.run(["ip", "-n", "n2", "addr", "add", "10.45.1.99/24", "dev", "eth1"], check=True)
            said, _ = resuming.communicate(timeout=patience.WATCHDOG_S)
        check(resuming.returncode == 0 and "have been resumed" in said, said)
        said = job.end()
        check("cannot listen after the migration yet" in said, said)
    finally:
        job.kill()


def network_never_comes(bed: lane_bed.Bed, folder: str) -> None:
    """The host gets no network: the job ends after the time-outs, and what failed is named."""
    job = Job(bed, folder, TCP_CONNECT_TIMEOUT_MS="1000")
    try:
        check(job.ferrule("drain", "n2")[0] == 0, "drain")
        subprocess.run(["ip", "-n", "n2", "addr", "flush", "dev", "eth1"], check=True)
        code, said = job.ferrule("resume")
        check(code == 1 and re.search(r"rank [23]: cannot listen after the migration: .*eth1", said) is not None, said)
        said = job.said()
        check(job.process.returncode not in (0, None) and re.search(r"rank ([01] on n1|[23] on n2): it can't be reached", said) is not None, said)
    finally:
        job.kill()


def one_dies(bed: lane_bed.Bed, folder: str) -> None:
    """A rank is killed while all is suspended: the job ends and says so; whoever waits hears of it."""
    job = Job(bed, folder)
    try:
        check(job.ferrule("drain", "n2")[0] == 0, "drain")
        ranks = subprocess.run(["pgrep", "-f", f"^{folder}/traffic"], capture_output=True, text=True).stdout.split()
        check(len(ranks) == 4, f"4 ranks are expected: {ranks}")
        os.kill(int(ranks[-1]), signal.SIGKILL)
        said = job.said()
        check(job.process.returncode != 0 and "killed" in said.lower(), f"exit code {job.process.returncode}: {said[-800:]}")
    finally:
        job.kill()


CASES: list[Callable[[lane_bed.Bed, str], None]] = [both_and_for_a_while, to_and_fro, tcp_inside_too, one_computes, nobody_resumes, network_comes_late, network_never_comes, one_dies,
                                                          *migration_thread.CASES]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", metavar="WORD")
    word = parser.parse_args().k
    if why := lane_bed.unavailable():
        print(f"migration: 0 passed, 0 failed, 1 skipped: {why}")
        return 0
    if not lane_bed.is_inside():
        return lane_bed.enter()
    failed = 0
    chosen = [case for case in CASES if word in case.__name__]
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        for program in ("traffic", "compute"):
            source = ROOT / f"tests/c/migration/{program}.c"
            subprocess.run([str(DIST / "bin/mpicc"), "-O2", "-pthread", "-o", f"{folder}/{program}", str(source), "-lm"], check=True)
        for case in chosen:
            try:
                with lane_bed.Bed(hosts=2, mbit=10_000, classes=False, rails=2) as bed:
                    case(bed, folder)
                print(f"ok: {case.__name__}", flush=True)
            except (Failed, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED: {case.__name__}: {error}", flush=True)
    print(f"migration: {len(chosen) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
