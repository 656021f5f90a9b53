#!/usr/bin/env python3
"""What each automatic choice brings: every controller of crates/protocol/src/policy on, and off by its switch, in turn.

A pair is a run with the controller and one without, one right after the other; every second pair begins with the one without. Only pairs during which the processors stayed as far
apart as they were count, and each distance has a table of its own (`distance.py`). The ratio is what the run without takes for each unit of time of the run with, or the
other way round of rates: above 1 means that the controller helps. Two builds are compared by trees.py.

Usage: bench/policies.py [--pairs 9] [--seconds 0.1] [--only PATTERN] [--out docs/performance/policies]
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import distance
import job
import peers as registry
import report
import results

ROOT = registry.ROOT
PROGRAMS = ("pt2pt", "coll", "updates")
NETNS = ROOT / "testbeds/netns"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A controller, its off switch, and a program on which it works. `processors` are those that the job may use; `hosts`: each half of the ranks believes to be alone on its host."""

    controller: str
    off: tuple[tuple[str, str], ...]
    program: str
    args: tuple[str, ...]
    ranks: int = 2
    processors: str = "0,1"
    hosts: bool = False


ONE_WAY = ("latency", "8192,65536,262144,1048576,4194304")
PLANS = [
    Plan("waiting", (("FERRULE_SPIN_SHRINK", "1"), ("FERRULE_YIELD_SHRINK", "1")), "coll", ("barrier,allreduce", "8"), 2, "0"),
    Plan("waiting", (("FERRULE_SPIN_SHRINK", "1"), ("FERRULE_YIELD_SHRINK", "1")), "coll", ("barrier,allreduce", "8"), 8),
    Plan("oversubscription", (("FERRULE_SHARED_CPU", "0"),), "coll", ("barrier,allreduce", "8"), 4, hosts=True),
    Plan("streaming", (("FERRULE_STREAM", "stream"),), "pt2pt", ONE_WAY),
    Plan("streaming", (("FERRULE_STREAM", "stream"),), "pt2pt", ("bandwidth", "65536,524288,1048576,4194304")),
    Plan("non_temporal", (("FERRULE_NON_TEMPORAL", "cached"),), "pt2pt", ONE_WAY),
    Plan("burst", (("FERRULE_BURST_BYTES", "0"),), "pt2pt", ONE_WAY),
    Plan("burst", (("FERRULE_BURST_BYTES", "0"),), "pt2pt", ("bandwidth", "65536,524288,1048576,4194304")),
    Plan("holding", (("FERRULE_HOLD_POLLS", "0"),), "coll", ("alltoall", "16384,65536"), 8),
    Plan("testing", (("FERRULE_TEST_PATIENCE", "0"),), "updates", (), 4),
    Plan("testing", (("FERRULE_TEST_PATIENCE", "0"),), "updates", (), 8),
]


class Hosts:
    """Two network namespaces, made when first needed."""

    def __init__(self) -> None:
        self.prefix, self.names = f"fp{os.getpid()}", list[str]()

    def get(self) -> list[str]:
        if not self.names:
            text = subprocess.run([str(NETNS / "create.sh"), self.prefix], check=True, capture_output=True, text=True).stdout
            self.names = [line.split()[0] for line in text.splitlines()]
        return self.names

    def remove(self) -> None:
        if self.names:
            subprocess.run([str(NETNS / "remove.sh"), self.prefix], check=False)


