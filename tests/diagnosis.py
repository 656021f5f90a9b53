#!/usr/bin/env python3
"""What users see of a job that hangs or runs: SIGQUIT to mpiexec, `ferrule top`, that nothing is left of either, and the table of protocols.

The graphs themselves are asserted in testlist.toml (diagnosis/hang under --timeout). Here: the same on request, over several node agents,
from outside of the job, by table and by graph; and that no socket stays behind when mpiexec is killed.

Usage: tests/diagnosis.py
"""

from __future__ import annotations

import collections.abc
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
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
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, text=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        """Ends the job and returns what it has printed."""
        self.process.terminate()
        return self.process.communicate(timeout=30)[0]


def top(*words: str) -> str:
    done = subprocess.run([str(DIST / "bin/ferrule"), "top", "--once", *words], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def wait_for(text: str, look: collections.abc.Callable[[], str], seconds: float = 20) -> str:
    """Looks until `text` is seen; the last look."""
    until = time.monotonic() + seconds
    while text not in (seen := look()) and time.monotonic() < until:
        time.sleep(0.1)
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
            time.sleep(1.0)
            seen = job.end()
            good &= expect(f"SIGQUIT names the cycle ({label})", DEADLOCK in seen and "2-3 wait for ranks" in seen, seen)
            states = [f"rank {rank} on " in seen for rank in range(4)]
            good &= expect(f"and says what each rank does ({label})", all(states), seen)
    return good


def table() -> bool:
    with Job("computing", 3) as job:
        pid = str(job.process.pid)
        seen = wait_for("waits in MPI_Barrier", lambda: top(pid))
        rows = [line.split() for line in seen.splitlines() if re.match(r" +\d+ ", line)]
        good = expect("ferrule top has a row for each rank", [row[0] for row in rows] == ["0", "1", "2"], seen)
        good &= expect("it tells waiting from running", [row[3] for row in rows] == ["waits", "waits", "runs"], seen)
        shares = [int(row[4]) for row in rows] if all(row[4].isdigit() for row in rows) else []
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
        until = time.monotonic() + 10
        while name in sockets() and time.monotonic() < until:
            time.sleep(0.05)
        good &= expect("it is gone when mpiexec has been killed", name not in sockets(), sockets())
        seen = top(str(job.process.pid))
        return good & expect("ferrule top says so", "is not in this network namespace" in seen, seen)


def protocols() -> bool:
    def table(*words: str, **settings: str) -> str:
        command = [str(DIST / "bin/ferrule"), "info", "--protocols", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ, **settings))
        return done.stdout + done.stderr

    kinds = ("self  (", "shm with cma  (", "shm with mem  (", "shm, ring only  (", "tcp  (")
    seen = table()
    good = expect("ferrule info --protocols has all kinds of lanes", all(kind in seen for kind in kinds), seen)
    seen = table(FERRULE_TCP_EAGER_MAX="1000", FERRULE_CHANNELS="self,tcp")
    good &= expect("it follows the settings", "0 B – 1000 B " in seen and "shm with" not in seen, seen)
    seen = table("--size", "1K", FERRULE_CHANNELS="tcp")
    good &= expect("for one size it has one line a lane", seen.count("eager") == 2 and "rendezvous" not in seen, seen)
    return good


def main() -> int:
    broken = runner.compile_all({PROGRAM}, runner.libraries()["ferrule"], 1)
    if broken:
        print(broken)
        return 1
    results = [on_request(), table(), nothing_left(), protocols()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
