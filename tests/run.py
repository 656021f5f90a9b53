#!/usr/bin/env python3
"""Runs the process tests of testlist.toml under Ferrule or under the oracle.

Every program is compiled once against the standard ABI's header and run by the mpiexec of the library under test with
LD_LIBRARY_PATH set to that library. `--lib mpich-abi` compiles them with MPICH's own header and runs them on Ferrule's libmpi.so.12. A test passes
when mpiexec returns 0 in time and leaves nothing behind: no process (found by a marker in its environment), no file in its private TMPDIR, no new
object in /dev/shm.

Usage: tests/run.py [--lib ferrule|mpich|mpich-abi] [--jobs N] [--list] [--verbose] [PATTERN ...]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP_CODE = 77
MARKER = "PROCESS_TEST_MARK"


@dataclasses.dataclass(frozen=True)
class Library:
    """Where one MPI library lives, and how its launcher wants to be called."""

    name: str
    lib: pathlib.Path
    include: pathlib.Path
    header: str
    launch: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    #: what programs are linked to, and where they are below build/
    soname: str = "libmpi_abi.so.1"
    programs: str = "tests"

    @property
    def is_ours(self) -> bool:
        return self.name != "mpich"


@dataclasses.dataclass(frozen=True)
class Case:
    """One run: a program with a number of ranks, arguments and settings."""

    program: str
    ranks: int
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    timeout_s: float
    expect: int | str
    preload: str
    skip: str
    launch: tuple[str, ...] = ()
    output: str = ""

    @property
    def label(self) -> str:
        env = " ".join(f"{k.removeprefix('FERRULE_').lower()}={v}" for k, v in self.env)
        return " ".join(x for x in (f"{self.program} n={self.ranks}", *self.args, env, *self.launch) if x)


@dataclasses.dataclass
class Outcome:
    case: Case
    state: str  # "pass", "FAIL", "skip"
    seconds: float
    detail: str = ""


def libraries() -> dict[str, Library]:
    """Ferrule from dist/, and the oracle from build/peers (or where ORACLE_MPICH points)."""
    dist = ROOT / "dist"
    oracle = pathlib.Path(os.environ.get("ORACLE_MPICH", ROOT / "build/peers/mpich"))
    return {
        "ferrule": Library("ferrule", dist / "lib", dist / "include", "mpi.h", (str(dist / "bin/mpiexec"),)),
        "mpich": Library(
            "mpich", oracle / "lib", oracle / "include", "mpi_abi.h", (str(oracle / "bin/mpiexec"),),
            # the default never yields on 2 cores with 4 ranks; that is a matter of speed, not of semantics
            (("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"),),
        ),
        "mpich-abi": Library(
            "mpich-abi", dist / "lib/mpich", oracle / "include", "mpi.h", (str(dist / "bin/mpiexec"),),
            soname="libmpi.so.12", programs="tests-mpich-abi",
        ),
    }


def load_cases(path: pathlib.Path, lib: str) -> list[Case]:
    """Expands testlist.toml for one library."""
    data = tomllib.loads(path.read_text())
    defaults, variations = data["defaults"], data.get("variation", {})
    cases = []
    for test in data["test"]:
        unknown = set(test) - {"program", "ranks", "args", "timeout_s", "only", "why", "vary", "expect", "preload",
                               "env", "launch", "output", "oracle_skip", "mpich_abi_skip"}
        if unknown:
            raise SystemExit(f"testlist.toml: {test['program']}: unknown keys {sorted(unknown)}")
        skip = ""
        if test.get("only", lib) not in (lib, "ferrule" if lib == "mpich-abi" else lib):
            skip = f"only under {test['only']}: {test['why']}"
        elif lib == "mpich" and "oracle_skip" in test:
            skip = test["oracle_skip"]
        elif lib == "mpich-abi" and "mpich_abi_skip" in test:
            skip = test["mpich_abi_skip"]
        arg_lists = test.get("args", [[]])
        envs = [test.get("env", {})]
        if lib == "ferrule":
            envs += [envs[0] | variations[name] for name in test.get("vary", [])]
        for ranks in test.get("ranks", defaults["ranks"]):
            for args in arg_lists:
                for env in envs:
                    cases.append(Case(
                        test["program"], ranks, tuple(args), tuple(sorted(env.items())),
                        test.get("timeout_s", defaults["timeout_s"]), test.get("expect", 0),
                        test.get("preload", ""), skip, tuple(test.get("launch", [])), test.get("output", ""),
                    ))
    return cases


def sources_of(program: str) -> list[pathlib.Path]:
    """The files of a program: one below tests/c or tests/fortran, or all of an example's folder."""
    if program.startswith("examples/"):
        return sorted((ROOT / program).parent.glob("*.[ch]"))
    if program.startswith("fortran/"):
        return sorted((ROOT / "tests").glob(f"{program}.[fF]*"))[:1] or [ROOT / f"tests/{program}.f90"]
    return [ROOT / f"tests/c/{program}.c"]


