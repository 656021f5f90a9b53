#!/usr/bin/env python3
"""What users see of a job that hangs or runs: SIGQUIT to mpiexec, `ferrule top`, that nothing is left of either, and the table of protocols.

The graphs themselves are asserted in testlist.toml (diagnosis/hang under --timeout). Here: the same on request, over several node agents,
from outside of the job, by table and by graph; and that no socket stays behind when mpiexec is killed.

Usage: tests/diagnosis.py
"""

from __future__ import annotations

import collections.abc
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

import run as runner

PROGRAM = "diagnosis/hang"
DEADLOCK = "deadlock: 0 → 1 → 0 (both in MPI_Send)"
DIST = runner.ROOT / "dist"


class Job:
    """A job that hangs, until the end of a `with` block."""

    def __init__(self, how: str, ranks: int, *options: str) -> None:
        command = [str(DIST / "bin/mpiexec"), *options, "-n", str(ranks), str(runner.ROOT / "build/tests" / PROGRAM), how]
        env = dict(os.environ, LD_LIBRARY_PATH=str(DIST / "lib"))
        # Shells that have no job control make background processes ignore SIGQUIT; mpiexec respects that.
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        self.output = tempfile.NamedTemporaryFile("w")
        self.process = subprocess.Popen(command, env=env, stdout=self.output.fileno(), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()

    def said(self) -> str:
        """What it has printed so far."""
        return pathlib.Path(self.output.name).read_text(errors="replace")

    def end(self) -> str:
        """Ends the job and returns what it has printed."""
        self.process.terminate()
        self.process.wait(patience.WATCHDOG_S)
        return self.said()


def top(*words: str) -> str:
    done = subprocess.run([str(DIST / "bin/ferrule"), "top", "--once", *words], capture_output=True, text=True, timeout=patience.WATCHDOG_S)
    return done.stdout + done.stderr


def wait_for(what: str | collections.abc.Callable[[str], bool], look: collections.abc.Callable[[], str]) -> str:
    """Looks until a text is seen, or what is seen pleases; the last look."""
    seen = ""

    def pleases() -> bool:
        nonlocal seen
        seen = look()
        return what in seen if isinstance(what, str) else what(seen)

    patience.until(pleases, pause_s=0.1)
    return seen


def expect(what: str, condition: bool, seen: str) -> bool:
    print(f"{'pass' if condition else 'FAIL'}  {what}")
    if not condition:
        print("      " + seen.strip().replace("\n", "\n      "))
    return condition


def on_request() -> bool:
    good = True
    for options in ([], ["--launcher", "fork", "-hosts", "a:2,b:2"]):
        with Job("sends", 4, *options) as job:
            pid = str(job.process.pid)
            seen = wait_for(DEADLOCK, functools.partial(top, "--waits", pid))
            label = " ".join(options) or "one node"
            good &= expect(f"ferrule top --waits names the cycle ({label})", DEADLOCK in seen, seen)
            job.process.send_signal(signal.SIGQUIT)
            job.process.send_signal(signal.SIGQUIT)
            wait_for(lambda text: "2-3 wait for ranks" in text and all(f"rank {rank} on " in text for rank in range(4)), job.said)
            seen = job.end()
            good &= expect(f"SIGQUIT names the cycle ({label})", DEADLOCK in seen and "2-3 wait for ranks" in seen, seen)
            states = [f"rank {rank} on " in seen for rank in range(4)]
            good &= expect(f"and says what each rank does ({label})", all(states), seen)
    return good


def table() -> bool:
    with Job("computing", 3) as job:
        pid = str(job.process.pid)
        def rows_of(text: str) -> list[list[str]]:
            return [line.split() for line in text.splitlines() if re.match(r" +\d+ ", line)]

        def shares_of(rows: list[list[str]]) -> list[int]:
            return [int(row[4]) for row in rows] if all(row[4].isdigit() for row in rows) else []

        def settled(text: str) -> bool:
            """Everybody is where it stays, and has been there for longer than it took to come there."""
            shares = shares_of(rows_of(text))
            return text.count("waits in MPI_Barrier") == 2 and len(shares) == 3 and shares[2] > max(shares[:2])

        seen = wait_for(settled, lambda: top(pid))
        rows = rows_of(seen)
        good = expect("ferrule top has a row for each rank", [row[0] for row in rows] == ["0", "1", "2"], seen)
        good &= expect("it tells waiting from running", [row[3] for row in rows] == ["waits", "waits", "runs"], seen)
        shares = shares_of(rows)
        good &= expect("and how busy each is", len(shares) == 3 and shares[2] > max(shares[:2]), seen)
        with Job("ring", 2) as other:
            both = wait_for(f"job {other.process.pid}:", top)
            good &= expect("all jobs of the user are listed", f"job {pid}:" in both and f"job {other.process.pid}:" in both, both)
    return good


def nothing_left() -> bool:
    with Job("ring", 2) as job:
        name = f"/{job.process.pid}/"

        def sockets() -> str:
            return "\n".join(line for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if "@ferrule/" in line)

        good = expect("a job has a socket", name in wait_for(name, sockets), sockets())
        job.process.kill()
        job.process.wait()
        patience.until(lambda: name not in sockets())
        good &= expect("it is gone when mpiexec has been killed", name not in sockets(), sockets())
        seen = top(str(job.process.pid))
        return good & expect("ferrule top says so", "is not in this network namespace" in seen, seen)


def protocols() -> bool:
    def table(*words: str, **settings: str) -> str:
        command = [str(DIST / "bin/ferrule"), "info", "--protocols", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience.WATCHDOG_S, env=dict(os.environ, **settings))
        return done.stdout + done.stderr

    kinds = ("self  (", "shm with cma  (", "shm with mem  (", "shm, ring only  (", "tcp  (")
    seen = table()
    good = expect("ferrule info --protocols has all kinds of lanes", all(kind in seen for kind in kinds), seen)
    seen = table(FERRULE_TCP_EAGER_MAX="1000", FERRULE_CHANNELS="self,tcp")
    good &= expect("it follows the settings", "0 B – 1000 B " in seen and "shm with" not in seen, seen)
    seen = table("--size", "1K", FERRULE_CHANNELS="tcp")
    good &= expect("for one size it has one line a lane", seen.count("eager") == 2 and "rendezvous" not in seen, seen)
    return good


def lanes() -> bool:
    def info(*words: str, **settings: str) -> str:
        command = [str(DIST / "bin/ferrule"), "info", "--lanes", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience.WATCHDOG_S, env=dict(os.environ, **settings))
        return done.stdout + done.stderr

    seen = info(FERRULE_LANES="2", FERRULE_LANE_POLICY="segregate", FERRULE_LANE_DSCP="bulk=12")
    wanted = [["0", "latency", "46", "6"], ["1", "bulk", "12", "2"]]
    good = expect("ferrule info --lanes shows class and marks of each lane", [line.split() for line in seen.splitlines()][2:4] == wanted, seen)
    classes = {entry["class"]: entry["dscp"] for entry in json.loads(info("--json"))["classes"]}
    good &= expect("as JSON it has all classes", classes["control"] == 40 and classes["share15"] == 63 and len(classes) == 24, str(classes))
    seen = info(FERRULE_LANE_DSCP="bulk=99")
    return good & expect("a bad mark is told", "bulk=99 does not end in a number from 0 to 63" in seen, seen)


def main() -> int:
    broken = runner.compile_all({PROGRAM}, runner.libraries()["ferrule"], 1)
    if broken:
        print(broken)
        return 1
    results = [on_request(), table(), nothing_left(), protocols(), lanes()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
