#!/usr/bin/env python3
"""Kills a random process of a job at a random moment, many times.

The victim is a rank, a node agent or mpiexec itself; the moment lies anywhere between the start and the middle of the traffic. After each:
mpiexec has ended within 5 seconds (when it was not the victim), with a non-zero exit code and a message that names what died; no process of
the job, no file in its directory, no object in /dev/shm, no abstract socket and no memory file descriptor is left.

Usage: tests/kill.py [--moments 200] [--seed N] [--ranks 3] [--hosts]   (--hosts: ranks on two network namespaces, which
play two hosts, by TCP; with --near their agents may find that they are one)
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

import run as runner

ROOT = runner.ROOT
END_S = 5.0
# How long each end took, and how many processes wanted each processor then.
slowest: list[tuple[float, float]] = []


def command_line(pid: int) -> list[str]:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def role(pid: int, mpiexec: int) -> str:
    """What a process of the job is: mpiexec, rank, agent, or other (a shell or ip between them)."""
    if pid == mpiexec:
        return "mpiexec"
    line = command_line(pid)
    if any(word.endswith("/victim") for word in line[:1]):
        return "rank"
    return "agent" if line and "mpiexec" in line[0] else "other"


def children(mark: str, mpiexec: int) -> dict[str, list[int]]:
    """The processes of the job by role."""
    found: dict[str, list[int]] = {}
    for pid in {*runner.marked_processes(mark), mpiexec}:
        found.setdefault(role(pid, mpiexec), []).append(pid)
    return found


def one_moment(lib: runner.Library, rng: random.Random, ranks: int, launch: list[str], prefix: list[str]) -> tuple[str, str]:
    """Runs a job and kills one of its processes; returns (victim's role, complaint or nothing)."""
    mark = uuid.uuid4().hex
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="fk-"))
    shm = runner.shm_objects()
    env = dict(os.environ, LD_LIBRARY_PATH=str(lib.lib), TMPDIR=str(tmp))
    env[runner.MARKER] = mark
    command = [*prefix, *lib.launch, *launch, "-n", str(ranks), str(ROOT / "build/tests/init/victim"), "20"]
    with open(tmp / "out", "w+") as out:
        process = subprocess.Popen(command, env=env, cwd=tmp, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
        # From the first fork to well inside the traffic; short delays more often.
        time.sleep(rng.random() ** 2 * 0.6)
        victims = children(mark, process.pid)
        wanted = rng.choice(["rank", "rank", "agent", "mpiexec"])
        if wanted not in victims:
            wanted = "mpiexec"
        victim = rng.choice(victims[wanted])
        start = time.monotonic()
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
        complaint = ""

        def others() -> list[int]:
            return [p for p in runner.marked_processes(mark) if p != process.pid]

        patience.until(lambda: process.poll() is not None and not others(), END_S, promise=True)
        slowest.append((time.monotonic() - start, patience.stretch()))
        if process.poll() is None:
            complaint = f"mpiexec is still there {time.monotonic() - start:.1f} s after {wanted} {victim} was killed"
        left = others()
        if left and not complaint:
            complaint = "left behind: " + ", ".join(f"{role(p, -1)} {p} {' '.join(command_line(p))[:60]}" for p in left)
        for pid in {*left, process.pid} if complaint else set():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        out.seek(0)
        text = out.read()
    if not complaint and wanted != "mpiexec":
        complaint = message_fault(process.returncode, text, wanted, victim)
    complaint = complaint or runner.remains(process.pid, tmp, shm)
    shutil.rmtree(tmp, ignore_errors=True)
    return wanted, complaint and f"{complaint}\n{text[-1500:]}"


def message_fault(code: int, text: str, wanted: str, victim: int) -> str:
    """What is wrong with how mpiexec reported the death of `victim`, or nothing."""
    if code == 0:
        return f"exit code 0 although {wanted} {victim} was killed"
    named = re.search(rf"rank \d+.*\b{victim}\b.*(SIGKILL|signal 9|killed)", text, re.I | re.S)
    if wanted == "rank" and not named:
        return f"the message doesn't name the rank {victim} and its signal"
    # A rank between fork and exec still looks like its agent.
    if wanted == "agent" and not named and not re.search(r"agent", text, re.I):
        return f"the message doesn't name the agent {victim}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--near", action="store_true")
    options = parser.parse_args()
    lib = runner.libraries()["ferrule"]
    broken = runner.compile_all({"init/victim"}, lib, 1)
    if broken:
        print(broken)
        return 1
    print(f"kill tests: {options.moments} moments, seed {options.seed}")
    rng = random.Random(options.seed)
    launch: list[str] = []
    prefix: list[str] = []
    namespaces = f"fk{os.getpid()}"
    failures: list[str] = []
    count: dict[str, int] = {}
    begin = time.monotonic()
    try:
        if options.hosts:
            subprocess.run([str(ROOT / "testbeds/netns/create.sh"), namespaces], check=True, stdout=subprocess.DEVNULL)
            launch = ["--launcher-exec", "ip netns exec {host} {command}", "-host", f"{namespaces}-1:2,{namespaces}-2:2"]
            prefix = ["ip", "netns", "exec", f"{namespaces}-1"]
            if not options.near:
                os.environ["FERRULE_LOCALITY"] = "node"
        for moment in range(options.moments):
            wanted, complaint = one_moment(lib, rng, options.ranks, launch, prefix)
            count[wanted] = count.get(wanted, 0) + 1
            if complaint:
                failures.append(f"moment {moment}, {wanted}: {complaint}")
                print(f"FAIL  {failures[-1]}", flush=True)
                if len(failures) >= 10:
                    break
    finally:
        if options.hosts:
            subprocess.run([str(ROOT / "testbeds/netns/remove.sh"), namespaces], check=False)
    victims = ", ".join(f"{n} {who}" for who, n in sorted(count.items()))
    longest, load = max(slowest)
    print(f"nothing was left after {longest:.1f} s at most, with {load:.1f} processes for a processor then; {END_S:.0f} s are allowed, times that if it is above 1")
    print(f"killed {victims} in {time.monotonic() - begin:.0f} s")
    print(f"kill: {sum(count.values()) - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
