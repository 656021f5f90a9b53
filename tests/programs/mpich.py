#!/usr/bin/env python3
"""MPICH's own test programs (Debian source package `mpich`, folder test/mpi) under Ferrule.

Each program of the folders' test lists is compiled with dist/bin/mpicc, run with the ranks and arguments that its list says, and passes
if it exits with 0 and says "No Errors". What is expected to fail stands in mpich.toml with its reason, program by program;
a program that is expected to fail and doesn't is a failure too.

Usage: tests/programs/mpich.py [--jobs N] [--fetch] [FOLDER[/PROGRAM] ...]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import jobs
import packages

HERE = pathlib.Path(__file__).resolve().parent
BUILT = packages.WORK / "mpich/built"
# What the suite's configure would find on Linux: macros of its two configuration headers.
FOUND = (
    "DLFCN_H", "INTTYPES_H", "MEMORY_H", "STDARG_H", "STDINT_H", "STDLIB_H", "STRINGS_H", "STRING_H", "SYS_RESOURCE_H",
    "SYS_STAT_H", "SYS_TIME_H", "SYS_TYPES_H", "UNISTD_H", "LIMITS_H", "PTHREAD_H", "MEMSET", "STRDUP", "USLEEP",
    "GETRUSAGE", "LONG_LONG", "LONG_DOUBLE", "DOUBLE__COMPLEX", "FLOAT__COMPLEX", "LONG_DOUBLE__COMPLEX", "_BOOL",
    "MPI_INTEGER16", "MPI_IO", "MPI_SPAWN", "MPI_WIN_CREATE", "PTHREAD_BARRIER_INIT", "PTHREAD_BARRIER_T", "PTHREAD_CREATE",
)


@dataclasses.dataclass(frozen=True)
class Test:
    """One line of a test list."""

    folder: str
    program: str
    ranks: int
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    wants: str
    memory_gb: float

    @property
    def label(self) -> str:
        return " ".join((f"{self.folder}/{self.program} n={self.ranks}", *self.args))


@dataclasses.dataclass(frozen=True)
class Program:
    """How one program is compiled: its sources and macros by the folder's Makefile.am."""

    sources: tuple[str, ...]
    flags: tuple[str, ...]


def assignments(makefile: pathlib.Path) -> dict[str, str]:
    """Variables of a Makefile.am; continued lines are joined, `+=` adds."""
    found: dict[str, str] = {}
    for line in makefile.read_text().replace("\\\n", " ").splitlines():
        match = re.match(r"(\w+)\s*(\+?=)\s*(.*)", line)
        if match:
            name, how, value = match.groups()
            found[name] = f"{found[name]} {value}" if how == "+=" and name in found else value
    return found


def program_of(folder: pathlib.Path, name: str, variables: dict[str, str]) -> Program:
    sources = tuple(word for word in variables.get(f"{name}_SOURCES", f"{name}.c").split() if word.endswith(".c"))
    flags = tuple(word for word in variables.get(f"{name}_CPPFLAGS", "").split() if word.startswith("-D"))
    return Program(tuple(str(folder / source) for source in sources), flags)


def read_list(suite: pathlib.Path, folder: str, skip: dict[str, str]) -> list[Test]:
    """The tests of a folder and the folders that its list names."""
    tests = []
    path = next((path for path in (suite / folder / "testlist.in", suite / folder / "testlist") if path.exists()), None)
    for line in path.read_text().splitlines() if path else []:
        line = re.sub(r"@(rma|io|part|threads)dir@", r"\1", line)
        if re.search(r"@\w*@", line) or line.startswith("#") or not line.strip():
            continue
        name, *words = line.split()
        if not words:
            # a folder; @rmadir@ at the top is one of this level too
            if (suite / folder / name).is_dir() and f"{folder}/{name}" not in skip:
                tests += read_list(suite, f"{folder}/{name}", skip)
            continue
        keys = [word.split("=", 1) for word in words[1:] if "=" in word]
        args = tuple(value for key, value in keys if key == "arg")
        env = tuple((value.split("=", 1)[0], value.split("=", 1)[1]) for key, value in keys if key == "env" and "=" in value)
        last = {key.lower(): value for key, value in keys}
        tests.append(Test(folder, name, int(words[0]), args, env, last.get("resulttest", "No Errors"), float(last.get("mem", 0))))
    return tests