def run(plan: Plan, env: dict[str, str], hosts: Hosts, seconds: float) -> dict[tuple[str, int], tuple[float, str]]:
    """Values and units of one run, by row and bytes; ends the program if the job fails."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(ROOT / "dist/lib"), "BENCH_SECONDS": str(seconds), **env}
    options, prefix = [], ["taskset", "-c", plan.processors]
    if plan.hosts:
        names, each = hosts.get(), plan.ranks // 2
        options = ["--launcher-exec", "ip netns exec {host} {command}", "-host", ",".join(f"{name}:{each}" for name in names)]
        prefix, env["FERRULE_LOCALITY"] = ["ip", "netns", "exec", names[0], *prefix], "node"
    command = [*prefix, str(ROOT / "dist/bin/mpiexec"), *options, "-n", str(plan.ranks), str(ROOT / "build/bench/policies" / plan.program), *plan.args]
    done = job.run(command, env, 300, 60)
    if done.error:
        raise SystemExit(f"{plan.controller} {plan.program}: {done.error}")
    rows = [json.loads(line[line.index("{"):]) for line in done.text.splitlines() if '"row"' in line]
    return {(row["row"], row["bytes"]): (row["value"], row["unit"]) for row in rows}


def measure(plan: Plan, pairs: int, hosts: Hosts, seconds: float) -> list[dict]:
    """A record for each row and distance: both sides' values and the ratios of the pairs."""
    found: dict[tuple, dict] = {}
    moved = 0
    for pair in range(pairs):
        place = distance.now()
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        values = {side: run(plan, dict(plan.off) if side else {}, hosts, seconds) for side in order}
        if distance.now() != place:
            moved += 1
            continue
        for key, (with_it, unit) in values[0].items():
            without = values[1][key][0]
            record = found.setdefault((place, *key), {"controller": plan.controller, "place": place, "row": key[0], "bytes": key[1], "ranks": plan.ranks,
                                                      "processors": plan.processors, "unit": unit, "with": [], "without": [], "ratios": []})
            record["with"].append(with_it)
            record["without"].append(without)
            record["ratios"].append(with_it / without if "/s" in unit else without / with_it)
    if moved:
        print(f"  {moved} of {pairs} pairs are left out: the processors moved", flush=True)
    return list(found.values())


def page(data: dict) -> str:
    """The page docs/performance/policies.md."""
    parts = [f"Written by `make bench-policies` (`bench/policies.py`). Revision {data['revision']}, {data['date']}; runs of {data['seconds']} s for each row. A figure is the median of the "
             f"pairs' values; in brackets the least, the most, and how many pairs. Fewer than {results.ENOUGH} are \"{results.NOT_MEASURED}\". The ratio is the median of the pairs' ratios: above "
             "1 means that the controller helps."]
    records = data["records"]
    for place in results.PLACES:
        there = [r for r in records if r["place"] == place]
        if there or place in (results.NEAR, results.FAR):
            parts += [f"## {results.PLACES[place]}", f"Revision {data['revision']}, {data['date']}.", table(records, place) if there else "Not measured."]
    return "\n\n".join(["# What each automatic choice brings", *parts]) + "\n"


def table(records: list[dict], place: str) -> str:
    """A line for each row that was measured anywhere."""
    here = {row_of(r): r for r in records if r["place"] == place}
    lines = []
    for key, record in {row_of(r): r for r in records}.items():
        found = [results.summarize(here[key][what]) if key in here else None for what in ("with", "without", "ratios")]
        ranks = f"{record['ranks']} on {len(record['processors'].split(','))}"
        lines.append([record["controller"], ranks, record["row"], str(record["bytes"]), record["unit"], *(str(f or results.NOT_MEASURED) for f in found)])
    return report.markdown_table(["controller", "ranks", "row", "bytes", "unit", "with", "without", "ratio"], lines)


def row_of(record: dict) -> tuple:
    return tuple(record[key] for key in ("controller", "row", "bytes", "ranks", "processors"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each row of a run")
    parser.add_argument("--only", default="*")
    parser.add_argument("--out", type=pathlib.Path, help="the page goes to OUT.md and the values to OUT.json")
    options = parser.parse_args()
    peer = registry.peers(["ferrule"])[0]
    for program in PROGRAMS:
        peer.compile(ROOT / f"bench/{program}.c", ROOT / "build/bench/policies" / program)
    hosts, records = Hosts(), list[dict]()
    try:
        for plan in PLANS:
            if not fnmatch.fnmatch(f"{plan.controller} {plan.program} {' '.join(plan.args)}", options.only):
                continue
            begin = time.monotonic()
            new = measure(plan, options.pairs, hosts, options.seconds)
            records += new
            print(f"{plan.controller} {plan.program}: {time.monotonic() - begin:.0f} s", flush=True)
            for place in dict.fromkeys(record["place"] for record in new):
                print(f"{results.PLACES[place]}\n{table(new, place)}", flush=True)
    finally:
        hosts.remove()
    if options.out:
        data = {"revision": results.revision(), "date": results.now()[:10], "seconds": options.seconds, "records": records}
        options.out.with_suffix(".md").write_text(page(data))
        head = json.dumps({key: value for key, value in data.items() if key != "records"})
        options.out.with_suffix(".json").write_text(head[:-1] + ', "records": [\n' + ",\n".join(map(json.dumps, records)) + "\n]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
