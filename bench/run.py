#!/usr/bin/env python3
"""Runs the micro-benchmarks for Ferrule and its peers side by side and writes docs/performance/.

A round runs each plan once, and the libraries take turns in each plan, so that whatever else the machine does falls on all alike. Each value is kept with what the processors
shared while it was taken (`distance.py`); a run during which the host of a virtual machine has moved them is made again. results.json grows from run to run: values
of the same revision and machine are added to, others are dropped. What is said of them is in `results.py` and `report.py`.
A library that fails in a plan, or says nothing for a minute, is left out of it from then on and listed.

Usage: bench/run.py [--quick] [--repeats 5] [--budget MINUTES] [--peers ferrule,mpich,openmpi,impi] [--only PATTERN] [--out docs/performance]
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import distance
import instructions
import job
import peers as registry
import report
import results

ROOT = registry.ROOT
#: What each row of a run takes, about.
SECONDS = 0.15
#: A whole run stays below an hour.
BUDGET_MIN = 55
#: A job that prints no row for so long hangs.
SILENCE_S = 60
COLLECTIVES = ("barrier,bcast,reduce,allreduce,reduce_scatter,reduce_scatter_block,scan,exscan,gather,gatherv,scatter,scatterv,"
               "allgather,allgatherv,alltoall,alltoallv")


@dataclasses.dataclass(frozen=True)
class Plan:
    """One program run: `fabric` is shm, tcp (one host) or netns (two hosts); `quick` plans also run in quick mode; only Ferrule has `security`."""

    program: str
    args: tuple[str, ...]
    ranks: int
    fabric: str = "shm"
    quick: bool = False
    timeout_s: int = 300
    security: str = ""

    @property
    def rows_fabric(self) -> str:
        return f"{self.fabric} {self.security}".strip()

    @property
    def label(self) -> str:
        return f"{self.rows_fabric} {self.program} {' '.join(self.args)[:40]} n={self.ranks}"


PT2PT = "8,1024,65536,1048576,4194304"
STREAM = "65536,524288,1048576,4194304"
PLANS = [
    Plan("pt2pt", ("latency", PT2PT), 2, quick=True),
    Plan("pt2pt", ("latency", "65536,1048576,4194304", "cold"), 2, quick=True),
    Plan("pt2pt", ("bandwidth", STREAM), 2, quick=True),
    Plan("pt2pt", ("bandwidth", STREAM, "cold"), 2),
    Plan("pt2pt", ("bibandwidth", STREAM), 2, quick=True),
    Plan("pt2pt", ("rate", "8"), 2, quick=True),
    Plan("pt2pt", ("rate", "8"), 4),
    Plan("pt2pt", ("rate", "8"), 8),
    Plan("coll", (COLLECTIVES, "8,65536,1048576"), 2),
    Plan("coll", ("barrier,allreduce,bcast,alltoall", "8,65536,1048576"), 2, quick=True),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 4, quick=True),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 8, quick=True),
    Plan("coll", (COLLECTIVES, "8,65536"), 4, timeout_s=900),
    Plan("coll", (COLLECTIVES, "8,65536"), 8, timeout_s=1500),
    Plan("coll", ("barrier,bcast,reduce,allreduce,allgather,alltoall", "8,65536"), 16, timeout_s=1500),
    Plan("overlap", ("16384,65536,524288",), 2),
    Plan("overlap", ("16384,65536,524288",), 4, timeout_s=900),
    Plan("rma", ("put,get,accumulate,fetch_and_op,compare_and_swap,lock,flush,progress", "8,1024,65536,1048576"), 2),
    Plan("rma", ("bandwidth", "1024,65536,1048576"), 2),
    Plan("rma", ("put,get,accumulate,fetch_and_op,lock,flush,progress", "8,65536"), 2, "tcp"),
    Plan("files", ("4194304", "4096"), 2),
    Plan("files", ("4194304", "4096"), 4),
    Plan("empty", (), 2, quick=True),
    Plan("empty", (), 16, quick=True),
    Plan("empty", (), 128),
    Plan("resources", ("memory",), 2),
    Plan("resources", ("memory",), 8, quick=True),
    Plan("resources", ("memory",), 32),
    Plan("resources", ("idle", "2"), 2, quick=True),
    Plan("resources", ("idle", "2"), 8),
    Plan("pt2pt", ("latency", PT2PT), 2, "tcp", quick=True),
    Plan("pt2pt", ("bandwidth", STREAM), 2, "tcp", quick=True),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 2, "tcp"),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 4, "tcp", timeout_s=900),
    Plan("pt2pt", ("latency", PT2PT), 2, "netns"),
    Plan("pt2pt", ("bandwidth", STREAM), 2, "netns"),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 4, "netns", timeout_s=900),
    *(Plan("pt2pt", args, 2, "netns", security=security) for security in ("mac", "encrypt") for args in (("latency", "8"), ("bandwidth", "1048576,4194304"))),
]


class Hosts:
    """Two network namespaces for the length of the run, made when first needed."""

    def __init__(self) -> None:
        self.prefix = f"fb{os.getpid()}"
        self.pairs: list[tuple[str, str]] = []

    def get(self) -> list[tuple[str, str]]:
        if not self.pairs:
            done = subprocess.run([str(ROOT / "testbeds/netns/create.sh"), self.prefix], check=True, capture_output=True, text=True)
            self.pairs = [(line.split()[0], line.split()[1]) for line in done.stdout.splitlines()]
        return self.pairs

    def remove(self) -> None:
        if self.pairs:
            subprocess.run([str(ROOT / "testbeds/netns/remove.sh"), self.prefix], check=False)


def run_once(peer: registry.Peer, plan: Plan, hosts: Hosts) -> tuple[list[dict], str]:
    """One run of one library: its rows, and what went wrong."""
    where = hosts.get() if plan.fabric == "netns" else []
    env = peer.environment(plan.fabric)
    env["BENCH_SECONDS"] = str(SECONDS)
    binary = ROOT / "build/bench" / ("abi" if peer.standard_abi else peer.name) / plan.program
    command = [*peer.command(plan.ranks, where), str(binary), *plan.args]
    if where:
        env["NETNS_MAP"] = ",".join(f"{ns}={address}" for ns, address in where)
        if peer.name == "ferrule":
            env["FERRULE_CHANNELS"] = "tcp"
            env["FERRULE_TCP_SECURITY"] = plan.security or "none"
        command = ["ip", "netns", "exec", where[0][0], *command]
    done = job.run(command, env, plan.timeout_s, SILENCE_S)
    if done.error:
        return [], done.error
    rows = [json.loads(line[line.index("{"):]) for line in done.text.splitlines() if '"row"' in line and line.rstrip().endswith("}")]
    if plan.program == "empty":
        rows = [{"row": "startup", "ranks": plan.ranks, "bytes": 0, "value": done.elapsed_s, "unit": "s"}]
    return [dict(row, fabric=plan.rows_fabric) for row in rows], ""


def limit(plan: Plan) -> list[dict]:
    """What the machine can do without MPI, as rows of the plan: spin ping-pong, the better of two ways to copy, or the start of programs that do nothing."""
    if plan.program == "empty":
        return [{"fabric": plan.fabric, "row": "startup", "ranks": plan.ranks, "bytes": 0, "value": floor(plan.ranks), "unit": "s"}]
    if plan.fabric != "shm" or plan.program != "pt2pt" or plan.args[0] not in ("latency", "bandwidth"):
        return []
    cold = " cold" if "cold" in plan.args else ""
    if plan.args[0] == "latency" and cold:
        return []
    what = "latency" if plan.args[0] == "latency" else cold.strip() or "warm"
    text = subprocess.run([distance.raw(), what], capture_output=True, text=True, timeout=60).stdout
    best: dict[int, dict] = {}
    for row in map(json.loads, text.splitlines()):
        if row["bytes"] not in best or row["value"] > best[row["bytes"]]["value"]:
            best[row["bytes"]] = {**row, "fabric": plan.fabric, "row": plan.args[0] + cold}
    return list(best.values())


def limit_once(plan: Plan) -> tuple[list[dict], str]:
    """The limit's turn: rows, and what went wrong."""
    try:
        return limit(plan), ""
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return [], str(error)


