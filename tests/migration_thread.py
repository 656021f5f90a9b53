"""The migration thread (`FERRULE_MIGRATION=mt`): jobs whose ranks compute while their hosts move. A part of tests/migration.py."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import signal
import subprocess
import time

import patience
from migration_job import DIST, Job, check

import lane_bed

NAME = "ferrule-mt"
#: How long an idle thread is watched, and what it may use of a processor in that time.
IDLE_S, IDLE_NS = 2.0, 200_000
#: The longest sleep of a thread that nobody wakes, and what a drain may take if all wake each other as they must.
SLEEP_MS, DRAIN_MS = 10_000, 8_000
#: How long one rank computes beside the others' traffic.
COMPUTES_S = 8


class Computing(Job):
    """tests/c/migration/compute.c: the ranks compute until they are told to go on."""

    def __init__(self, bed: lane_bed.Bed, folder: str, level: str, rounds: int, **settings: str) -> None:
        self.round = 0
        for round in range(rounds):
            pathlib.Path(f"{folder}/stop.{round}").unlink(missing_ok=True)
        super().__init__(bed, folder, level, str(rounds), program="compute", **settings)

    def ranks(self) -> list[int]:
        """The ranks' processes."""
        found = subprocess.run(["pgrep", "-f", f"^{self.stop.parent}/compute"], capture_output=True, text=True).stdout.split()
        check(len(found) == 4, f"4 ranks are expected: {found}")
        return [int(pid) for pid in found]

    def go_on(self, last: bool = False) -> None:
        """The computation is over; returns when the next one has begun."""
        check(self.process.poll() is None, "the job has ended in the middle of a computation")
        pathlib.Path(f"{self.stop}.{self.round}").touch()
        self.round += 1
        if not last and self.process.stdout:
            line = self.process.stdout.readline()
            check(line.startswith(f"running {self.round}"), f"the next computation is expected: {line}")