def compile_all(programs: set[str], with_lib: Library, jobs: int) -> dict[str, str]:
    """Compiles each program once; returns error texts of those that failed."""
    out = ROOT / "build" / with_lib.programs
    include = out / "include"
    include.mkdir(parents=True, exist_ok=True)
    headers = {name.name: name for name in with_lib.include.glob("*.h")} | {"mpi.h": with_lib.include / with_lib.header}
    if with_lib.is_ours:
        # MPICH has no such header; Ferrule's is for both of its ABIs.
        headers["mpi-ext.h"] = libraries()["ferrule"].include / "mpi-ext.h"
    for name, source in headers.items():
        if not (include / name).exists() or (include / name).read_bytes() != source.read_bytes():
            shutil.copyfile(source, include / f"{name}.new")
            (include / f"{name}.new").replace(include / name)
    header = include / "mpi.h"
    shared = [header, *sorted((ROOT / "tests/c").rglob("*.h"))]
    newest = max(path.stat().st_mtime for path in shared)
    # The Fortran interfaces are Ferrule's also where the C library is the oracle's.
    fortran = [libraries()["ferrule"].lib / "libmpifort_abi.so.1", *sorted((ROOT / "tests/fortran").glob("*.h"))]
    newest_fortran = max((path.stat().st_mtime for path in fortran if path.exists()), default=newest)

    def one(program: str) -> tuple[str, str]:
        sources, target = sources_of(program), out / program
        needed = newest_fortran if program.startswith("fortran/") else newest
        if target.exists() and target.stat().st_mtime > max(needed, *(path.stat().st_mtime for path in sources)):
            return program, ""
        target.parent.mkdir(parents=True, exist_ok=True)
        if program.startswith("fortran/"):
            return program, compile_fortran(sources[0], target, fortran)
        shape = ["-shared", "-fPIC"] if program.split("/")[-1].startswith("lib") else []
        command = ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wno-deprecated-declarations", "-I", str(include),
                   "-I", str(ROOT / "tests/c"), *shape, "-o", str(target),
                   *(str(path) for path in sources if path.suffix == ".c"), "-L", str(with_lib.lib),
                   f"-l:{with_lib.soname}", "-lpthread", "-lm", "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True)
        return program, done.stderr if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return {program: error for program, error in pool.map(one, sorted(programs)) if error}