def compiler() -> list[str]:
    """Some programs, and the suite's generator of datatypes, use names that MPI-3.0 removed."""
    dist = pathlib.Path(os.environ.get("SUITES_DIST", jobs.ROOT / "dist"))
    return [str(dist / "bin/mpicc"), "--compat=mpi1", "-std=gnu11", "-O0", "-g", "-w"]


def configure(suite: pathlib.Path) -> None:
    """Writes the suite's configuration headers and compiles its common parts into two libraries."""
    include = BUILT / "include"
    include.mkdir(parents=True, exist_ok=True)
    lines = [f"#define HAVE_{name} 1" for name in FOUND]
    lines += ["#define STDC_HEADERS 1", "#define USE_STRICT_MPI 1", "#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX",
              "#define THREAD_PACKAGE_INVALID 0", "#define THREAD_PACKAGE_POSIX 1", "#define THREAD_PACKAGE_PTHREADS 1",
              "#define POINTERINT_t long", "#define SIZEOF_INT 4", "#define SIZEOF_LONG 8", "#define SIZEOF_LONG_LONG 8",
              "#define SIZEOF_SHORT 2", "#define SIZEOF_VOID_P 8", "#define SIZEOF_MPI_OFFSET 8"]
    for path in (include / "mpitestconf.h", BUILT / "dtpoolsconf.h"):  # the second is included as ../dtpoolsconf.h
        path.write_text("\n".join(lines) + "\n")
    for kind in ("single", "thread"):
        sources = [suite / "util" / name for name in ("mtest.c", "mtest_common.c", "dtypes.c", f"mtest_{kind}.c")]
        sources += sorted((suite / "dtpools/src").glob("*.c"))
        objects = []
        for source in sources:
            target = BUILT / kind / f"{source.stem}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            flags = ["-DMTEST_USE_THREAD"] if kind == "thread" else []
            subprocess.run([*compiler(), *flags, *includes(suite), "-c", "-o", str(target), str(source)], check=True)
            objects.append(str(target))
        archive = BUILT / f"libmtest_{kind}.a"
        archive.unlink(missing_ok=True)
        subprocess.run(["ar", "rcs", str(archive), *objects], check=True)


def includes(suite: pathlib.Path) -> list[str]:
    return ["-I", str(BUILT / "include"), "-I", str(suite / "include"), "-I", str(suite / "dtpools/include")]


def build(suite: pathlib.Path, tests: list[Test], workers: int) -> dict[str, str]:
    """Compiles what the tests need; returns the compiler's words for each program that failed, and "" for the others."""
    variables = {folder: assignments(suite / folder / "Makefile.am") for folder in {test.folder for test in tests}}

    def one(name: str) -> tuple[str, str]:
        folder, program = name.rsplit("/", 1)
        target = BUILT / "bin" / name
        how = program_of(suite / folder, program, variables[folder])
        if target.exists():
            return name, ""
        target.parent.mkdir(parents=True, exist_ok=True)
        kind = "thread" if folder.split("/")[0] == "threads" else "single"
        flags = [*how.flags, *(["-DMTEST_USE_THREAD"] if kind == "thread" else [])]
        done = subprocess.run([*compiler(), *flags, *includes(suite), "-I", str(suite / folder), "-o", str(target), *how.sources,
                               str(BUILT / f"libmtest_{kind}.a"), "-lpthread", "-lm"], capture_output=True, text=True)
        return name, (done.stderr or "the compiler failed") if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return dict(pool.map(one, sorted({f"{test.folder}/{test.program}" for test in tests})))