def threads(pid: int) -> dict[pathlib.Path, str]:
    """A process's threads, as folders of /proc, and their names."""
    return {task: (task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def thread_of(pid: int) -> pathlib.Path:
    """The migration thread of a rank."""
    found = [task for task, name in threads(pid).items() if name == NAME]
    check(len(found) == 1, f"one thread {NAME} is expected: {threads(pid)}")
    return found[0]


def used_ns(task: pathlib.Path) -> int:
    """For how long a thread has been running."""
    return int((task / "schedstat").read_text().split()[0])


def all_sleep(tasks: list[pathlib.Path]) -> bool:
    """Whether threads do nothing for a moment."""
    before = [used_ns(task) for task in tasks]
    time.sleep(0.2)
    return before == [used_ns(task) for task in tasks]


def computing(bed: lane_bed.Bed, folder: str, level: str) -> None:
    """Hosts are drained, moved and resumed while all ranks compute, several times; messages that were under way arrive. Before and after that the threads sleep."""
    rounds = 3
    job = Computing(bed, folder, level, rounds, MIGRATION="mt", SLEEP_MS=str(SLEEP_MS))
    try:
        tasks = [thread_of(pid) for pid in job.ranks()]
        times: list[dict[str, int]] = []
        for round in range(rounds):
            # What the exchange before has left to the threads.
            check(patience.until(lambda: all_sleep(tasks)), "the threads don't fall asleep")
            before = [used_ns(task) for task in tasks]
            time.sleep(IDLE_S)
            used = [used_ns(task) - ns for task, ns in zip(tasks, before, strict=True)]
            check(max(used) <= IDLE_NS, f"idle threads have run for {used} ns in {IDLE_S} s")
            times += [job.move(bed.names[(round + move) % 2]) for move in range(2)]
            job.go_on(last=round == rounds - 1)
        # The bell of the thread that computes, made when it first sleeps beside another one.
        said = job.end(spare=1)
    finally:
        job.kill()
    check(max(time["pre-migration"] for time in times) < 1000 * DRAIN_MS, f"somebody has not been woken: {times}")
    taken = sorted(time["pre-migration"] / 1000 for time in times)
    print(f"  pre-migration: median {taken[len(taken) // 2]:.1f} ms, most {taken[-1]:.1f} ms; {said.strip().splitlines()[-1]}")


def thread_hides_single(bed: lane_bed.Bed, folder: str) -> None:
    """A drain during a computation, MPI_THREAD_SINGLE."""
    computing(bed, folder, "single")


def thread_hides_funneled(bed: lane_bed.Bed, folder: str) -> None:
    """MPI_THREAD_FUNNELED."""
    computing(bed, folder, "funneled")


def thread_hides_serialized(bed: lane_bed.Bed, folder: str) -> None:
    """MPI_THREAD_SERIALIZED."""
    computing(bed, folder, "serialized")


def thread_hides_multiple(bed: lane_bed.Bed, folder: str) -> None:
    """MPI_THREAD_MULTIPLE, with two threads of the program that exchange messages before and after."""
    computing(bed, folder, "multiple")


def thread_or_calls(bed: lane_bed.Bed, folder: str) -> None:
    """Without the thread the drain waits until the last rank has computed; with it, it doesn't."""
    took = {}
    for design in ("pe", "mt"):
        job = Job(bed, folder, "compute", str(COMPUTES_S), MIGRATION=design)
        try:
            code, said = job.ferrule("drain", "n1", "--for", "0.1", "--json")
            check(code == 0, said)
            took[design] = json.loads(said)["phases_us"]["pre-migration"] / 1e6
            # A rank that has waited beside its thread for the first time has a bell for that.
            job.end(spare=int(design == "mt"))
        finally:
            job.kill()
    print(f"  pre-migration {took['pe']:.2f} s without, {took['mt']:.2f} s with the thread")
    check(took["pe"] > COMPUTES_S / 2 > took["mt"], "only with the thread the drain must be over before the computation")


def thread_under_traffic(bed: lane_bed.Bed, folder: str) -> None:
    """Thread and calls of MPI do the same work at the same time: moves under traffic that never stops."""
    job = Job(bed, folder, MIGRATION="mt")
    try:
        for round in range(10):
            job.move(bed.names[round % 2])
        job.end(spare=1)
    finally:
        job.kill()


def are_gone(pids: list[int]) -> bool:
    """Whether none of these processes is left."""
    return not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def thread_and_deaths(bed: lane_bed.Bed, folder: str) -> None:
    """A rank that dies, and an mpiexec that dies, during a computation and a suspension: the job ends, and nothing is left."""
    for victim, word in (("rank", "killed"), ("mpiexec", "")):
        job = Computing(bed, folder, "single", 1, MIGRATION="mt")
        try:
            ranks = job.ranks()
            check(job.ferrule("drain", "n2")[0] == 0, "drain")
            os.kill(ranks[-1] if victim == "rank" else job.mpiexec(), signal.SIGKILL)
            said = job.said()
            check(job.process.returncode != 0 and word in said.lower(), f"exit code {job.process.returncode}: {said[-800:]}")
            check(patience.until(functools.partial(are_gone, ranks)), f"ranks are left after the death of a {victim}")
        finally:
            job.kill()


def thread_of_no_such_name(_: lane_bed.Bed, folder: str) -> None:
    """A word that is no design is named, and the job runs as with `pe`."""
    pathlib.Path(f"{folder}/word.0").touch()
    env = dict(os.environ, FERRULE_MIGRATION="thread")
    done = subprocess.run([str(DIST / "bin/mpiexec"), "-n", "2", f"{folder}/compute", f"{folder}/word", "single", "1"], env=env, text=True, timeout=patience.WATCHDOG_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0 and "FERRULE_MIGRATION=thread is neither pe nor mt; using pe" in done.stdout, done.stdout)


CASES = [thread_hides_single, thread_hides_funneled, thread_hides_serialized, thread_hides_multiple, thread_or_calls, thread_under_traffic, thread_and_deaths, thread_of_no_such_name]
