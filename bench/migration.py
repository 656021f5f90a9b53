#!/usr/bin/env python3
"""What a migration costs a job, with both designs (FERRULE_MIGRATION=pe and mt): writes docs/performance/migration.json, migration.md and its plots. Needs root.

Usage: bench/migration.py [--quick] [--only totals,endpoints,instructions,growth] [--busy] [--out docs/performance/migration]

Two hosts in namespaces stand for virtual machines; `ferrule migrate` moves one of them by the script driver, to and fro, with another address each time. The driver's step
`migrate` sleeps in the hypervisor's place. --busy marks the figures as those of a machine that did something else, too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests"), str(ROOT / "testbeds/lanes")]
import migration_report

import instructions
import lane_bed
import results

DIST = ROOT / "dist"
FOLDER = ROOT / "build/bench/migration"
PROGRAM = FOLDER / "migration"
#: What the hypervisor takes in a migration, seconds.
HYPERVISOR_S = 1.0
#: How long the ranks compute in a round, in processor time, also with --quick, and when in it the administrator calls.
COMPUTE_S, QUICK_COMPUTE_S, CALL_AFTER_S = 4.0, 1.5, 0.5
EXCHANGES = 20
#: How long a job that never computes is to take.
TALK_S = 12.0
MOVES = 2
TIMEOUT_S = 300
#: Ranks on each of both hosts for the library's share.
EACH = (1, 2, 4, 6, 8)
DRAINS = 7
#: What is measured of the totals: with or without computation, the design, and whether a host moves.
WAYS = {"no migration": ("pe", True, False), "pe": ("pe", True, True), "mt-typical": ("mt", True, True),
        "no migration, no computation": ("pe", False, False), "pe, no computation": ("pe", False, True), "mt-worst": ("mt", False, True)}


class BenchError(RuntimeError):
    """A job or a migration has failed."""


def write_config(bed: lane_bed.Bed) -> pathlib.Path:
    """The driver's script, and the file that describes the machine."""
    program = FOLDER / "mover"
    program.write_text(f"""#!/bin/sh
case $3 in here) address=10.45.1.2 ;; there) address=10.45.1.72 ;; *) exit 9 ;; esac
case $1 in
  detach) ip -n n2 addr flush dev eth1 ;;
  migrate) sleep {HYPERVISOR_S} ;;
  attach-destination) ip -n n2 addr replace "$address/24" dev eth1 ;;
  check) ;;
  *) exit 8 ;;
esac
""")
    program.chmod(0o755)
    config = FOLDER / "vms.json"
    config.write_text(json.dumps({"vms": {"guest": {"driver": "script", "host": bed.names[1], "program": str(program)}}}))
    config.chmod(0o600)
    return config