@dataclasses.dataclass
class Budget:
    """Leaves out whole rounds, so that all plans have as many repeats. Only the first round stops where the time is over."""

    minutes: float
    clock: Callable[[], float] = time.monotonic
    begin: float = 0.0
    rounds: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin = self.clock()

    def over(self) -> bool:
        return self.clock() - self.begin > self.minutes * 60

    def round_ended(self) -> None:
        self.rounds.append(self.clock() - self.begin - sum(self.rounds))

    def has_room(self) -> bool:
        """For a round that takes as long as the longest until now."""
        return self.clock() - self.begin + max(self.rounds, default=0.0) <= self.minutes * 60


class Run:
    """The rows of results.json while values are added to them."""

    def __init__(self, data: dict, hosts: Hosts, out: pathlib.Path) -> None:
        self.data, self.hosts, self.out = data, hosts, out
        self.table = {results.identity(row): row for row in data["rows"]}
        #: Libraries that have failed in this run, by plan.
        self.failed: dict[str, set[str]] = {}

    def turn(self, plan: Plan, who: list[registry.Peer], first: int) -> None:
        """All libraries once, beginning with number `first`; the machine's limit comes last."""
        date, begin, places, dropped = results.now(), time.monotonic(), collections.Counter[str](), 0
        runs: list[tuple[str, Callable[[], tuple[list[dict], str]]]] = []
        runs += [(peer.name, functools.partial(run_once, peer, plan, self.hosts)) for peer in who[first % len(who):] + who[:first % len(who)]]
        runs.append((results.LIMIT, functools.partial(limit_once, plan)))
        for name, once in runs:
            if name in self.failed.get(plan.label, set()) or plan.security and name != "ferrule":
                continue
            rows, error, place, moves = distance.run_still(once)
            dropped += moves
            if error:
                self.fail(plan, name, error)
            places[place] += bool(rows)
            for row in rows:
                results.add(self.table, row, name, place, date)
        there = ", ".join(f"{place} ({count} libraries)" for place, count in places.items() if count)
        print(f"  {plan.label}: {time.monotonic() - begin:.0f} s; the processors share {there}" + (f"; {dropped} runs dropped: they moved" if dropped else ""), flush=True)
        self.data["dropped"] += dropped
        self.save()

    def fail(self, plan: Plan, name: str, error: str) -> None:
        print(f"  {report.TITLES[name]} is left out of this plan: {error}", flush=True)
        self.failed.setdefault(plan.label, set()).add(name)
        self.data["failures"].append({"plan": plan.label, "peer": name, "error": error})

    def save(self) -> None:
        self.data["rows"] = list(self.table.values())
        results.save(self.out / "results.json", self.data)


