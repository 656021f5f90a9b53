#!/usr/bin/env python3
"""Runs mpi4py's own test suite, unchanged, on Ferrule (or on the oracle): every test must pass.

The source distribution comes from PyPI and is built once against the standard ABI; the same build then runs under either library.
`--lib mpich-abi` takes PyPI's wheel as it is, which was built against MPICH, and runs it on Ferrule's libmpi.so.12; `--lib mpich-wheel` runs it on MPICH itself.

--skips also compares what runs: a test that the same build runs under MPICH must not be skipped under Ferrule. What MPICH runs is remembered in build/mpi4py.
--compare runs the same tests under both libraries in turn and prints the ratio of the times.

Usage: tests/mpi4py.py [--lib ferrule|mpich-abi|mpich|mpich-wheel] [--ranks 1,2,4] [--offload N] [--skips] [--compare] [--prepare] [-- options of test/main.py]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/mpi4py"
VERSION = "4.1.2"
#: The suite has more tests than this in every run; fewer have been left out by mistake.
TESTS_MIN = 1000
NEEDS = ["numpy==2.4.6", "cffi==2.1.1", "cython==3.3.1", "setuptools", "wheel"]
#: Ours, and what runs the same build under MPICH.
REFERENCE = {"ferrule": "mpich", "mpich-abi": "mpich-wheel"}


class Run(NamedTuple):
    """One run of the suite."""

    passed: bool
    seconds: float
    #: Tests that have begun and were not skipped, in any process.
    ran: set[str]


def prepare() -> pathlib.Path:
    """A virtual environment with mpi4py built by dist/bin/mpicc; returns its python."""
    python = WORK / "venv/bin/python"
    stamp = WORK / f"built-{VERSION}"
    if stamp.exists() and python.exists():
        return python
    WORK.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(WORK / "venv")], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--prefer-binary", *NEEDS], check=True)
    subprocess.run([*pip, "download", "--no-deps", "--no-binary", "mpi4py", "--no-build-isolation", "-d", str(WORK), f"mpi4py=={VERSION}"], check=True)
    subprocess.run(["tar", "-C", str(WORK), "-xf", str(WORK / f"mpi4py-{VERSION}.tar.gz")], check=True)
    env = dict(os.environ, MPI4PY_BUILD_MPIABI="1", MPICC=str(ROOT / "dist/bin/mpicc"))
    print("building mpi4py", flush=True)
    subprocess.run([*pip, "install", "--no-build-isolation", "--no-deps", str(WORK / f"mpi4py-{VERSION}")], check=True, env=env)
    stamp.write_text("")
    return python


def prepare_wheel() -> pathlib.Path:
    """A virtual environment with the wheel of PyPI, and the suite's sources; returns its python."""
    prepare()
    python = ROOT / "build/prebuilt/mpi4py/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    wanted = [f"mpi4py=={VERSION}", *NEEDS[:2]]
    subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", "--only-binary", ":all:", *wanted], check=True)
    return python


def what_ran(folder: pathlib.Path) -> set[str]:
    """The tests that some process has run, from what tests/mpi4py_main.py notes."""
    ran = set()
    for path in folder.iterdir():
        lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
        ran |= {name for state, name in lines if state == "ran"} - {name for state, name in lines if state == "skipped"}
    return ran


