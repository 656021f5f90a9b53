#!/usr/bin/env python3
"""What workers bring (mpiexec --offload): overlap and pure latency of non-blocking collectives by size and number of workers, as bench/offload.c measures them.

    bench/offload.py [--ranks 2] [--workers 0,1] [--collectives ialltoall,…] [--bytes 16384,…] [--iterations 50] [--json FILE]
    bench/offload.py --hosts 4 [--mbit 400] …   with the ranks on hosts in network namespaces, each on a link of so many Mb/s (root)
    bench/offload.py --demo        two collectives with and without a worker, as bars in the terminal and as build/offload.svg

With as many ranks as processors workers have none of their own. Between hosts the ranks run their collectives themselves, also with workers: the column "run by" says who
did, from the ranks' log.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/lanes"))
import lane_bed

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/tests/offload-bench"
COLLECTIVES = "ialltoall,iallgather,ibcast,iallreduce"
SIZES = "16384,65536,262144,1048576"
Row = dict[str, float | str]


#: What a rank logs once for each schedule that a worker gets.
RUN_BY_WORKER = "is run by a worker"


def measure(bed: lane_bed.Bed | None, ranks: int, workers: int, words: Sequence[str]) -> Row:
    """What one job of bench/offload.c says, on the hosts of `bed` if there is one, and who has run the collective."""
    prefix = bed.prefix(bed.names[0]) if bed else []
    where = bed.job_options(ranks // len(bed.names)) if bed else []
    command = [*prefix, str(ROOT / "dist/bin/mpiexec"), *where, *(["--offload", str(workers)] if workers else []), "-n", str(ranks), str(PROGRAM), *words]
    env = {**os.environ, "FERRULE_COLL_OFFLOAD": "all", "FERRULE_LOG": "info"}
    if bed:
        # Their ranks share a kernel, and would use its memory.
        env["FERRULE_LOCALITY"] = "node"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr[-4000:]}")
    row: Row = json.loads(lines[-1])
    row |= {"workers": workers, "run_by": "worker" if RUN_BY_WORKER in done.stdout + done.stderr else "rank"}
    return row | ({"hosts": len(bed.names), "mbit": bed.mbit} if bed else {"hosts": 1})


def bar(percent: float) -> str:
    return "█" * round(percent / 2.5)


def write_svg(rows: list[Row], path: pathlib.Path) -> None:
    """Bars of overlap: one for each number of workers and size."""
    height = 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{height * len(rows) + 40}" font-family="sans-serif" font-size="12">',
             '<text x="10" y="18">Overlap of computation and communication, in per cent</text>']
    for i, row in enumerate(rows):
        y, overlap = 30 + height * i, float(row["overlap"])
        colour = "#1f77b4" if row["run_by"] == "worker" else "#999999"
        name = f'{row["collective"]} {int(float(row["bytes"])) // 1024} KiB, {row["workers"]} workers, by {row["run_by"]}'
        parts.append(f'<text x="10" y="{y + 15}">{name}</text><rect x="260" y="{y + 2}" width="{overlap * 3.6:.0f}" height="18" fill="{colour}"/>'
                     f'<text x="{265 + overlap * 3.6:.0f}" y="{y + 15}">{overlap:.0f}</text>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, checked."""
    options = parser.parse_args()
    if options.demo:
        options.collectives, options.bytes, options.iterations = "ialltoall,iallreduce", "262144,1048576", 30
    if options.hosts != 1 and not 2 <= options.hosts <= 200:
        parser.error(f"--hosts {options.hosts} is not between 1 and 200")
    if not 1 <= options.mbit <= 10_000:
        parser.error(f"--mbit {options.mbit:g} is not between 1 and 10000")
    options.ranks = options.ranks or max(2, options.hosts)
    if options.ranks < 2 or options.ranks % options.hosts:
        parser.error(f"--ranks {options.ranks} are not as many on each of {options.hosts} hosts")
    return options


def table(options: argparse.Namespace, bed: lane_bed.Bed | None) -> list[Row]:
    """Measures everything, and shows it line by line."""
    rows: list[Row] = []
    print(f"{'collective':<11} {'bytes':>8} {'workers':>7} {'run by':>7} {'pure µs':>9} {'total µs':>9} {'post µs':>8} {'overlap %':>9}")
    for collective in options.collectives.split(","):
        for size in options.bytes.split(","):
            for workers in options.workers.split(","):
                row = measure(bed, options.ranks, int(workers), [collective, size, str(options.iterations)])
                rows.append(row)
                overlap = float(row["overlap"])
                print(f"{collective:<11} {size:>8} {workers:>7} {row['run_by']:>7} {row['pure_us']:>9} {row['total_us']:>9} {row['post_us']:>8} {overlap:>9} {bar(overlap)}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, help="of all hosts; by default one on each, at least two")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--mbit", type=float, default=400, help="of each host's link")
    parser.add_argument("--workers", default="0,1")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--bytes", default=SIZES)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--demo", action="store_true")
    options = options_of(parser)
    if options.hosts > 1:
        if reason := lane_bed.unavailable():
            sys.exit(f"offload: {reason}")
        if not lane_bed.is_inside():
            return lane_bed.enter()
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", str(ROOT / "bench/offload.c"), "-o", str(PROGRAM)], check=True)
    if options.hosts > 1:
        with lane_bed.Bed(hosts=options.hosts, mbit=options.mbit, classes=False) as bed:
            rows = table(options, bed)
    else:
        rows = table(options, None)
    if any(row["workers"] and row["run_by"] == "rank" for row in rows):
        print("The ranks have run collectives although there are workers: those of one node only are run by workers (docs/user/offload.md).")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.demo:
        svg = ROOT / "build/offload.svg"
        write_svg(rows, svg)
        print(f"written to {svg.relative_to(ROOT)}; {os.cpu_count()} processors, {options.ranks} ranks: what a worker brings depends on whether one is free for it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
