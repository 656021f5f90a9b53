#!/usr/bin/env python3
"""What workers bring (mpiexec --offload): overlap and pure latency of non-blocking collectives by size and number of workers, as bench/offload.c measures them.

    bench/offload.py [--ranks 2] [--workers 0,1] [--collectives ialltoall,…] [--bytes 16384,…] [--iterations 50] [--json FILE]
    bench/offload.py --demo        one collective with and without a worker, as bars in the terminal and as build/offload.svg

Runs on this host only. With as many ranks as processors workers have none of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/tests/offload-bench"
COLLECTIVES = "ialltoall,iallgather,ibcast,iallreduce"
SIZES = "16384,65536,262144,1048576"
Row = dict[str, float | str]


def measure(ranks: int, workers: int, collective: str, size: int, iterations: int) -> Row:
    words = [str(ROOT / "dist/bin/mpiexec"), "--offload", str(workers), "-n", str(ranks), str(PROGRAM), collective, str(size), str(iterations)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "FERRULE_COLL_OFFLOAD": "all"}, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    row: Row = json.loads(done.stdout)
    return {**row, "workers": workers}


def bar(percent: float) -> str:
    return "█" * round(percent / 2.5)


def write_svg(rows: list[Row], path: pathlib.Path) -> None:
    """Bars of overlap: one for each number of workers and size."""
    height = 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{height * len(rows) + 40}" font-family="sans-serif" font-size="12">',
             '<text x="10" y="18">Overlap of computation and communication, in per cent</text>']
    for i, row in enumerate(rows):
        y, overlap = 30 + height * i, float(row["overlap"])
        colour = "#1f77b4" if row["workers"] else "#999999"
        name = f'{row["collective"]} {int(float(row["bytes"])) // 1024} KiB, {row["workers"]} workers'
        parts.append(f'<text x="10" y="{y + 15}">{name}</text><rect x="220" y="{y + 2}" width="{overlap * 3.6:.0f}" height="18" fill="{colour}"/>'
                     f'<text x="{225 + overlap * 3.6:.0f}" y="{y + 15}">{overlap:.0f}</text>')
    path.write_text("\n".join([*parts, "</svg>\n"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--workers", default="0,1")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--bytes", default=SIZES)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--demo", action="store_true")
    options = parser.parse_args()
    if options.demo:
        options.collectives, options.bytes, options.iterations = "ialltoall,iallreduce", "262144,1048576", 30
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", str(ROOT / "bench/offload.c"), "-o", str(PROGRAM)], check=True)
    rows: list[Row] = []
    print(f"{'collective':<11} {'bytes':>8} {'workers':>7} {'pure µs':>9} {'total µs':>9} {'post µs':>8} {'overlap %':>9}")
    for collective in options.collectives.split(","):
        for size in options.bytes.split(","):
            for workers in options.workers.split(","):
                row = measure(options.ranks, int(workers), collective, int(size), options.iterations)
                rows.append(row)
                overlap = float(row["overlap"])
                print(f"{collective:<11} {size:>8} {workers:>7} {row['pure_us']:>9} {row['total_us']:>9} {row['post_us']:>8} {overlap:>9} {bar(overlap)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.demo:
        svg = ROOT / "build/offload.svg"
        write_svg(rows, svg)
        print(f"written to {svg.relative_to(ROOT)}; {os.cpu_count()} processors, {options.ranks} ranks: what a worker brings depends on whether one is free for it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