def judge(test: Test, result: jobs.Result) -> str:
    """Why the test failed; "" if it passed."""
    if result.code is None:
        return result.ending
    if test.wants == "TestStatus":
        return "" if result.code else "exit code 0, another one expected"
    if test.wants == "TestErrFatal":
        return "" if result.code else "exit code 0, another one expected"
    if result.code:
        return result.ending
    if "No Errors" not in result.text and "No errors" not in result.text:
        return "doesn't say No Errors"
    return f"left behind: {result.left}" if result.left else ""


def run_one(test: Test, suite: pathlib.Path, limit_s: float) -> tuple[str, str]:
    program = str(BUILT / "bin" / test.folder / test.program)
    # Some programs spawn themselves by their name in the working directory.
    files = (*sorted((suite / test.folder).glob("*.txt")), pathlib.Path(program))
    result = jobs.mpiexec(test.ranks, [program, *test.args], limit_s, dict(test.env), files=files)
    return judge(test, result), result.text


def matches(test: Test, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(f"{test.folder}/{test.program}", pattern) or test.folder == pattern
                               or test.folder.startswith(f"{pattern}/") for pattern in patterns)


def expected(test: Test, table: dict[str, dict[str, str]]) -> tuple[str, str]:
    """What mpich.toml says of a test: ("skip" or "fail", reason), or ("", "")."""
    for kind in ("skip", "fail"):
        for pattern, reason in table[kind].items():
            if fnmatch.fnmatch(f"{test.folder}/{test.program}", pattern) or fnmatch.fnmatch(test.label, pattern):
                return kind, reason
    return "", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--limit", type=float, default=900, help="the watchdog ends a test after so many seconds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the programs that are compiled")
    parser.add_argument("--fetch", action="store_true", help="only fetch the sources")
    parser.add_argument("--memory", type=float, default=4, help="skip tests that want more GB than this")
    options = parser.parse_args()
    table = tomllib.loads((HERE / "mpich.toml").read_text())
    try:
        suite = packages.unpacked("mpich", ("*/test/mpi/*",)) / "test/mpi"
    except packages.Unavailable as error:
        print(f"skip  mpich: {error}\nmpich: 0 passed, 0 failed, 1 skipped")
        return 0
    if options.fetch:
        return 0
    tests = [test for folder in table["folders"] for test in read_list(suite, folder, table["skip"]) if matches(test, options.patterns)]
    if not options.keep:
        shutil.rmtree(BUILT / "bin", ignore_errors=True)
    configure(suite)
    wanted = [test for test in tests if expected(test, table)[0] != "skip" and test.memory_gb <= options.memory]
    broken = build(suite, wanted, max(options.jobs, 2))
    lock = threading.Lock()

    def one(test: Test) -> str:
        kind, reason = expected(test, table)
        if kind == "skip" or test.memory_gb > options.memory:
            print(f"skip  {test.label}: {reason or f'wants {test.memory_gb} GB'}", flush=True)
            return "skipped"
        failure, text = ("doesn't compile", broken[f"{test.folder}/{test.program}"]) if broken[f"{test.folder}/{test.program}"] else \
            run_one(test, suite, options.limit)
        with lock:
            if failure and kind == "fail":
                print(f"fail  {test.label}: as expected: {reason}", flush=True)
                return "passed"
            if kind == "fail":
                print(f"FAIL  {test.label}: passes, though mpich.toml says: {reason}", flush=True)
                return "failed"
            print(f"{'FAIL' if failure else 'pass'}  {test.label}{': ' if failure else ''}{failure}", flush=True)
            if failure:
                print("      " + text.strip()[-3000:].replace("\n", "\n      "), flush=True)
            return "failed" if failure else "passed"

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ends = list(pool.map(one, tests))
    count = {name: ends.count(name) for name in ("passed", "failed", "skipped")}
    print(f"mpich: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not ends else 0


if __name__ == "__main__":
    sys.exit(main())
