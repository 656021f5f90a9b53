#!/usr/bin/env python3
"""Workers that run non-blocking collectives (mpiexec --offload): the same results as without, who runs what, and what happens when a worker or a rank dies.

    tests/offload.py [-k WORD] [--moments N]      runs the cases whose name has WORD in it; N kills of workers (default 12)
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/lanes"))
import cases
import patience
from startup_job import MPIEXEC, check, mpiexec

import lane_bed
import run as runner

TESTS = runner.ROOT / "build/tests"
FORMS = ["nonblocking", "persistent", "nonblocking_c", "persistent_c"]
PROGRAMS = ["bcast", "gather_scatter", "vector", "reduce", "inter", "neighbor"]
NEEDED = {"coll/offload", "coll/again", "coll/barrier", "coll/user_op", "coll/ops", "coll/freed_type", "coll/many", *(f"coll/{name}" for name in PROGRAMS)}
#: What a rank logs once for each schedule that a worker gets.
RUN_BY_WORKER = "is run by a worker"


def job(ranks: int, *words: str, workers: int = 1, code: int = 0, options: tuple[str, ...] = (), **env: str) -> str:
    """What a program of tests/c/coll prints. By default workers run everything."""
    given: dict[str, Any] = {"FERRULE_COLL_OFFLOAD": "all", "FERRULE_LOG": "info", **env}
    program = str(TESTS / "coll" / words[0])
    chosen = ["--offload", str(workers)] if workers else []
    done = mpiexec(*chosen, *options, "-n", str(ranks), program, *words[1:], **given)
    check(done.code == code, f"{' '.join(words)} with {workers} workers: exit code {done.code}: {done.text[-1500:]}")
    return done.text


def program_with_workers(program: str, workers: int, _: pathlib.Path) -> None:
    """All forms of the collectives of one program."""
    for form in FORMS:
        text = job(3 if workers == 1 else 4, program, form, workers=workers)
        check(RUN_BY_WORKER in text, f"{program} {form}: no worker has run anything")


def on_nodes(hosts: int, ranks: int = 2) -> tuple[str, ...]:
    """Options for nodes that know nothing of each other, so that their workers talk over TCP."""
    return ("--launcher", "fork", "--hosts", ",".join(f"h{i}:{ranks}" for i in range(hosts)))


def over_nodes(hosts: int, _: pathlib.Path) -> None:
    """Workers of several nodes run the collectives of their ranks together."""
    for program in PROGRAMS:
        for form in FORMS if hosts == 2 else FORMS[:2]:
            text = job(2 * hosts, program, form, workers=hosts - 1, options=on_nodes(hosts))
            check(RUN_BY_WORKER in text, f"{program} {form}: no worker has run anything")


def mixed_over_nodes(settings: dict[str, Any], _: pathlib.Path) -> None:
    """Several collectives at once, with settings of the links between workers."""
    for words in (("rounds",), ("persist", "60"), ("long",)):
        check(RUN_BY_WORKER in job(5, "offload", *words, workers=2, options=on_nodes(3), **settings), f"{words}: no worker has run anything")


def measured(hosts: int, folder: pathlib.Path) -> None:
    """bench/offload.py with and without a worker: every job gives figures, and it is told who has run the collective."""
    figures = folder / "figures.json"
    words = ["--hosts", str(hosts), "--collectives", "ialltoall", "--bytes", "65536", "--iterations", "2", "--ways", "ranks,1", "--all", "--json", str(figures)]
    done = subprocess.run([sys.executable, str(runner.ROOT / "bench/offload.py"), *words], capture_output=True, text=True, timeout=patience.WATCHDOG_S, check=False)
    check(done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-1000:]}")
    rows = json.loads(figures.read_text())
    check([row["run_by"] for row in rows] == ["rank", "worker"], f"collectives were run by {[row['run_by'] for row in rows]}")
    check(all(row["pure_us"] > 0 and row["total_us"] >= row["pure_us"] / 2 for row in rows), f"figures that can't be: {rows}")
    if hosts > 1:
        # 64 KiB at 100 Mb/s take 5.2 ms: in less, they did not go over the link.
        check(all(row["pure_us"] > 4000 for row in rows), f"the links have no limit: {rows}")


def others(_: pathlib.Path) -> None:
    """Programs about what else belongs to collectives."""
    for program in ["again", "barrier", "user_op", "ops", "freed_type", "many"]:
        job(3, program, workers=2)


def mixed(memory: str, workers: int, _: pathlib.Path) -> None:
    text = job(3, "offload", "rounds", workers=workers, FERRULE_OFFLOAD_MEMORY=memory)
    ways = set(re.findall(r"its memory is reached by (\w+)", text))
    check(ways == {memory} or memory == "auto", f"memory was reached by {ways} instead of {memory}")
    check(RUN_BY_WORKER in text, "no worker has run anything")


def outstanding(_: pathlib.Path) -> None:
    for workers in (1, 2):
        job(2, "offload", "outstanding", workers=workers)


def long_ones(_: pathlib.Path) -> None:
    check("of 140000 bytes" not in job(3, "offload", "long"), "a block has another size")


def choice(_: pathlib.Path) -> None:
    """By default only what is large, and nothing where the setting or the hint says so."""
    processors = os.cpu_count() or 1
    crowded = job(processors, "offload", FERRULE_COLL_OFFLOAD="auto")
    check(RUN_BY_WORKER not in crowded, "a worker has run something although it has no processor of its own")
    if processors > 1:
        free = job(2, "offload", options=("--cpu-set", "0"), FERRULE_COLL_OFFLOAD="auto")
        sizes = [int(size) for size in re.findall(r"a collective of (\d+) bytes is run by a worker", free)]
        check(bool(sizes) and min(sizes) >= 32768, f"workers have run collectives of {sorted(set(sizes))[:5]} bytes")
    check(RUN_BY_WORKER in job(4, "offload", FERRULE_COLL_OFFLOAD="auto", options=on_nodes(2)), "nothing is run by workers of two nodes")
    check(RUN_BY_WORKER not in job(2, "offload", FERRULE_COLL_OFFLOAD="off"), "a worker has run something although it is off")
    check(RUN_BY_WORKER not in job(2, "offload", workers=0), "there are no workers")
    hints = job(2, "offload", "hint", FERRULE_COLL_OFFLOAD="auto")
    check(RUN_BY_WORKER in hints, "the hint has no effect")
    text = job(4, "offload", options=on_nodes(2), FERRULE_CHANNELS="ucx", FERRULE_UCX="on", UCX_TLS="tcp,self")
    check("workers of several nodes need TCP" in text, "nothing says why collectives of two nodes stay with the ranks")


def why(*words: str, **env: str) -> list[str]:
    """What `ferrule why --collectives` prints of the program's collectives, by the process that says it."""
    command = [str(runner.ROOT / "dist/bin/ferrule"), "why", "--collectives", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience.WATCHDOG_S, check=False, env={**os.environ, **env}, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    return re.findall(r"ferrule\[(\d+@.*)", done.stdout + done.stderr)


def verdicts(_: pathlib.Path) -> None:
    """Who has run each collective, and why."""
    program = str(TESTS / "coll/offload")
    # On one node it would depend on the processors that are free.
    lines = why("--offload", "1", *on_nodes(2, 1), "-n", "2", program, "verdicts")
    expected = [
        "MPI_Ialltoall of 65536 bytes on MPI_COMM_WORLD (2 ranks), 2 times, by a worker",
        "MPI_Ialltoall of 4 to 400 bytes on MPI_COMM_WORLD (2 ranks), 2 times, by the ranks: less than FERRULE_COLL_OFFLOAD_MIN_BYTES=32768",
        "MPI_Ialltoallv on MPI_COMM_WORLD (2 ranks), once, by the ranks: not all of them know its size",
        "MPI_Iallreduce of 131072 bytes on MPI_COMM_WORLD (2 ranks), once, by the ranks: its operation is a function of the program",
        "MPI_Ibcast of 65536 bytes on kept (2 ranks), once, by the ranks: the communicator has the hint ferrule_offload=false",
        "MPI_Ibcast on MPI_COMM_SELF (1 ranks), once, by the ranks: the communicator has one process",
        "MPI_Bcast_init of 65536 bytes on MPI_COMM_WORLD (2 ranks), 3 times, by a worker",
    ]
    for line in expected:
        check(sum(f"why: {line}" in found for found in lines) == (2 if "SELF" in line else 1), f"not one line says '{line}': {lines}")
    check(len(lines) == len(expected) + 1, f"other lines: {lines}")
    check(all(line.startswith("0@") or "SELF" in line for line in lines), f"others than the first rank say it: {lines}")
    for words, env, reason in [
        (["-n", "2"], {}, "the job has no workers: mpiexec --offload N"),
        (["--offload", "1", "-n", "2"], {"FERRULE_COLL_OFFLOAD": "off"}, "FERRULE_COLL_OFFLOAD=off"),
        (["--offload", "1", *on_nodes(2), "-n", "4"], {"FERRULE_CHANNELS": "ucx", "FERRULE_UCX": "on", "UCX_TLS": "tcp,self"}, "workers of several nodes need TCP"),
    ]:
        lines = why(*words, program, "verdicts", **env)
        check(any("MPI_Bcast_init" in line and f"by the ranks: {reason}" in line for line in lines), f"{words}: nobody says '{reason}': {lines}")
    processors = len(os.sched_getaffinity(0))
    if 2 <= processors <= 16:
        lines = why("--offload", "1", "-n", str(processors), program, "verdicts")
        check(any("MPI_Bcast_init" in line and "on one node workers need a processor" in line for line in lines), f"{processors} ranks on as many processors: {lines}")
    lines = why("--offload", "1", "-n", "2", str(TESTS / "coll/again"))
    check(len(lines) == 1 and "rank 0 has started no non-blocking" in lines[0], f"a program with blocking collectives only: {lines}")


def named(_: pathlib.Path) -> None:
    """The log of a worker names the other ends of its links as workers."""
    text = job(4, "offload", "rounds", "3", workers=2, options=on_nodes(2), FERRULE_LOG="debug")
    ends = set(re.findall(r"ferrule\[worker \d@h\d\]: debug: connected with (.*?) at ", text))
    check(ends == {f"worker {index} of node h{node}" for index in range(2) for node in range(2)}, f"ends of links: {ends}: {text[-800:]}")


def bad_settings(_: pathlib.Path) -> None:
    program = str(TESTS / "coll/offload")
    wrong: list[tuple[list[str], dict[str, Any], str]] = [
        (["--offload", "17"], {}, "offload"),
        (["--offload", "x"], {}, "offload"),
        (["--offload", "1"], {"FERRULE_OFFLOAD_MEMORY": "no"}, "FERRULE_OFFLOAD_MEMORY=no is not auto, cma or mem"),
    ]
    for words, env, said in wrong:
        done = mpiexec(*words, "-n", "2", program, **env)
        check(done.code != 0 and said in done.text, f"{words} {env}: exit code {done.code}: {done.text[-400:]}")
    alone = subprocess.run([str(runner.ROOT / "dist/bin/ferrule-worker")], capture_output=True, text=True, timeout=patience.WATCHDOG_S, check=False)
    check(alone.returncode == 1 and "only node agents start it" in alone.stderr, f"a worker without agent: {alone.stderr}")


def rank_dies(hosts: int, _: pathlib.Path) -> None:
    program = str(TESTS / "coll/offload")
    words = ["--offload", "1", *(on_nodes(hosts) if hosts > 1 else ())]
    going_on = mpiexec(*words, "--continue-on-failure", "-n", "4", program, "die", FERRULE_COLL_OFFLOAD="all")
    check("the survivors agree" in going_on.text, f"exit code {going_on.code}: {going_on.text[-800:]}")
    done = mpiexec(*words, "-n", "4", program, "die", FERRULE_COLL_OFFLOAD="all")
    check(done.code != 0, "a job whose rank was killed ends well")


def workers_of(mark: str) -> list[int]:
    def is_worker(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "ferrule-worker"
        return False

    return [pid for pid in runner.marked_processes(mark) if is_worker(pid)]


def cpu_ticks(pid: int) -> int:
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def start(ranks: int, workers: int, *words: str, options: tuple[str, ...] = ()) -> tuple[subprocess.Popen[str], str]:
    mark = uuid.uuid4().hex
    given = {**os.environ, "FERRULE_COLL_OFFLOAD": "all", runner.MARKER: mark}
    command = [MPIEXEC, "--offload", str(workers), *options, "-n", str(ranks), *words]
    process = subprocess.Popen(command, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
    return process, mark


def workers_die(moments: int, hosts: int, words: tuple[str, str], _: pathlib.Path) -> None:
    """Workers are killed at so many moments, in one job after another; nothing is lost, and each death is logged once."""
    while moments > 0:
        moments -= workers_of_job_die(moments, hosts, words)


def workers_of_job_die(moments: int, hosts: int, words: tuple[str, str]) -> int:
    """Kills workers of one job again and again while they run operations; how many."""
    process, mark = start(4, 2, str(TESTS / "coll/offload"), *words, options=on_nodes(hosts) if hosts > 1 else ())
    killed = 0
    while process.poll() is None and killed < moments:
        time.sleep(random.random() * 0.2)
        victims = workers_of(mark)
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(victims), signal.SIGKILL)
                killed += 1
    text, _err = process.communicate(timeout=3 * patience.WATCHDOG_S)
    check(process.returncode == 0, f"after {killed} kills: exit code {process.returncode}: {text[-1500:]}")
    told = text.count("another one goes on with its operations")
    check(killed > 0 and told <= killed, f"{killed} kills, {told} lines of log")
    check(told >= killed - 2, f"{killed} kills, {told} lines of log")
    patience.until(lambda: not runner.marked_processes(mark), 30)
    check(not runner.marked_processes(mark), "processes are left")
    return killed


def own_memory(pid: int) -> int:
    """Bytes of a process that no file has: its own memory, and what it shares with ranks."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return sum(int(kib) << 10 for kib in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", text, re.M))


def memory_of_worker(_: pathlib.Path) -> None:
    """A worker takes at most 8 MiB and 64 KiB for each rank that it serves."""
    ranks, most = 4, 0
    process, mark = start(ranks, 1, str(TESTS / "coll/offload"), "rounds", "100")
    while process.poll() is None:
        for worker in workers_of(mark):
            with contextlib.suppress(OSError):
                most = max(most, own_memory(worker))
        time.sleep(0.02)
    text, _err = process.communicate(timeout=patience.WATCHDOG_S)
    check(process.returncode == 0, f"exit code {process.returncode}: {text[-1500:]}")
    check(0 < most <= (8 << 20) + ranks * (64 << 10), f"a worker has taken {most >> 10} KiB")


def nothing_left(victim: str, _: pathlib.Path) -> None:
    """The job's end takes the workers with it, whoever is killed."""
    process, mark = start(2, 2, "sleep", "1000")
    patience.until(lambda: len(workers_of(mark)) == 2)
    check(len(workers_of(mark)) == 2, "there are not two workers")
    if victim == "mpiexec":
        process.kill()
    else:
        rank = next(pid for pid in runner.marked_processes(mark) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "sleep")
        os.kill(rank, signal.SIGKILL)
    process.communicate(timeout=patience.WATCHDOG_S)
    patience.until(lambda: not runner.marked_processes(mark), 30)
    check(not runner.marked_processes(mark), "processes are left")


def idle(_: pathlib.Path) -> None:
    """A worker that has nothing to do uses no processor."""
    process, mark = start(2, 1, "sleep", "3")
    patience.until(lambda: len(workers_of(mark)) == 1)
    time.sleep(0.5)
    worker = workers_of(mark)[0]
    before = cpu_ticks(worker)
    time.sleep(1.5)
    after = cpu_ticks(worker)
    process.communicate(timeout=patience.WATCHDOG_S)
    check(after == before, f"an idle worker has used {after - before} ticks in 1.5 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--moments", type=int, default=12)
    options = parser.parse_args()
    if errors := runner.compile_all(NEEDED, runner.libraries()["ferrule"], 2):
        failed = {name: text for name, text in errors.items() if text}
        if failed:
            print(failed)
            return 1
    all_cases: list[cases.Case] = [
        *((f"{program} with {workers} workers", functools.partial(program_with_workers, program, workers)) for program in PROGRAMS for workers in (1, 2)),
        ("other programs", others),
        *((f"several at once, memory by {memory}, {workers} workers", functools.partial(mixed, memory, workers))
          for memory, workers in [("auto", 2), ("cma", 1), ("mem", 1)]),
        ("more operations than a worker takes", outstanding),
        ("long buffers and derived types", long_ones),
        ("choice: size, setting, hint, nodes", choice),
        *((f"collectives over {hosts} nodes", functools.partial(over_nodes, hosts)) for hosts in (2, 3)),
        *((f"several at once over three nodes, {' '.join(f'{name}={value}' for name, value in settings.items()) or 'plain'}", functools.partial(mixed_over_nodes, settings))
          for settings in ({}, {"FERRULE_TCP_SECURITY": "mac"}, {"FERRULE_TCP_EAGER_MAX": "256", "FERRULE_LANES": "2"})),
        ("the measurement on this host", functools.partial(measured, 1)),
        *([] if lane_bed.unavailable() else [("the measurement on hosts with links", functools.partial(measured, 2))]),
        ("who has run what, and why", verdicts),
        ("workers are named", named),
        ("bad settings", bad_settings),
        *((f"a rank of {hosts} nodes dies", functools.partial(rank_dies, hosts)) for hosts in (1, 2)),
        *((f"workers of {hosts} nodes die, {words[0]}", functools.partial(workers_die, options.moments, hosts, words))
          for hosts in (1, 2) for words in (("rounds", "150"), ("persist", "2000"))),
        *((f"nothing is left when {victim} is killed", functools.partial(nothing_left, victim)) for victim in ("mpiexec", "a rank")),
        ("an idle worker sleeps", idle),
        ("memory of a worker", memory_of_worker),
    ]
    if reason := lane_bed.unavailable():
        print(f"skipped: the measurement on hosts with links: {reason}")
    return cases.run("offload", [case for case in all_cases if options.k in case[0]])


if __name__ == "__main__":
    sys.exit(main())
