#!/usr/bin/env python3
"""HDF5 (Debian source package `hdf5`): the library built with parallel I/O over MPI-IO by dist/bin/mpicc, and its own parallel tests (`testpar`).

Usage: tests/programs/hdf5.py [--ranks 3] [--keep] [TEST …]
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
# Without t_cache_image, in which one process works alone for more than ten minutes.
TESTS = ["t_mpi", "testphdf5", "t_cache", "t_pread", "t_prestart", "t_init_term", "t_shapesame", "t_filters_parallel", "t_bigio"]
#: Writes a file that a next program reads.
FIRST = {"t_prestart": "t_pshutdown"}


def build(source: pathlib.Path, keep: bool) -> pathlib.Path:
    """The folder with the tests."""
    built = packages.WORK / "hdf5/built"
    if keep and (built / "testpar/t_mpi").exists():
        return built / "testpar"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    configure = [str(source / "configure"), "--enable-parallel", "--disable-shared", "--disable-fortran", "--disable-cxx", "--disable-hl", "--disable-tools",
                 "--enable-build-mode=production", f"CC={DIST / 'bin/mpicc'}", "CFLAGS=-O1 -w"]
    make = ["make", "-j2", "-C"]
    for command in (configure, [*make, "src"], [*make, "test", "libh5test.la"], [*make, "testpar", *TESTS, *FIRST.values()]):
        done = subprocess.run(command, cwd=built, capture_output=True, text=True, env={**os.environ, "RUNPARALLEL": "true"})
        if done.returncode:
            raise SystemExit(f"hdf5 does not build: {' '.join(command[:4])}:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return built / "testpar"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="don't build again")
    parser.add_argument("tests", nargs="*", default=TESTS, metavar="TEST")
    options = parser.parse_args()
    try:
        source = packages.unpacked("hdf5")
    except packages.Unavailable as error:
        print(f"skip  hdf5: {error}\nhdf5: 0 passed, 0 failed, 1 skipped")
        return 0
    built, failed = build(source, options.keep), 0
    for name in options.tests:
        place = built / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        programs = [FIRST[name], name] if name in FIRST else [name]
        for program in programs:
            # It looks for its input below the source.
            result = jobs.mpiexec(options.ranks, [str(built / program)], 900, {"srcdir": str(source / "testpar")}, cwd=place)
            if result.code or result.left:
                break
        ok = result.code == 0 and not result.left
        failed += not ok
        print(f"{'pass' if ok else 'FAIL'}  hdf5 {name}: {result.ending}, {result.seconds:.0f} s {result.left}", flush=True)
        if not ok:
            print("      " + result.text[-2000:].replace("\n", "\n      "), flush=True)
        shutil.rmtree(place, ignore_errors=True)
    print(f"hdf5: {len(options.tests) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
