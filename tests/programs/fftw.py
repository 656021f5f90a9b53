#!/usr/bin/env python3
"""FFTW (Debian source package `fftw3`): its distributed transforms against its serial ones, by its own check with random problems.

The library is built with dist/bin/mpicc and MPI; `tests/check.pl` gives `mpi-bench` random sizes and kinds, which it checks by itself (linearity,
shifts, impulses).

Usage: tests/programs/fftw.py [--problems 10] [--ranks 1,2,3,4]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import jobs
import packages

DIST = pathlib.Path(os.environ.get("SUITES_DIST", jobs.ROOT / "dist"))


def build(source: pathlib.Path) -> pathlib.Path:
    """The folder with `mpi/mpi-bench`."""
    built = packages.WORK / "fftw3/built"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    configure = [str(source / "configure"), "--enable-mpi", "--disable-fortran", "--disable-doc", "--disable-shared", f"MPICC={DIST / 'bin/mpicc'}", "CFLAGS=-O1"]
    for command in (configure, ["make", "-j2"]):
        done = subprocess.run(command, cwd=built, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"fftw3 does not build: {command[0]}:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10, help="random problems of each kind")
    parser.add_argument("--ranks", default="1,2,3,4")
    options = parser.parse_args()
    try:
        source = packages.unpacked("fftw3")
    except packages.Unavailable as error:
        print(f"skip  fftw: {error}\nfftw: 0 passed, 0 failed, 1 skipped")
        return 0
    built, failed = build(source), 0
    runs: list[tuple[int, dict[str, str]]] = [(int(ranks), {}) for ranks in options.ranks.split(",")] + [(3, {"FERRULE_CHANNELS": "tcp"})]
    for ranks, env in runs:
        program = f"{DIST / 'bin/mpiexec'} -n {ranks} {built / 'mpi/mpi-bench'}"
        command = ["perl", "-w", str(source / "tests/check.pl"), "--random", "--maxsize=10000", f"-c={options.problems}", "--mpi", program]
        result = jobs.start(command, 1500, env)
        ok = result.code == 0 and not result.left
        failed += not ok
        print(f"{'pass' if ok else 'FAIL'}  fftw with {ranks} ranks {env or ''}: {result.ending}, {result.seconds:.0f} s {result.left}", flush=True)
        if not ok:
            print("      " + result.text[-2000:].replace("\n", "\n      "), flush=True)
    print(f"fftw: {len(runs) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