def compile_fortran(source: pathlib.Path, target: pathlib.Path, needs: list[pathlib.Path]) -> str:
    """Compiles with Ferrule's mpifort; the error text, or "". What modules a program has go into a folder of its own."""
    missing = [path for path in needs if not path.exists()]
    if missing or not shutil.which("gfortran"):
        return f"no Fortran interfaces ({missing or 'no gfortran'}): make deps build"
    modules = target.with_suffix(".mod.d")
    modules.mkdir(exist_ok=True)
    done = subprocess.run([str(ROOT / "dist/bin/mpifort"), "-O1", "-g", "-Wall", "-Wno-unused-dummy-argument", "-J", str(modules),
                           "-o", str(target), str(source)], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def marked_processes(mark: str) -> list[int]:
    """Processes whose environment carries the marker."""
    needle = f"{MARKER}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if needle in file.read():
                    found.append(int(entry))
        except OSError:
            continue
    return found


def sockets_of(pid: int) -> list[str]:
    """Abstract sockets on which mpiexec `pid` answers, as seen in this network namespace."""
    names = (line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines())
    return [name for name in names if name.startswith("@ferrule/") and f"/{pid}/" in name]


def leftovers(mark: str, tmp: pathlib.Path) -> str:
    """What a finished job left; waits for processes that are on their way out."""
    patience.until(lambda: not marked_processes(mark), 30)
    text = []
    for pid in marked_processes(mark):
        text.append(f"process {pid} left")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    text += [f"file left: {path.relative_to(tmp)}" for path in tmp.rglob("*") if not path.is_dir()]
    return "; ".join(text)


def run_case(case: Case, lib: Library) -> Outcome:
    """Runs one case under a watchdog and checks what it leaves behind."""
    if case.skip:
        return Outcome(case, "skip", 0, case.skip)
    mark = uuid.uuid4().hex
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="ft-"))
    env = dict(os.environ, **dict(lib.env), **dict(case.env))
    env.update({MARKER: mark, "TMPDIR": str(tmp), "LD_LIBRARY_PATH": str(lib.lib), "HYDRA_IFACE": ""})
    env.pop("HYDRA_IFACE")
    program = str(ROOT / "build" / lib.programs / case.program)
    command = [*lib.launch, *(word.replace("{program}", program) for word in case.launch), "-n", str(case.ranks)]
    if case.preload:
        command += ["-env", "LD_PRELOAD", str(ROOT / "build" / lib.programs / case.preload)]
    command += [program, *case.args]
    start = time.monotonic()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, start_new_session=True, cwd=tmp)
    timed_out = False
    try:
        raw, _ = process.communicate(timeout=case.timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        stacks = dump_stacks(mark) if os.environ.get("TEST_STACKS") else ""
        for pid in {process.pid, *marked_processes(mark)}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        raw, _ = process.communicate()
        raw += stacks.encode()
    seconds = time.monotonic() - start
    text = raw.decode(errors="replace")
    left = "; ".join(filter(None, [leftovers(mark, tmp), *(f"socket left: {name}" for name in sockets_of(process.pid))]))
    shutil.rmtree(tmp, ignore_errors=True)
    code = process.returncode
    if timed_out:
        return Outcome(case, "FAIL", seconds, f"no end after {case.timeout_s} s\n{text[-3000:]}")
    if code == SKIP_CODE and "SKIP: " in text:
        return Outcome(case, "skip", seconds, text.split("SKIP: ", 1)[1].splitlines()[0])
    wanted = code != 0 if case.expect == "nonzero" else code == case.expect
    if not wanted:
        return Outcome(case, "FAIL", seconds, f"exit code {code}, expected {case.expect}\n{text[-3000:]}")
    if case.output and case.output not in text:
        return Outcome(case, "FAIL", seconds, f"output lacks {case.output!r}\n{text[-3000:]}")
    if left and lib.is_ours:
        return Outcome(case, "FAIL", seconds, f"left behind: {left}")
    return Outcome(case, "pass", seconds)


def dump_stacks(mark: str) -> str:
    """Stack of each process of a hanging job, for whoever has to find out why (needs gdb)."""
    text = ""
    for pid in marked_processes(mark):
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 14"],
                              capture_output=True, text=True)
        text += f"\n--- pid {pid}\n" + "\n".join(x for x in done.stdout.splitlines() if x.startswith(("#", "Thread")))
    return text


