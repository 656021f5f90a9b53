#!/usr/bin/env python3
"""Instructions of the short paths under callgrind: what `instructions.c` measures, by message of 8 bytes, as the mean of both ranks.

Counts are the same on a busy machine and an idle one, so they are a test: more than LIMITS allow means that something on the way of every
message has become longer (docs/design/0002-fabric.md says what each figure is made of). Without valgrind the test is skipped.

Usage: bench/instructions.py [--rounds 40]
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
#: Limits by sums of the measured functions, a few percent above what was reached.
LIMITS = {
    ("send", "recv"): 390,
    ("isend", "wait_sent"): 230,
    ("irecv", "wait_received"): 760,
}
TIMEOUT_S = 300


def count(rounds: int = 40) -> dict[str, float]:
    """Instructions by measured function, for each message; raises RuntimeError with what the job said if it fails."""
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        command = [str(dist / "bin/mpicc"), "-O2", str(ROOT / "bench/instructions.c"), "-o", str(tmp / "instructions")]
        subprocess.run(command, check=True)
        # Ranks that share processors would yield, which is no part of the path.
        env = dict(os.environ, LD_LIBRARY_PATH=str(dist / "lib"), FERRULE_CROWDED="no")
        command = [str(dist / "bin/mpiexec"), "-n", "2", "--timeout", str(TIMEOUT_S), "valgrind", "--tool=callgrind",
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
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print(f"instructions: 0 passed, 0 failed, {len(LIMITS)} skipped (no valgrind)")
        return 0
    try:
        counts = count(options.rounds)
    except RuntimeError as error:
        print(f"instructions: the job failed: {error}")
        return 1
    failed = 0
    for names, limit in LIMITS.items():
        total = sum(counts.get(name, float("inf")) for name in names)
        failed += total > limit
        parts = ", ".join(f"{name} {counts.get(name, 0):.0f}" for name in names)
        print(f"{'pass' if total <= limit else 'FAIL'}  {total:6.0f} of {limit}: {parts}")
    print(f"instructions: {len(LIMITS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
