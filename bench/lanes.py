#!/usr/bin/env python3
"""What lanes bring, on hosts with limited links (testbeds/lanes); needs root. Adds to docs/performance/lanes.json and writes lanes.md and its plots beside it.

Usage: bench/lanes.py [--quick] [--only PATTERN] [--out docs/performance/lanes]

A plan is a job, or a pair of jobs, on a testbed of its own. --only takes the plans whose name matches the pattern. A row replaces the row of the same name; each has the revision,
the day and the machine's load average with it. Full runs also have rows of MPICH, Open MPI and Intel MPI.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import job
import lanes_jobs
import lanes_report
import peers as registry
import results
from lanes_jobs import ROOT, Way, lane_bed, lanes

FFT = "examples/fft3d/fft3d.c"
#: Ranks of all-to-all and FFT: what two processors carry, also of libraries that never sleep.
RANKS = 8
PEERS = ("mpich", "openmpi", "impi")
#: Messages of the streams, bytes; the paper has packets of 2 KiB.
STREAM_BYTES = 2048
#: With this MTU such a message is one packet, as in the paper: 32 bytes of Ferrule's frame, 52 of TCP and IP. With 1500 a message is one packet or two, which alone makes a variation of 0.34.
STREAM_MTU = STREAM_BYTES + 32 + 52
PAIRS = 8


@dataclasses.dataclass(frozen=True)
class Plan:
    """`measure` gets the seconds for each job, and gives the rows' values."""

    name: str
    way: Way
    measure: Callable[[Way, float], dict[str, Any]]
    quick: bool = True


def round_trip(mbit: float, size: int) -> Callable[[Way, float], dict[str, Any]]:
    def measure(way: Way, seconds: float) -> dict[str, Any]:
        with lane_bed.Bed(mbit=mbit, classes=way.classes) as bed:
            found = lanes_jobs.round_trips(bed, way, size, seconds)
        return {**lanes_jobs.distribution(found["samples"]), "bulk_mbit": found["bulk_mbit"]}
    return measure


def bulk_alone(mbit: float) -> Callable[[Way, float], dict[str, Any]]:
    """The stream without anything beside it."""
    def measure(way: Way, seconds: float) -> dict[str, Any]:
        with lane_bed.Bed(mbit=mbit, classes=way.classes) as bed:
            slices = lanes_jobs.run(bed, way, 2, "bulk", f"{seconds + 1:g}", str(lanes_jobs.BULK_BYTES))["samples"][10:]
        return {"bulk_mbit": sum(slices) / len(slices)}
    return measure


def arrivals(way: Way, seconds: float) -> dict[str, Any]:
    with lane_bed.Bed(mbit=100, classes=way.classes, mtu=STREAM_MTU) as bed:
        found = lanes_jobs.run(bed, way, 2 * PAIRS, "streams", f"{seconds:g}", str(STREAM_BYTES))
    return {**lanes_jobs.distribution(found["samples"]), "variation": sum(found["variations"]) / PAIRS, "bulk_mbit": sum(found["mbit"])}


def all_to_all(way: Way, seconds: float) -> dict[str, Any]:
    with lane_bed.Bed(mbit=100, classes=way.classes) as bed:
        found = lanes_jobs.run(bed, way, RANKS, "alltoall", f"{seconds:g}", "1024", str(lanes_jobs.BULK_BYTES if way.bulk else 0))
    return {**lanes_jobs.distribution(found["samples"]), "bulk_mbit": found["bulk_mbit"]}


def fft(way: Way, seconds: float) -> dict[str, Any]:
    """The 3-D FFT; the stream is another job's, of two ranks with the same settings."""
    peer = registry.peers([way.library])[0]
    program = lanes_jobs.binary(peer, FFT)
    with lane_bed.Bed(mbit=100, classes=way.classes) as bed:
        words, env = lanes_jobs.command(bed, way, RANKS, [str(program), "32", "32", "32", str(max(2, round(seconds / 2)))])
        stream = None
        if way.bulk:
            beside, its_env = lanes_jobs.command(bed, way, 2, [str(lanes_jobs.binary(peer)), "bulk", "600", str(lanes_jobs.BULK_BYTES)])
            stream = subprocess.Popen(beside, env=its_env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True)
            time.sleep(2)
        try:
            done = job.run(words, env, 240, lanes_jobs.SILENCE_S)
            if stream and stream.poll() is not None:
                raise lanes_jobs.JobError(f"{way.title}, 3-D FFT: the stream beside it has ended with exit code {stream.returncode}")
        finally:
            if stream:
                os.killpg(stream.pid, signal.SIGTERM)
                stream.wait()
    told = re.search(r"([0-9.]+) ms a transform", done.text)
    if done.error or not told:
        raise lanes_jobs.JobError(f"{way.title}, 3-D FFT: {done.error or done.text[-300:]}")
    return {"p50": float(told[1]) * 1000}