def start(bed: lane_bed.Bed, each: int, design: str, *words: str) -> subprocess.Popen[str]:
    """A job of bench/migration.c with so many ranks on each host."""
    env = dict(os.environ, FERRULE_LOCALITY="node", FERRULE_MIGRATION=design)
    command = [*bed.prefix("n1"), str(DIST / "bin/mpiexec"), "-genv", "FERRULE_LISTEN", "eth1", "-n", str(2 * each), *bed.job_options(each), str(PROGRAM), *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ferrule(bed: lane_bed.Bed, *words: str) -> dict[str, Any]:
    """What `ferrule WORDS --json` answers; raises BenchError if it says no."""
    done = subprocess.run([*bed.prefix("n1"), str(DIST / "bin/ferrule"), *words, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise BenchError(f"ferrule {' '.join(words)}: {done.stdout}{done.stderr}")
    # Progress comes before it.
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def lines_until(job: subprocess.Popen[str], word: str) -> str:
    """Reads what the job says until a line begins with `word`."""
    said = ""
    for line in job.stdout or ():
        said += line
        if line.startswith(word):
            return line
    raise BenchError(f"the job has ended without {word!r}: {said[-2000:]}")


class Rounds:
    """Follows what a job says, as it says it: which round it is in, and what it says at the end."""

    def __init__(self, job: subprocess.Popen[str]) -> None:
        self.job, self.round, self.said = job, -1, ""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        for line in self.job.stdout or ():
            self.said += line
            if line.startswith("computing "):
                self.round = int(line.split()[1])

    def wait_for(self, round: int) -> None:
        """Until that round, or a later one, has begun."""
        while self.round < round:
            if self.job.poll() is not None:
                raise BenchError(f"the job has ended before round {round}: {self.said[-2000:]}")
            time.sleep(0.002)

    def end(self) -> float:
        """How long all rounds took, in seconds."""
        self.job.wait(timeout=TIMEOUT_S)
        self.reader.join()
        line = next((line for line in self.said.splitlines() if line.startswith("{")), None)
        if self.job.returncode or not line:
            raise BenchError(f"the job's exit code is {self.job.returncode}: {self.said[-2000:]}")
        return float(json.loads(line)["seconds"])


def total(design: str, compute_s: float, moves: int, rounds: int) -> dict[str, Any]:
    """The time of one job, during which a host moves so many times."""
    with lane_bed.Bed(hosts=2, mbit=10_000, classes=False, rails=2) as bed:
        config = write_config(bed)
        job = start(bed, 1, design, str(rounds), str(1000 * compute_s), str(EXCHANGES))
        rounds_of_job = Rounds(job)
        phases = []
        try:
            for move in range(moves):
                # Each time at the beginning of a round.
                rounds_of_job.wait_for(rounds_of_job.round + 1)
                time.sleep(CALL_AFTER_S)
                to = ("there", "here")[move % 2]
                phases.append(ferrule(bed, "migrate", "--config", str(config), "--vm", "guest", "--to", to)["phases_us"])
            seconds = rounds_of_job.end()
        finally:
            job.kill()
            job.wait()
    return {"seconds": seconds, "phases_us": phases}


def totals(quick: bool) -> list[dict[str, Any]]:
    """Jobs with and without computation, with both designs, each way in turn."""
    # As many rounds without computation as take about the same time.
    trial = total("pe", 0, 0, 50)["seconds"] / 50
    compute_s = QUICK_COMPUTE_S if quick else COMPUTE_S
    talk_rounds = max(MOVES, round((TALK_S / (2 if quick else 1)) / trial))
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(1 if quick else 5):
        for way, (design, computes, moves) in WAYS.items():
            # One round more may pass between two moves.
            rounds = 2 * MOVES if computes else talk_rounds
            run = total(design, compute_s if computes else 0, MOVES if moves else 0, rounds)
            row = rows.setdefault(way, {"way": way, "design": design, "computes": computes, "moves": MOVES if moves else 0, "seconds": [], "phases_us": []})
            row["seconds"].append(run["seconds"])
            row["phases_us"] += run["phases_us"]
            print(f"  {way}: {run['seconds']:.2f} s", flush=True)
    return list(rows.values())


def endpoints(quick: bool) -> list[dict[str, Any]]:
    """The library's share by the number of endpoints: a host is drained and resumed at once."""
    rows = []
    for each in EACH[:2] if quick else EACH:
        for design in ("pe", "mt"):
            with lane_bed.Bed(hosts=2, mbit=10_000, classes=False, rails=2) as bed:
                job = start(bed, each, design, "1000000", "0", "1")
                try:
                    lines_until(job, "computing 20")
                    found = [ferrule(bed, "drain", "n2", "--for", "0.05") for _ in range(3 if quick else DRAINS)]
                finally:
                    job.kill()
                    job.wait()
            row = {"each": each, "design": design, "endpoints": found[0]["endpoints"], "phases_us": [run["phases_us"] for run in found]}
            rows.append(row)
            shares = [migration_report.share_ms(phases) for phases in row["phases_us"]]
            print(f"  {row['endpoints']} endpoints, {design}: {statistics.median(shares):.1f} ms", flush=True)
    return rows


def count_instructions() -> list[dict[str, Any]]:
    """Instructions of a message of 8 bytes with each design, by callgrind."""
    if not shutil.which("valgrind"):
        print("no valgrind: instructions are left out")
        return []
    return [{"design": design, "counts": instructions.count(FERRULE_MIGRATION=design)} for design in ("pe", "mt")]


def growth() -> list[dict[str, Any]]:
    """Packets, messages and rounds of an epoch by ranks and peers, simulated."""
    command = ["cargo", "run", "-q", "--release", "-p", "protocol", "--example", "epoch_growth"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


PARTS = ("totals", "endpoints", "instructions", "growth")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance/migration")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only {','.join(unknown)}: known are {', '.join(PARTS)}")
    if set(chosen) & {"totals", "endpoints"}:
        if reason := lane_bed.unavailable():
            sys.exit(f"migration: {reason}")
        if not lane_bed.is_inside():
            return lane_bed.enter()
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(DIST / "bin/mpicc"), "-O2", str(ROOT / "bench/migration.c"), "-o", str(PROGRAM)], check=True)
    source = options.out.with_suffix(".json")
    data: dict[str, Any] = json.loads(source.read_text()) if source.exists() else {}
    makers = {"totals": lambda: totals(options.quick), "endpoints": lambda: endpoints(options.quick), "instructions": count_instructions, "growth": growth}
    for part in chosen:
        print(f"{part}:", flush=True)
        rows = makers[part]()
        busy = options.busy and part in ("totals", "endpoints")
        data[part] = {"rows": rows, "revision": results.revision(), "date": datetime.date.today().isoformat(), "busy": busy, "processors": os.cpu_count()}
        source.write_text(json.dumps(data, indent=1) + "\n")
    migration_report.write(data, options.out)
    print(f"written to {options.out.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
