#!/usr/bin/env python3
"""Runs mpi4py's own test suite, unchanged, on Ferrule (or on the oracle) and checks what it skips.

The source distribution comes from PyPI and is built once against the standard ABI; the same build then runs under either library.
`--lib mpich-abi` takes PyPI's wheel as it is, which was built against MPICH, and runs it on Ferrule's libmpi.so.12.
mpi4py-skip.toml names, one by one, the tests of functions that are not there yet, with the reason; everything else must pass.

--compare runs the same tests, those of the skip list left out, under both libraries in turn and prints the ratio of the times.

Usage: tests/mpi4py.py [--lib ferrule|mpich|mpich-abi] [--ranks 1,2,4] [--no-skip-list] [--offload N] [--compare] [--prepare] [-- options of test/main.py]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build/mpi4py"
VERSION = "4.1.2"
#: The suite has more tests than this in every run; fewer have been left out by mistake.
TESTS_MIN = 1000
NEEDS = ["numpy==2.4.6", "cffi==2.1.1", "cython==3.3.1", "setuptools", "wheel"]


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


def skip_list() -> tuple[dict[str, str], list[str]]:
    """Test name → reason; and the modules that try a missing function when they are imported."""
    data = tomllib.loads((ROOT / "tests/mpi4py-skip.toml").read_text())
    return {name: group["reason"] for group in data["group"] for name in group["tests"]}, [m for group in data["group"] for m in group["modules"]]


def run(lib: str, python: pathlib.Path, ranks: int, skips: dict[str, str], modules: list[str], rest: list[str], timeout_s: float,
        workers: int = 0) -> tuple[bool, float]:
    """One run of the suite, with so many workers on the node, which then run all that they can; prints its summary. Whether it passed, and seconds."""
    tree = ROOT / "build/peers/mpich" if lib == "mpich" else ROOT / "dist"
    folder = tree / ("lib/mpich" if lib == "mpich-abi" else "lib")
    env = dict(os.environ, LD_LIBRARY_PATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    if lib == "mpich":
        env["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
    if workers:
        env["FERRULE_COLL_OFFLOAD"] = "all"
    wrapper = [str(ROOT / "tests/mpi4py_main.py"), ",".join(modules)] if modules else []
    with tempfile.TemporaryDirectory(prefix="fm-") as tmp:
        xfile = pathlib.Path(tmp) / "skip"
        xfile.write_text("".join(f"{name}\n" for name in skips))  # an empty line would leave out every test
        offload = ["--offload", str(workers)] if workers else []
        command = [str(tree / "bin/mpiexec"), *offload, "-n", str(ranks), str(python), *wrapper, f"mpi4py-{VERSION}/test/main.py", "-q", "--no-builddir", "--xfile", str(xfile),
                   *rest]
        start = time.monotonic()
        process = subprocess.Popen(command, env=env, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, errors="replace")
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            text += f"\nno end after {timeout_s} s"
    seconds = time.monotonic() - start
    log = ROOT / f"build/mpi4py-{lib}-{ranks}.log"
    log.write_text(text)
    ran = re.findall(r"^Ran (\d+) tests", text, re.M)
    bad = sorted(set(re.findall(r"^(?:ERROR|FAIL): (.*)$", text, re.M)))
    skipped = re.findall(r"skipped=(\d+)", text)
    passed = process.returncode == 0 and len(ran) == ranks and min(map(int, ran)) >= TESTS_MIN and not bad
    print(f"{'pass' if passed else 'FAIL'}  mpi4py {VERSION} on {lib}, {ranks} ranks: {ran[0] if ran else 'no'} tests run in {seconds:.0f} s, "
          f"{len(skips)} left out by mpi4py-skip.toml, {skipped[0] if skipped else 0} skipped by the suite itself", flush=True)
    if not passed:
        print(f"      exit code {process.returncode}, log {log}")
        for name in bad[:60]:
            print(f"      {name}")
        if not bad:
            print("      " + text[-2500:].replace("\n", "\n      "))
    return passed, seconds


def compare(python: pathlib.Path, counts: list[int], rest: list[str], timeout_s: float) -> bool:
    """The same tests under both libraries, for each number of ranks; a failure under the oracle is only reported."""
    skips, modules = skip_list()
    good = True
    for ranks in counts:
        passed, ours = run("ferrule", python, ranks, skips, modules, rest, timeout_s)
        _, theirs = run("mpich", python, ranks, skips, modules, rest, timeout_s)
        good &= passed
        print(f"mpi4py with {ranks} ranks: ferrule {ours:.1f} s, mpich {theirs:.1f} s, {theirs / ours:.2f} times as fast", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default="ferrule", choices=["ferrule", "mpich", "mpich-abi"])
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--offload", type=int, default=0, help="workers of the node, which run all non-blocking collectives that they can")
    parser.add_argument("--no-skip-list", action="store_true", help="run everything, to see what fails")
    parser.add_argument("--compare", action="store_true", help="run under both libraries and compare the times")
    parser.add_argument("--prepare", action="store_true", help="only fetch and build")
    parser.add_argument("rest", nargs="*", help="options of mpi4py's test/main.py")
    options = parser.parse_args()
    python = prepare_wheel() if options.lib == "mpich-abi" else prepare()
    if options.prepare:
        return 0
    if options.compare:
        return 0 if compare(python, [int(n) for n in options.ranks.split(",")], options.rest, options.timeout) else 1
    skips, modules = ({}, []) if options.lib == "mpich" else skip_list()
    if options.no_skip_list:
        skips = {}
    reasons: dict[str, int] = {}
    for reason in skips.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        print(f"skipped {count}: {reason}")
    results = [run(options.lib, python, int(n), skips, modules, options.rest, options.timeout, options.offload)[0] for n in options.ranks.split(",")]
    print(f"mpi4py on {options.lib}: {sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