def run(lib: str, python: pathlib.Path, ranks: int, rest: list[str], timeout_s: float, workers: int = 0) -> Run:
    """Runs the suite, with so many workers on the node, which then run all that they can; prints its summary."""
    tree = ROOT / ("build/peers/mpich" if lib in REFERENCE.values() else "dist")
    folder = tree / ("lib/mpich" if lib == "mpich-abi" else "lib")
    env = dict(os.environ, LD_LIBRARY_PATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    if lib in REFERENCE.values():
        env["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
    if workers:
        env["FERRULE_COLL_OFFLOAD"] = "all"
    offload = ["--offload", str(workers)] if workers else []
    with tempfile.TemporaryDirectory(prefix="fm-") as tmp:
        wrapper = [str(ROOT / "tests/mpi4py_main.py"), tmp]
        command = [str(tree / "bin/mpiexec"), *offload, "-n", str(ranks), str(python), *wrapper, f"mpi4py-{VERSION}/test/main.py", "-q", "--no-builddir", *rest]
        start = time.monotonic()
        process = subprocess.Popen(command, env=env, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, errors="replace")
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            text += f"\nno end after {timeout_s} s"
        seconds = time.monotonic() - start
        what = what_ran(pathlib.Path(tmp))
    log = ROOT / f"build/mpi4py-{lib}-{ranks}.log"
    log.write_text(text)
    ran = re.findall(r"^Ran (\d+) tests", text, re.M)
    bad = sorted(set(re.findall(r"^(?:ERROR|FAIL): (.*)$", text, re.M)))
    skipped = re.findall(r"skipped=(\d+)", text)
    passed = process.returncode == 0 and len(ran) == ranks and min(map(int, ran)) >= TESTS_MIN and not bad
    print(f"{'pass' if passed else 'FAIL'}  mpi4py {VERSION} on {lib}, {ranks} ranks: {ran[0] if ran else 'no'} tests run in {seconds:.0f} s, "
          f"{skipped[0] if skipped else 0} of them skipped by the suite itself", flush=True)
    if not passed:
        print(f"      exit code {process.returncode}, log {log}")
        for name in bad[:60]:
            print(f"      {name}")
        if not bad:
            print("      " + text[-2500:].replace("\n", "\n      "))
    return Run(passed, seconds, what)


def reference(lib: str, python: pathlib.Path, ranks: int, rest: list[str], timeout_s: float) -> set[str] | None:
    """The tests that this build of mpi4py runs under MPICH; none if they are not known."""
    remembered = WORK / f"ran-{VERSION}-{lib}-{ranks}.json"
    if not rest and remembered.exists():
        return set(json.loads(remembered.read_text()))
    there = run(lib, python, ranks, rest, timeout_s)
    if not there.passed and len(there.ran) < TESTS_MIN:
        return None
    if there.passed and not rest:
        remembered.write_text(json.dumps(sorted(there.ran)))
    return there.ran


def skips_no_more(ours: set[str], theirs: set[str] | None, lib: str, ranks: int) -> bool:
    """Whether every test that runs under MPICH runs here, too."""
    if theirs is None:
        print(f"FAIL  mpi4py with {ranks} ranks: what runs under MPICH is not known")
        return False
    missing = sorted(theirs - ours)
    print(f"{'FAIL' if missing else 'pass'}  mpi4py on {lib}, {ranks} ranks: of {len(theirs)} tests that run under MPICH, {len(missing)} are skipped; "
          f"{len(ours - theirs)} run here only", flush=True)
    for name in missing[:60]:
        print(f"      skipped: {name}")
    return not missing


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lib", default="ferrule", choices=[*REFERENCE, *REFERENCE.values()])
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--offload", type=int, default=0, help="workers of the node, which run all non-blocking collectives that they can")
    parser.add_argument("--skips", action="store_true", help="no test may be skipped that runs under MPICH")
    parser.add_argument("--compare", action="store_true", help="run under both libraries and compare the times")
    parser.add_argument("--prepare", action="store_true", help="only fetch and build")
    parser.add_argument("rest", nargs="*", help="options of mpi4py's test/main.py")
    options = parser.parse_args()
    if (options.skips or options.compare) and options.lib not in REFERENCE:
        parser.error(f"--skips and --compare compare Ferrule with MPICH: --lib {' or '.join(REFERENCE)}")
    python = prepare_wheel() if options.lib in ("mpich-abi", "mpich-wheel") else prepare()
    if options.prepare:
        return 0
    results = []
    for ranks in map(int, options.ranks.split(",")):
        ours = run(options.lib, python, ranks, options.rest, options.timeout, options.offload)
        results.append(ours.passed)
        if options.skips:
            theirs = reference(REFERENCE[options.lib], python, ranks, options.rest, options.timeout)
            results.append(skips_no_more(ours.ran, theirs, options.lib, ranks))
        if options.compare:
            # A failure under the oracle is only reported.
            other = run(REFERENCE[options.lib], python, ranks, options.rest, options.timeout)
            print(f"mpi4py with {ranks} ranks: ferrule {ours.seconds:.1f} s, mpich {other.seconds:.1f} s, {other.seconds / ours.seconds:.2f} times as fast", flush=True)
    print(f"mpi4py on {options.lib}: {sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
