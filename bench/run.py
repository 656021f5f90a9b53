#!/usr/bin/env python3
"""Runs the micro-benchmarks for Ferrule and its peers side by side and writes docs/performance/.

The libraries take turns within each repeat, so that whatever else the machine does falls on all alike. A figure is the median over
the repeats, its spread is (max - min) / median, and the ratio is against the best peer: above 1 means that Ferrule is better. A library that
fails in a plan, or says nothing for a minute, is left out of it from then on and listed. Results are written after each plan.
A run in which the host of a virtual machine has moved the processors is made again (`distance.py`).

Usage: bench/run.py [--quick] [--repeats 5] [--peers ferrule,mpich,openmpi,impi] [--only PATTERN] [--out docs/performance]
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
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

ROOT = registry.ROOT
#: A job that prints no row for so long hangs.
SILENCE_S = 60
COLLECTIVES = ("barrier,bcast,reduce,allreduce,reduce_scatter,reduce_scatter_block,scan,exscan,gather,gatherv,scatter,scatterv,"
               "allgather,allgatherv,alltoall,alltoallv")


@dataclasses.dataclass(frozen=True)
class Plan:
    """One program run: `fabric` is shm, tcp (one host) or netns (two hosts); `quick` plans also run in quick mode."""

    program: str
    args: tuple[str, ...]
    ranks: int
    fabric: str = "shm"
    quick: bool = False
    timeout_s: int = 300

    @property
    def label(self) -> str:
        return f"{self.fabric} {self.program} {' '.join(self.args)[:40]} n={self.ranks}"


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


def run_once(peer: registry.Peer, plan: Plan, hosts: Hosts, seconds: float) -> tuple[list[dict], str]:
    """One run of one library: its rows, and what went wrong."""
    where = hosts.get() if plan.fabric == "netns" else []
    env = peer.environment(plan.fabric)
    env["BENCH_SECONDS"] = str(seconds)
    binary = ROOT / "build/bench" / ("abi" if peer.standard_abi else peer.name) / plan.program
    command = [*peer.command(plan.ranks, where), str(binary), *plan.args]
    if where:
        env["NETNS_MAP"] = ",".join(f"{ns}={address}" for ns, address in where)
        if peer.name == "ferrule":
            env["FERRULE_CHANNELS"] = "tcp"
        command = ["ip", "netns", "exec", where[0][0], *command]
    done = job.run(command, env, plan.timeout_s, SILENCE_S)
    if done.error:
        return [], done.error
    rows = [json.loads(line[line.index("{"):]) for line in done.text.splitlines() if '"row"' in line and line.rstrip().endswith("}")]
    if plan.program == "empty":
        rows = [{"row": "startup", "ranks": plan.ranks, "bytes": 0, "value": done.elapsed_s, "unit": "s"}]
    return [dict(row, fabric=plan.fabric) for row in rows], ""


def measure(plans: list[Plan], who: list[registry.Peer], repeats: int, seconds: float, hosts: Hosts, save: Callable[[list[dict], list[dict]], None]) -> None:
    """Runs all plans; after each, `save` gets a record for each row so far, with the values of each library, and the failures."""
    table: dict[tuple, dict] = {}
    failures: list[dict] = []
    for plan in plans:
        start = time.monotonic()
        there = list(who)
        place, moved = distance.now(), 0
        for repeat in range(repeats):
            turn = [peer for peer in who[repeat % len(who):] + who[:repeat % len(who)] if peer in there]
            for peer in turn:
                rows, error, elsewhere = distance.run_at(place, functools.partial(run_once, peer, plan, hosts, seconds))
                moved += elsewhere
                if error:
                    print(f"  {peer.title} is left out of this plan: {error}", flush=True)
                    failures.append({"plan": plan.label, "peer": peer.name, "error": error})
                    there.remove(peer)
                for row in rows:
                    key = (row["fabric"], row["row"], row["ranks"], row["bytes"])
                    record = table.setdefault(key, {**{k: row[k] for k in ("fabric", "row", "ranks", "bytes", "unit")}, "place": place, "elsewhere": 0, "values": {}})
                    record["elsewhere"] += elsewhere
                    record["values"].setdefault(peer.name, []).append(row["value"])
            started = table.get((plan.fabric, "startup", plan.ranks, 0)) if plan.program == "empty" else None
            if started:
                started.setdefault("floors", []).append(floor(plan.ranks))
        print(f"{plan.label}: {time.monotonic() - start:.0f} s; the processors share {place}" + (f", but not in {moved} runs" if moved else ""), flush=True)
        save([summarize(record) for record in table.values()], failures)


def summarize(record: dict) -> dict:
    """Adds medians, spreads and the ratio of Ferrule to its best peer (above 1: Ferrule is better)."""
    medians = {name: statistics.median(values) for name, values in record["values"].items()}
    spread = {name: (max(values) - min(values)) / medians[name] if medians[name] else 0.0 for name, values in record["values"].items()}
    more_is_better = record["unit"] in ("GB/s", "million/s") or record["row"].endswith("overlap")
    others = {name: value for name, value in medians.items() if name != "ferrule"}
    record.update(median=medians, spread=spread, more_is_better=more_is_better)
    if "floors" in record:
        record["floor"] = statistics.median(record["floors"])
    if others:
        best = (max if more_is_better else min)(others, key=others.__getitem__)
        record["best_peer"] = best
        if medians.get("ferrule") and others[best]:
            record["ratio"] = medians["ferrule"] / others[best] if more_is_better else others[best] / medians["ferrule"]
    return record


def floor(ranks: int) -> float:
    """Seconds that fork and exec of so many static programs take that do nothing."""
    target = ROOT / "build/bench/floor"
    source = ROOT / "bench/floor.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-std=gnu11", "-static", "-o", str(target), str(source)], check=True)
    return float(subprocess.run([str(target), str(ranks)], capture_output=True, text=True, check=True, timeout=60).stdout)


def raw_limits(repeats: int) -> list[dict]:
    """The machine's own limits, best of the repeats."""
    best: dict[tuple, dict] = {}
    for _ in range(repeats):
        try:
            text = subprocess.run([distance.raw()], capture_output=True, text=True, timeout=300).stdout
        except subprocess.TimeoutExpired:
            continue
        for row in map(json.loads, text.splitlines()):
            key = (row["row"], row["bytes"])
            better = max if row["unit"] == "GB/s" else min
            best[key] = better(row, best.get(key, row), key=lambda r: r["value"])
    return list(best.values())