def rounds(plans: list[Plan], repeats: int, budget: Budget, turn: Callable[[Plan, int], None]) -> None:
    """`repeats` rounds of all plans, or as many as the budget has room for."""
    for repeat in range(repeats):
        if repeat and not budget.has_room():
            print(f"left out, for want of time: {repeats - repeat} of {repeats} repeats of each plan", flush=True)
            return
        print(f"repeat {repeat + 1} of {repeats}", flush=True)
        for number, plan in enumerate(plans):
            if not repeat and budget.over():
                print("left out, for want of time: all but one repeat, and these plans: " + "; ".join(plan.label for plan in plans[number:]), flush=True)
                return
            turn(plan, repeat)
        budget.round_ended()


def floor(ranks: int) -> float:
    """Seconds that fork and exec of so many static programs take that do nothing."""
    target = ROOT / "build/bench/floor"
    source = ROOT / "bench/floor.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-std=gnu11", "-static", "-o", str(target), str(source)], check=True)
    return float(subprocess.run([str(target), str(ranks)], capture_output=True, text=True, check=True, timeout=60).stdout)


def instruction_counts() -> dict[str, float] | None:
    """Instructions of a message of 8 bytes under callgrind, by function, or None without valgrind."""
    if not shutil.which("valgrind"):
        print("no valgrind: instruction counts are left out")
        return None
    try:
        return instructions.count()
    except RuntimeError as error:
        print(f"instruction counts failed: {error}")
        return None


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next((line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal")), "0")
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            caches.append(f"L{(index / 'level').read_text().strip()} {(index / 'size').read_text().strip()}")
        except OSError:
            continue
    return {"cpu": cpu, "cores": str(len(os.sched_getaffinity(0))), "caches": ", ".join(caches), "memory": f"{round(int(memory) / 2**20)} GiB",
            "kernel": platform.release(), "libc": " ".join(platform.libc_ver())}


def build(who: list[registry.Peer]) -> None:
    for peer in who:
        folder = ROOT / "build/bench" / ("abi" if peer.standard_abi else peer.name)
        for program in ("pt2pt", "coll", "overlap", "rma", "files", "empty", "resources"):
            source, target = ROOT / f"bench/{program}.c", folder / program
            newest = max(source.stat().st_mtime, (ROOT / "bench/bench.h").stat().st_mtime)
            if not target.exists() or target.stat().st_mtime < newest:
                peer.compile(source, target)


def chosen(quick: bool, pattern: str) -> list[Plan]:
    plans = [p for p in PLANS if fnmatch.fnmatch(p.label, pattern) and (p.quick or not quick)]
    if quick:
        return plans
    # The short lists are parts of the long ones.
    covered = {(p.program, p.ranks, p.fabric) for p in plans if p.args and p.args[0] == COLLECTIVES}
    return [p for p in plans if p.program != "coll" or p.args[0] == COLLECTIVES or (p.program, p.ranks, p.fabric) not in covered]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the rows of the peers table, two repeats")
    parser.add_argument("--repeats", type=int, help="how many to add (5)")
    parser.add_argument("--budget", type=float, default=BUDGET_MIN, metavar="MINUTES", help=f"leave out repeats that don't fit ({BUDGET_MIN})")
    parser.add_argument("--peers", default="ferrule,mpich,openmpi,impi")
    parser.add_argument("--only", default="*", help="add to the plans whose label matches")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options = parser.parse_args()
    if os.getloadavg()[0] > 0.5 * len(os.sched_getaffinity(0)):
        print(f"The machine is busy (load {os.getloadavg()[0]:.1f}): figures and distances will be wrong.", flush=True)
    budget = Budget(options.budget)
    names = [n for n in options.peers.split(",") if n]
    registry.install(names)
    who = registry.peers(names)
    build(who)
    hosts = Hosts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the namespaces go in any case
    options.out.mkdir(parents=True, exist_ok=True)
    conditions = {"machine": machine(), "revision": results.revision()}
    data, other = results.load(options.out / "results.json", conditions)
    if other:
        print(f"The values in {options.out / 'results.json'} are dropped: {other}.", flush=True)
    data = data or {"format": results.FORMAT, **conditions, "instructions": None, "rows": [], "failures": [], "dropped": 0}
    plans = chosen(options.quick, options.only)
    labels = {plan.label for plan in plans}
    data["failures"] = [failure for failure in data["failures"] if failure["plan"] not in labels]
    run = Run(data, hosts, options.out)
    try:
        rounds(plans, options.repeats or (2 if options.quick else 5), budget, lambda plan, repeat: run.turn(plan, who, repeat))
        if "ferrule" in names and options.only == "*" and not data["instructions"]:
            data["instructions"] = instruction_counts()
            run.save()
    finally:
        hosts.remove()
    report.write(data, options.out)
    print((options.out / "README.md").read_text())
    return int(any(failure["peer"] == "ferrule" for failure in data["failures"]))


if __name__ == "__main__":
    sys.exit(main())
