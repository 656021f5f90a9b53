#!/usr/bin/env python3
"""`ferrule drain` and `ferrule resume` under a running job on two hosts in namespaces, one of which gets another address each time.

    tests/migration.py [-k WORD]        runs the cases whose name has WORD in it

Each host has two cables: one for mpiexec and the agents, whose address stays, and one for the ranks. Needs root; skipped with the reason where the machine can't.
"""

from __future__ import annotations

import argparse
import json
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
import patience

import lane_bed

DIST = ROOT / "dist"
ROUNDS = 20


class Failed(AssertionError):
    """A case has not gone as it must."""


def check(is_so: bool, what: str) -> None:
    if not is_so:
        raise Failed(what)


class Job:
    """A program of tests/c/migration with two ranks on each host, and what is done to it."""

    def __init__(self, bed: lane_bed.Bed, folder: str, *more: str, program: str = "traffic", **settings: str) -> None:
        self.bed, self.stop, self.moves = bed, pathlib.Path(folder) / "stop", 0
        self.stop.unlink(missing_ok=True)
        self.addresses = {name: bed.address(name, 1) for name in bed.names}
        env = dict(os.environ, FERRULE_LOCALITY="node", **{f"FERRULE_{name}": value for name, value in settings.items()})
        words = ["-genv", "FERRULE_LISTEN", "eth1", "-n", "4", *bed.job_options(2), f"{folder}/{program}", str(self.stop), *more]
        self.process = subprocess.Popen([*bed.prefix("n1"), str(DIST / "bin/mpiexec"), *words], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        check("running" in line, f"the job has not started: {line}{self.said() if self.process.poll() is not None else ''}")

    def said(self) -> str:
        """What it says until it ends."""
        return self.process.communicate(timeout=patience.WATCHDOG_S)[0]

    def ferrule(self, *words: str) -> tuple[int, str]:
        """`ferrule WORDS`, and what it says."""
        done = subprocess.run([*self.bed.prefix("n1"), str(DIST / "bin/ferrule"), *words], text=True, timeout=patience.WATCHDOG_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def renumber(self, name: str) -> None:
        """The host gets another address for its ranks."""
        self.moves += 1
        new = f"10.45.1.{20 + self.moves}"
        ip = ["ip", "-n", name, "addr"]
        subprocess.run([*ip, "del", f"{self.addresses[name]}/24", "dev", "eth1"], check=True)
        subprocess.run([*ip, "add", f"{new}/24", "dev", "eth1"], check=True)
        self.addresses[name] = new

    def move(self, name: str) -> dict[str, int]:
        """Drains a host, renumbers it and resumes; the phases' times in microseconds."""
        code, said = self.ferrule("drain", name, "--json")
        check(code == 0, f"drain {name}: {said}")
        left = self.connections(name, self.addresses[name])
        check(not left, f"{name} is drained and has connections: {left}")
        self.renumber(name)
        code, said = self.ferrule("resume", "--json")
        check(code == 0, f"resume {name}: {said}")
        return dict(json.loads(said)["phases_us"])

    def connections(self, name: str, address: str) -> str:
        """TCP connections and listeners of a host at this address."""
        listed = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
        number = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
        # 06 is TIME_WAIT, which nobody holds open any more.
        lines = [line for line in listed.splitlines() if f" {number}:" in line and line.split()[3] in ("01", "0A", "08")]
        return "\n".join(lines)

    def end(self) -> str:
        """Stops it; it must have found everything right."""
        self.stop.touch()
        said = self.said()
        check(self.process.returncode == 0, f"exit code {self.process.returncode}: {said[-2000:]}")
        found = re.search(r"descriptors more at the end (-?\d+)", said)
        check(found is not None and int(found[1]) <= 0, f"descriptors are left: {said[-500:]}")
        return said

    def kill(self) -> None:
        """Whatever has happened to it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


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


CASES: list[Callable[[lane_bed.Bed, str], None]] = [both_and_for_a_while, to_and_fro, tcp_inside_too, one_computes, nobody_resumes, network_comes_late, network_never_comes, one_dies]


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
        subprocess.run([str(DIST / "bin/mpicc"), "-O2", "-o", f"{folder}/traffic", str(ROOT / "tests/c/migration/traffic.c"), "-lm"], check=True)
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
