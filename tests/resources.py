#!/usr/bin/env python3
"""Memory of a rank by number of active peers, and processor time of a rank that waits.

Memory: ranks exchange messages of 8 bytes to 64 KiB with a number of peers, 100 of each size, rest in MPI, and then stop. What they use beyond a process of
the same C library with the same buffers without MPI must stay within 1 MiB + 128 KiB for each active peer: anonymous pages, and each memory file of the job once, divided by the ranks, with the
pages that nobody has mapped any more. The library's code is a file that all processes of a node share, and how much of it is mapped depends on
the page cache; it is in the proportional set size, which is printed beside.
Kinds: exchange; late, where all messages have arrived before anybody receives one; burst, where much was streamed; collect, collectives of all ranks, which may keep 256 KiB more;
stream, where ranks still stream, each of which may then lend 5 MiB more to its senders.
Processor: a rank that has waited for 10 ms in MPI_Recv, with one thread or with two (MPI_THREAD_MULTIPLE), uses less than 1 % of a processor over the next 2 s (utime + stime of all its threads).

Usage: tests/resources.py [--ranks 2,4,8,16] [--seconds 2] [--times 100] [--kinds exchange,…] [--verbose]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as runner

PROGRAM = "resources/peers"
BASE_KIB = 1024
PEER_KIB = 128
COLLECTIVES_KIB = 256  # temporary memory that is kept (mpi::coll::arena)
LENT_KIB = 5120  # FERRULE_BURST_BYTES
IDLE_SHARE = 0.01
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Usage:
    """Pages of one process in KiB."""

    pss: int
    private: int  # anonymous pages: what was written, the library's changed data too
    files: dict[str, int]  # memory file → KiB that it holds


def usage(pid: int) -> Usage:
    """What a process has mapped, and the memory files that it has open or mapped (by inode)."""
    pss, private = 0, 0
    files: dict[str, int] = {}
    inode, is_memory_file = "", False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+) *(.*)$", line)
        if head:
            inode, is_memory_file = head[1], head[2].startswith(("/memfd:", "/dev/shm/", "/dev/zero"))
            continue
        value = re.match(r"^(Pss|Rss|Anonymous): +(\d+) kB", line)
        if not value:
            continue
        kib = int(value[2])
        if value[1] == "Pss":
            pss += kib
        elif value[1] == "Rss" and is_memory_file:
            files[inode] = max(files.get(inode, 0), kib)
        elif value[1] == "Anonymous" and not is_memory_file:
            private += kib
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(fd).startswith("/memfd:"):
                stat = os.stat(fd)
                files[str(stat.st_ino)] = max(files.get(str(stat.st_ino), 0), stat.st_blocks // 2)
        except OSError:
            continue
    return Usage(pss, private, files)


class Ranks:
    """A running job whose ranks have printed their pids, until the end of a `with` block."""

    def __init__(self, ranks: int, *words: str) -> None:
        dist = runner.ROOT / "dist"
        env = dict(os.environ, LD_LIBRARY_PATH=str(dist / "lib"))
        if words[0] == "stream":
            env["FERRULE_SINGLE_COPY"] = "off"  # what is pulled needs no memory
        command = [str(dist / "bin/mpiexec"), "-n", str(ranks), str(runner.ROOT / "build/tests" / PROGRAM), *words]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, text=True)
        self.pids: list[int] = []
        while len(self.pids) < ranks:
            assert self.process.stdout
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the job ended early: exit code {self.process.wait()}")
            if line.startswith("ready "):
                self.pids.append(int(line.split()[1]))

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


def plain_usage() -> Usage:
    """A process of the same C library that only sleeps."""
    with subprocess.Popen([str(runner.ROOT / "build/tests/resources/plain")], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        seen = usage(process.pid)
        process.kill()
    return seen


def memory(kind: str, ranks: int, active: int, plain: Usage, times: int, verbose: bool) -> bool:
    """One job; prints what a rank needs and whether that is within the limit."""
    with Ranks(ranks, kind, str(active), str(times)) as job:
        if kind == "stream":
            time.sleep(0.2)
        seen = [usage(pid) for pid in job.pids]
    files: dict[str, int] = {}
    for one in seen:
        for name, kib in one.files.items():
            files[name] = max(files.get(name, 0), kib)
    private = max(one.private for one in seen) - plain.private
    shared = sum(files.values()) / ranks
    pss = sum(one.pss for one in seen) / ranks - plain.pss
    limit = BASE_KIB + PEER_KIB * active + {"collect": COLLECTIVES_KIB, "stream": LENT_KIB}.get(kind, 0)
    good = private + shared <= limit
    print(f"{'pass' if good else 'FAIL'}  memory: {kind}, {ranks} ranks, {active} active peers: {private} KiB private (worst rank) + {shared:.0f} KiB shared "
          f"= {private + shared:.0f} KiB; proportional set size {pss:.0f} KiB; limit {limit} KiB", flush=True)
    if verbose:
        print(f"      memory files: {sorted(files.values(), reverse=True)[:8]} KiB; private: {[one.private for one in seen]} KiB; without MPI: {plain}")
    return good


def cpu_s(pid: int) -> float:
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) * TICK_S


def idle(kind: str, ranks: int, seconds: float) -> bool:
    """Ranks but the first wait in MPI_Recv for a message that does not come; with `threads`, two threads of each do."""
    with Ranks(ranks, kind) as job:
        time.sleep(0.1)
        for _ in range(4):
            before = [cpu_s(pid) for pid in job.pids[1:]]
            start = time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - start
            shares = [(cpu_s(pid) - b) / passed for pid, b in zip(job.pids[1:], before)]
            good = max(shares) < IDLE_SHARE
            if good:
                break
            # On a busy machine some have only now come to where they wait.
    print(f"{'pass' if good else 'FAIL'}  waiting: {kind}, {ranks} ranks: {max(shares) * 100:.2f} % of a processor at most over {passed:.1f} s, limit 1 %", flush=True)
    return good


def build() -> None:
    """The program by the runner, the plain process by the C compiler alone."""
    broken = runner.compile_all({PROGRAM}, runner.libraries()["ferrule"], 1)
    if broken:
        raise SystemExit(broken[PROGRAM])
    out = runner.ROOT / "build/tests/resources"
    subprocess.run(["cc", "-O1", "-o", str(out / "plain"), str(runner.ROOT / "tests/c/resources/plain.c")], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8,16")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--times", type=int, default=100, help="how often the messages of each size are exchanged")
    parser.add_argument("--kinds", default="exchange,late,burst,collect,stream")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    build()
    plain = plain_usage()
    results = []
    for ranks in map(int, options.ranks.split(",")):
        for kind in options.kinds.split(","):
            for active in sorted({1, ranks - 1} if kind in ("exchange", "late") else {ranks - 1}):
                results.append(memory(kind, ranks, active, plain, options.times, options.verbose))
    for kind in ("idle", "threads"):
        for ranks in (2, 4, 16):
            results.append(idle(kind, ranks, options.seconds))
    print(f"resources: {sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