def rails(count: int, cut: bool = False) -> Callable[[Way, float], dict[str, Any]]:
    """Bandwidth over `count` rails of 100 Mb/s; with `cut` the second is cut for the third quarter of the time."""
    def measure(way: Way, seconds: float) -> dict[str, Any]:
        seconds = 2 * seconds if cut else seconds
        with lane_bed.Bed(mbit=100, classes=way.classes, rails=count) as bed:
            timers = [threading.Timer(seconds / 2 + 1, bed.cut, ("n2", 1)), threading.Timer(seconds * 0.75 + 1, bed.mend, ("n2", 1))] if cut else []
            for timer in timers:
                timer.start()
            try:
                slices = lanes_jobs.run(bed, way, 2, "bulk", f"{seconds:g}", str(lanes_jobs.BULK_BYTES))["samples"]
            finally:
                for timer in timers:
                    timer.cancel()
        quarter = len(slices) // 4
        parts = [slices[quarter // 2 + 1:2 * quarter - 2], slices[-quarter // 2:]]
        before, after = (sum(part) / len(part) for part in parts)
        return {"mbit": before, "after_mbit": after, "slices": [round(value, 1) for value in slices]}
    return measure


def plans() -> Iterator[Plan]:
    """All plans, in the order of the page."""
    single, traffic = Way("one lane", env=lanes("single")), Way("segregate:traffic, 3 lanes", env=lanes("segregate:traffic", "3"))
    segregate = Way("segregate", env=lanes("segregate"))
    without = dataclasses.replace(segregate, title="segregate, link without classes", classes=False)
    quiet = Way("no bulk stream", env=lanes("single"), bulk=False)
    peers = [Way(f"{registry.TITLES[name]}, one lane", library=name) for name in PEERS]
    for mbit in (100, 1000):
        yield Plan(f"bulk alone {mbit}", single, bulk_alone(mbit))
        for size in (8, 1024):
            for way in (quiet, single, without, segregate):
                yield Plan(f"round trip {mbit} {size}", way, round_trip(mbit, size), quick=mbit == 100 and size == 8)
        for way in peers:
            yield Plan(f"round trip {mbit} 8", way, round_trip(mbit, 8), quick=False)
    spread = [Way("distribute:connection, 8 shares", env=lanes("distribute:connection", "8")), Way("distribute, 4 lanes", env=lanes("distribute", "4"))]
    for way in (single, *spread):
        yield Plan("arrivals", way, arrivals)
    for kind, measure in (("all-to-all", all_to_all), ("fft", fft)):
        for way in (quiet, single, spread[1], segregate, traffic, *peers):
            yield Plan(kind, way, measure, quick=way.library == "ferrule" and kind == "all-to-all")
    yield Plan("rails", Way("one rail", env=lanes("distribute", "2")), rails(1))
    yield Plan("rails", Way("two rails", env=lanes("distribute", "2")), rails(2))
    yield Plan("rails", Way("two rails, one is cut", env=lanes("distribute", "2")), rails(2, cut=True))


def save(rows: dict[tuple[str, str], dict[str, Any]], out: pathlib.Path) -> list[dict[str, Any]]:
    """Writes the rows of plans that there are, in their order, with page and plots; returns them."""
    file = out.with_suffix(".json")
    order = {(plan.name, plan.way.title): at for at, plan in enumerate(plans())}
    kept = sorted((row for key, row in rows.items() if key in order), key=lambda row: order[row["plan"], row["way"]])
    part = file.with_suffix(".part")
    part.write_text('{"rows": [\n' + ",\n".join(map(json.dumps, kept)) + "\n]}\n")
    part.replace(file)
    lanes_report.write(kept, out)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter, and without the peers")
    parser.add_argument("--only", default="*", help="plans whose name, or name and way, match this")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance/lanes")
    options = parser.parse_args()
    options.out = options.out.absolute()
    chosen = [plan for plan in plans() if (plan.quick or not options.quick) and any(fnmatch.fnmatch(name, options.only) for name in (plan.name, f"{plan.name}, {plan.way.title}"))]
    if not chosen:
        parser.error(f"--only {options.only}: no plan has such a name; they are {', '.join(dict.fromkeys(plan.name for plan in plans()))}")
    if reason := lane_bed.unavailable():
        sys.exit(f"lanes: {reason}")
    if not lane_bed.is_inside():
        registry.install(sorted({plan.way.library for plan in chosen}))  # The private world has no network.
        return lane_bed.enter()
    file = options.out.with_suffix(".json")
    rows = {(row["plan"], row["way"]): row for row in (json.loads(file.read_text())["rows"] if file.exists() else [])}
    failed = 0
    for plan in chosen:
        begin = time.monotonic()
        try:
            values = plan.measure(plan.way, 5 if options.quick else 12)
        except lanes_jobs.JobError as problem:
            print(f"{plan.name}: {problem}", flush=True)
            failed += 1
            continue
        row = {"plan": plan.name, "way": plan.way.title, "revision": results.revision(), "date": results.now()[:10], "load": round(lanes_jobs.load(), 1), **values}
        rows[plan.name, plan.way.title] = row
        save(rows, options.out)
        print(f"{plan.name}, {plan.way.title}: {lanes_report.one_line(row)}; {time.monotonic() - begin:.0f} s", flush=True)
    print("\n".join(lanes_report.goals(save(rows, options.out))))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (lane_bed.BedError, RuntimeError) as problem:
        sys.exit(f"lanes: {problem}")
