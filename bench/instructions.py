#!/usr/bin/env python3
"""Instructions of the short paths under callgrind: what `instructions.c` measures, by message of 8 bytes, as the mean of both ranks.

Counts are the same on a busy machine and an idle one, so they are a test: more than LIMITS allow means that something on the way of every
message has become longer (docs/design/0002-engine-over-transports.md says what each figure is made of). With `mpiexec --profile` each figure may grow by
PROFILE_COST at most; when it is off, nothing of the profiler is on that way, which the limits guard. Without valgrind the test is skipped.

Usage: bench/instructions.py [--rounds 64]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Messages of one window in instructions.c.
WINDOW = 32
#: Limits by sums of the measured functions, what the project promises, or a few percent above what was reached.
LIMITS = {
    ("send", "recv"): 364,
    ("isend", "wait_sent"): 205,
    ("irecv", "wait_received"): 500,
}
#: What --profile may add, as a part of the figure without it.
PROFILE_COST = 0.01
TIMEOUT_S = 300


def count(rounds: int = 64, profile: bool = False, **settings: str) -> dict[str, float]:
    """Instructions by measured function, for each message, with these variables; raises RuntimeError with what the job said if it fails."""
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        command = [str(dist / "bin/mpicc"), "-O2", str(ROOT / "bench/instructions.c"), "-o", str(tmp / "instructions")]
        subprocess.run(command, check=True)
        # Ranks that share processors would yield, which is no part of the path.
        env = dict(os.environ, LD_LIBRARY_PATH=str(dist / "lib"), FERRULE_OVERSUBSCRIBED="no", **settings)
        options = ["--profile", str(tmp / "profile.json")] if profile else []
        command = [str(dist / "bin/mpiexec"), "-n", "2", "--timeout", str(TIMEOUT_S), *options, "valgrind", "--tool=callgrind",
                   f"--callgrind-out-file={tmp}/out.%p", str(tmp / "instructions"), str(rounds), str(tmp / "step")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S + 30)
        if done.returncode:
            raise RuntimeError(done.stderr[-1000:])
        found: dict[str, list[float]] = {}
        for path in tmp.glob("out.*"):
            command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(path)]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for match in re.finditer(r"^\s*([\d,]+) .*:measured_(\w+)", text, re.M):
                found.setdefault(match[2], []).append(int(match[1].replace(",", "")) / (rounds * WINDOW))
    return {name: statistics.mean(values) for name, values in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=64)
    options = parser.parse_args()
    tests = 2 * len(LIMITS)
    if not shutil.which("valgrind"):
        print(f"instructions: 0 passed, 0 failed, {tests} skipped (no valgrind)")
        return 0
    try:
        plain, profiled = count(options.rounds), count(options.rounds, profile=True)
    except RuntimeError as error:
        print(f"instructions: the job failed: {error}")
        return 1
    failed = 0
    for names, most in LIMITS.items():
        off = sum(plain.get(name, float("inf")) for name in names)
        for counts, what, limit in ((plain, "", most), (profiled, " with --profile", off * (1 + PROFILE_COST))):
            total = sum(counts.get(name, float("inf")) for name in names)
            failed += total > limit
            parts = ", ".join(f"{name} {counts.get(name, 0):.1f}" for name in names)
            print(f"{'pass' if total <= limit else 'FAIL'}  {total:6.1f} of {limit:.1f}: {parts}{what}")
    print(f"instructions: {tests - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