def instruction_counts() -> dict[str, float] | None:
    """Instructions of one MPI_Send and one MPI_Recv of 8 bytes under callgrind, or None without valgrind."""
    if not shutil.which("valgrind"):
        print("no valgrind: instruction counts are left out")
        return None
    try:
        counts = instructions.count()
    except RuntimeError as error:
        print(f"instruction counts failed: {error}")
        return None
    return {name: counts[name] for name in ("send", "recv") if name in counts} or None


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next((line.split(":", 1)[1].strip() for line in open("/proc/meminfo") if line.startswith("MemTotal")), "unknown")
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            caches.append(f"L{(index / 'level').read_text().strip()} {(index / 'size').read_text().strip()}")
        except OSError:
            continue
    return {"cpu": cpu, "cores": str(len(os.sched_getaffinity(0))), "caches": ", ".join(caches), "memory": memory,
            "kernel": platform.release(), "libc": " ".join(platform.libc_ver()), "load when started": f"{os.getloadavg()[0]:.1f}",
            "date": time.strftime("%Y-%m-%d %H:%M %Z")}


def build(who: list[registry.Peer]) -> None:
    for peer in who:
        folder = ROOT / "build/bench" / ("abi" if peer.standard_abi else peer.name)
        for program in ("pt2pt", "coll", "overlap", "empty", "resources"):
            source, target = ROOT / f"bench/{program}.c", folder / program
            newest = max(source.stat().st_mtime, (ROOT / "bench/bench.h").stat().st_mtime)
            if not target.exists() or target.stat().st_mtime < newest:
                peer.compile(source, target)


def identity(row: dict) -> tuple:
    return row["fabric"], row["row"], row["ranks"], row["bytes"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the rows of the peers table, two repeats")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--peers", default="ferrule,mpich,openmpi,impi")
    parser.add_argument("--only", default="*", help="run only the plans whose label matches; the others stay as they are in OUT")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options = parser.parse_args()
    repeats = options.repeats or (2 if options.quick else 5)
    names = [n for n in options.peers.split(",") if n]
    registry.install(names)
    who = registry.peers(names)
    build(who)
    plans = [p for p in PLANS if fnmatch.fnmatch(p.label, options.only) and (p.quick or not options.quick)]
    if not options.quick:  # the short lists are parts of the long ones
        covered = {(p.program, p.ranks, p.fabric) for p in plans if p.args and p.args[0] == COLLECTIVES}
        plans = [p for p in plans if p.program != "coll" or p.args[0] == COLLECTIVES or (p.program, p.ranks, p.fabric) not in covered]
    hosts = Hosts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the namespaces go in any case
    options.out.mkdir(parents=True, exist_ok=True)
    data: dict = {"machine": machine(), "repeats": repeats, "raw": [], "instructions": None, "rows": [], "failures": [], "again": []}
    before = options.out / "results.json"
    if options.only != "*" and before.exists():  # the other plans stay as they were
        data = json.loads(before.read_text())
        again = {plan.label: f"{machine()['date']}, {repeats} repeats" for plan in plans}
        data["again"] = [entry for entry in data.get("again", []) if entry["plan"] not in again]
        data["again"] += [{"plan": label, "date": date} for label, date in again.items()]
    old_rows, old_failures = data["rows"], [f for f in data["failures"] if f["plan"] not in {plan.label for plan in plans}]

    def save(rows: list[dict], failures: list[dict]) -> None:
        new = {identity(row): row for row in rows}
        kept = [new.pop(identity(row), row) for row in old_rows]
        data.update(rows=kept + list(new.values()), failures=old_failures + failures)
        (options.out / "results.part").write_text(json.dumps(data, indent=1))
        (options.out / "results.part").replace(options.out / "results.json")

    try:
        if options.only == "*":
            data["raw"] = raw_limits(1 if options.quick else 3)
        measure(plans, who, repeats, 0.05 if options.quick else 0.15, hosts, save)
        if "ferrule" in names and options.only == "*":
            data["instructions"] = instruction_counts()
            save(data["rows"], data["failures"])
    finally:
        hosts.remove()
    text = report.markdown(data)
    (options.out / "README.md").write_text(text)
    report.plots(data, options.out)
    print(text)
    return int(any(failure["peer"] == "ferrule" for failure in data["failures"]))


if __name__ == "__main__":
    sys.exit(main())
