#!/usr/bin/env python3
"""Small messages beside a bulk stream on a link of 100 Mb/s: one lane, and lanes of their own. A table and a plot in the terminal, and an SVG. Needs root.

Usage: bench/lanes_demo.py [--seconds 6] [--out build/lanes.svg]
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import drawing
import lanes_jobs
from lanes_jobs import Way, lane_bed, ms

MBIT = 100
WAYS = [
    Way("no bulk stream", bulk=False),
    Way("one lane", env=lanes_jobs.lanes("single")),
    Way("segregate, link without classes", env=lanes_jobs.lanes("segregate"), classes=False),
    Way("segregate, link with classes", env=lanes_jobs.lanes("segregate")),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6, help="for each line")
    parser.add_argument("--out", type=pathlib.Path, default=lanes_jobs.ROOT / "build/lanes.svg", help="the plot")
    options = parser.parse_args()
    if not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no directory {options.out.parent}")
    if not 1 <= options.seconds <= 600:
        parser.error(f"--seconds {options.seconds:g} is not between 1 and 600")
    if reason := lane_bed.unavailable():
        sys.exit(f"lanes: {reason}")
    if not lane_bed.is_inside():
        return lane_bed.enter()
    begin = time.monotonic()
    print(f"Two hosts on a link of {MBIT} Mb/s. Round trips of 8 bytes between two ranks, while one sends the other {lanes_jobs.BULK_BYTES >> 10} KiB messages as fast as they go.\n", flush=True)
    print(f"{'':32} {'round trips':>11} {'p50 ms':>9} {'p99 ms':>9} {'most ms':>9} {'bulk Mb/s':>10}", flush=True)
    rows = []
    for way in WAYS:
        with lane_bed.Bed(mbit=MBIT, classes=way.classes) as bed:
            found = lanes_jobs.round_trips(bed, way, 8, options.seconds)
        row = lanes_jobs.distribution(found["samples"])
        rows.append((way.title, row))
        bulk = f"{found['bulk_mbit']:.1f}" if way.bulk else "-"
        shown = [ms(row["p50"]), ms(row["p99"]) if row["p99"] is not None else "-", ms(row["most"])]
        print(f"{way.title:32} {row['n']:>11} {shown[0]:>9} {shown[1]:>9} {shown[2]:>9} {bulk:>10}", flush=True)
    print(f"\nRound trips, ms: line 1 % to 99 %, thick 25 % to 75 %, bar the median\n{lanes_jobs.bars(rows)}")
    if plt := drawing.library():
        lanes_jobs.plot(plt, options.out, [(f"8 bytes beside a bulk stream, {MBIT} Mb/s", rows)], "round trip, ms")
        print(f"\nThe plot is in {options.out}; {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (lanes_jobs.JobError, lane_bed.BedError, RuntimeError) as problem:
        sys.exit(f"lanes: {problem}")