def shm_objects() -> set[str]:
    """What has a name of ours in /dev/shm; others may make theirs at any time."""
    try:
        return {name for name in os.listdir("/dev/shm") if "ferrule" in name}
    except OSError:
        return set()


def remains(pid: int, tmp: pathlib.Path, shm: set[str]) -> str:
    """What is left of mpiexec `pid` beside processes, whose temporary folder was `tmp`; `shm` is what /dev/shm had before. `tmp/out` is the caller's."""
    if files := [str(path.relative_to(tmp)) for path in tmp.rglob("*") if not path.is_dir() and path.name != "out"]:
        return f"files left: {files}"
    if sockets := sockets_of(pid):
        return f"sockets left: {sockets}"
    if new := shm_objects() - shm:
        return f"objects left in /dev/shm: {sorted(new)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="run only the programs that match, such as 'coll/*'")
    parser.add_argument("--lib", default="ferrule", choices=["ferrule", "mpich", "mpich-abi"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-vary", action="store_true", help="leave out the variations of settings")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write the outcomes here")
    options = parser.parse_args()
    all_libs = libraries()
    lib = all_libs[options.lib]
    cases = load_cases(ROOT / "tests/testlist.toml", options.lib)
    if options.patterns:
        cases = [c for c in cases if any(fnmatch.fnmatch(c.program, p) for p in options.patterns)]
    if options.no_vary:
        cases = [c for c in cases if not c.env]
    if options.list:
        print("\n".join(case.label for case in cases))
        return 0
    with_lib = lib if lib.name == "mpich-abi" else all_libs["ferrule"] if (all_libs["ferrule"].include / "mpi.h").exists() and \
        (all_libs["ferrule"].lib / "libmpi_abi.so.1").exists() else all_libs["mpich"]
    programs = {c.program for c in cases} | {c.preload for c in cases if c.preload}
    broken = compile_all(programs, with_lib, os.cpu_count() or 2)
    for program, error in broken.items():
        print(f"FAIL  compile {program}\n{error}")
    before = shm_objects()
    outcomes = run_all([c for c in cases if c.program not in broken], lib, options)
    outcomes += [Outcome(c, "FAIL", 0, "does not compile") for c in cases if c.program in broken]
    left = shm_objects() - before if lib.is_ours else set()
    if left:
        print(f"FAIL  objects left in /dev/shm: {sorted(left)}")
    return summary(outcomes, options, bool(left))


def run_all(cases: list[Case], lib: Library, options: argparse.Namespace) -> list[Outcome]:
    """Runs the cases, printing one line each as they end."""
    lock = threading.Lock()

    def one(case: Case) -> Outcome:
        outcome = run_case(case, lib)
        with lock:
            print(f"{outcome.state:4}  {outcome.seconds:6.1f} s  {case.label}", flush=True)
            if outcome.state == "FAIL" or (outcome.detail and options.verbose):
                print("      " + outcome.detail.strip().replace("\n", "\n      "), flush=True)
        return outcome

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(one, cases))


def summary(outcomes: list[Outcome], options: argparse.Namespace, leaked: bool) -> int:
    """Prints skips by reason, failures by name, and the closing line."""
    skips: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.state == "skip":
            skips.setdefault(outcome.detail, []).append(outcome.case.label)
    for reason, labels in skips.items():
        print(f"skipped {len(labels)}: {reason}: {', '.join(sorted(set(labels)))}")
    for outcome in outcomes:
        if outcome.state == "FAIL":
            print(f"failed: {outcome.case.label}")
    if options.json:
        options.json.write_text(json.dumps([{"case": o.case.label, "state": o.state, "seconds": round(o.seconds, 2)}
                                            for o in outcomes], indent=1))
    count = {state: sum(o.state == state for o in outcomes) for state in ("pass", "FAIL", "skip")}
    print(f"{options.lib}: {count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] or leaked or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
