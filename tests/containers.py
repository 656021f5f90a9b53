#!/usr/bin/env python3
"""The matrix: every kind of isolation of containers.toml × traffic that checks itself × the channel that must be in use.

Real engines (testbeds/containers) run the containers, `mpiexec` starts one agent in each, and the program of tests/c/containers/traffic.c
checks every byte. After each job nothing may be left: no process, no file in the job directory. A kind whose engine can't run on
this machine is skipped with the reason.

Usage: tests/containers.py [--list] [--verbose] [PATTERN ...]      (patterns match kinds, such as '*podman*')
"""

from __future__ import annotations

import argparse
import collections.abc
import concurrent.futures
import dataclasses
import fnmatch
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

import run as runner

ROOT = runner.ROOT
sys.path.insert(0, str(ROOT / "testbeds/containers"))
import bed
import engines
import image

BIN = image.STORE / "bin"
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
WATCHDOG_S = patience.WATCHDOG_S
WHY_LINE = re.compile(r"why:\s+(\d+) → (\d+)\s+\S+\s+(\S+)(.*)")
#: Each cell: what traffic does, extra settings, and what becomes of an expected channel.
CELLS: dict[str, tuple[list[str], dict[str, str]]] = {
    "latency, bandwidth, collectives": (["small", "stream", "coll"], {}),
    "64 MB /dev/shm": (["big", "coll"], {}),
    "no CMA": (["small", "stream", "big"], {"FERRULE_SINGLE_COPY": "mem"}),
}


CROWD = "16 containers, 12 jobs in a row"


@dataclasses.dataclass
class Job:
    """What came of one job: exit code (-1: no end in time), its output, and the channel of each pair of ranks."""

    code: int
    text: str
    seconds: float

    @property
    def channels(self) -> dict[tuple[int, int], str]:
        return {(int(a), int(b)): channel for a, b, channel, _ in WHY_LINE.findall(self.text)}

    def shown(self, lines: int = 12) -> str:
        return "\n      ".join(self.text.strip().splitlines()[-lines:])


class Yard:
    """The engines that were asked for so far, the containers of the kind at hand, and jobs across them."""

    def __init__(self) -> None:
        self.engines: dict[str, typing.Any] = {}
        self.reasons: dict[str, str | None] = {}
        self.here: list[engines.Container] = []
        self.count = 0

    def engine(self, name: str) -> typing.Any:
        """The started engine; raises Unavailable with its reason."""
        if name not in self.engines:
            self.engines[name] = engines.ENGINES[name]()
            self.reasons[name] = self.engines[name].start()
        reason = self.reasons[name]
        if reason:
            raise engines.Unavailable(f"{name}: {reason}")
        return self.engines[name]

    def container(self, engine: str, options: collections.abc.Sequence[str] = (), share: bool = False) -> engines.Container:
        """A new container; `{0}` in the options is the name of the first one."""
        self.count += 1
        if engine == "plain":
            made = engines.plain(f"plain{self.count}")
        else:
            words = [*(engines.SHARE if share else ()), *(o.replace("{0}", self.here[0].name if self.here else "") for o in options)]
            made = self.engine(engine).run(f"{engine}{self.count}", *words)
        self.here.append(made)
        return made

    def clear(self) -> None:
        """Removes the containers of this kind."""
        for container in self.here:
            if container.engine in self.engines:
                self.engines[container.engine].remove(container.name)
        self.here = []

    def job(self, hosts: list[tuple[engines.Container, int]], program: collections.abc.Sequence[str], env: dict[str, str],
            options: collections.abc.Sequence[str] = (), timeout_s: float = WATCHDOG_S) -> Job:
        """Runs mpiexec outside of the containers, with an agent in each."""
        where = ",".join(f"{container.name}:{ranks}" for container, ranks in hosts)
        ranks = sum(n for _, n in hosts)
        command = [MPIEXEC, "--launcher-exec", engines.launcher(), "-host", where, "-n", str(ranks), *options, *program]
        return execute(command, env, timeout_s)


def execute(command: list[str], env: dict[str, str], timeout_s: float = WATCHDOG_S) -> Job:
    """Runs a command under a watchdog in a directory that containers don't have."""
    place = bed.slot() / "cwd"
    place.mkdir(exist_ok=True)
    begin = time.monotonic()
    full = {**os.environ, "LD_LIBRARY_PATH": str(ROOT / "dist/lib"), **env}
    process = subprocess.Popen(command, env=full, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    try:
        text, _ = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        kill(job_processes())
        text, _ = process.communicate()
        code, text = -1, text + f"\nno end after {timeout_s:.0f} s"
    return Job(code, text, time.monotonic() - begin)


def command_line(pid: int) -> list[str]:
    """Words of a process; none if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def job_processes() -> list[int]:
    """Ranks, agents and launchers that are alive in this bed."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and any(w.startswith(str(BIN)) or w.endswith("/mpiexec") for w in command_line(int(entry))):
            found.append(int(entry))
    return found


def kill(pids: list[int]) -> None:
    """Kills what is still there of some processes."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def left_behind() -> str:
    """What a job left, or nothing; waits for processes on their way out."""
    patience.until(lambda: not job_processes(), 30)
    alive = job_processes()
    text = [f"process {pid} {' '.join(command_line(pid))[:80]}" for pid in alive]
    kill(alive)
    text += [f"file {path}" for path in pathlib.Path(image.SHARED).rglob("*")]
    for path in pathlib.Path(image.SHARED).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return "; ".join(text)


def prepare_programs() -> None:
    """Compiles the test programs and puts them where containers see them."""
    broken = runner.compile_all({"containers/traffic"}, runner.libraries()["ferrule"], 2)
    probe = ROOT / "build/tests/containers/probe"
    made = subprocess.run(["cc", "-O1", "-Wall", "-o", str(probe), str(ROOT / "tests/c/containers/probe.c")], capture_output=True, text=True)
    if broken or made.returncode:
        raise SystemExit("\n".join([*broken.values(), made.stderr]))
    for program in (ROOT / "build/tests/containers/traffic", probe):
        install(program)


def install(program: pathlib.Path) -> str:
    """Puts a program where containers see it; returns its path there."""
    target = BIN / program.name
    fresh = target.with_suffix(".new")
    shutil.copy(program, fresh)
    fresh.replace(target)
    return str(target)


def expected(kind: dict[str, typing.Any], a: int, b: int, cell: str) -> list[str]:
    """The channels that `why` may name for a pair."""
    wanted = kind.get("pairs", {}).get(f"{min(a, b)}-{max(a, b)}", kind["channel"])
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    return [w.replace("cma", "mem") for w in wanted] if cell == "no CMA" else wanted


def faults(kind: dict[str, typing.Any], job: Job, ranks: int, cell: str) -> str:
    """What is wrong with a job, or nothing."""
    if job.code:
        return f"exit code {job.code}\n      {job.shown()}"
    if "traffic: right" not in job.text:
        return f"no result\n      {job.shown()}"
    channels = job.channels
    for a in range(ranks):
        for b in range(ranks):
            line = next((x for x in job.text.splitlines() if re.search(rf"why:\s+{a} → {b}\s", x)), "no line")
            wanted = expected(kind, a, b, cell)
            if "shm+mem" in wanted and "FERRULE_MEM_MIN_RATE" in line:
                wanted.append("shm")
            if a != b and channels.get((a, b)) not in wanted:
                return f"ranks {a} and {b} use {channels.get((a, b))}, not {' or '.join(wanted)}: {line}"
    noise = [x for x in job.text.splitlines() if re.search(r"warning:|error:|mpiexec:", x)]
    if noise:
        return f"noise: {noise[0]}"
    return left_behind()


def run_cell(yard: Yard, kind: dict[str, typing.Any], hosts: list[tuple[engines.Container, int]], cell: str) -> tuple[Job, str]:
    """One job; returns it and what is wrong with it."""
    what, settings = CELLS[cell]
    env = {"FERRULE_WHY": "1", **settings, **kind.get("env", {})}
    ranks = total_ranks(kind)
    if kind.get("job_dir"):
        env["FERRULE_JOB_DIR"] = image.SHARED
    if cell.startswith("latency"):
        what = [*what, "shared", str(kind["local"])] if kind.get("local") in (1, ranks) else what
    program = [str(BIN / "traffic"), *what]
    if cell == "64 MB /dev/shm" and kind["shm64"] == "mount":
        program = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "sh", *program]
    if "launch" in kind:
        yard.engine(kind["launch"])
        options = ["--container", kind["launch"], "--container-image", image.TAG, "--ranks-per-container", "1", "-n", str(ranks)]
        job = execute([MPIEXEC, *options, *program], env)
    else:
        job = yard.job(hosts, program, env)
    return job, faults(kind, job, ranks, cell)


def total_ranks(kind: dict[str, typing.Any]) -> int:
    """Ranks of a kind's jobs."""
    return int(kind["ranks"]) if "launch" in kind else sum(host.get("ranks", 1) for host in kind["hosts"])


def run_kind(yard: Yard, kind: dict[str, typing.Any], verbose: bool) -> tuple[int, int, str]:
    """All cells of a kind: (passed, failed, reason for a skip)."""
    passed = failed = 0
    try:
        hosts = []
        for host in kind.get("hosts", []):
            hosts.append((yard.container(host["engine"], host.get("options", ()), host.get("share", False)), host.get("ranks", 1)))
        for cell in CELLS:
            job, fault = run_cell(yard, kind, hosts, cell)
            passed, failed = passed + (not fault), failed + bool(fault)
            print(f"{'FAIL' if fault else 'pass'}  {job.seconds:5.1f} s  {kind['name']}: {cell}", flush=True)
            if fault:
                print(f"      {fault}", flush=True)
            elif verbose:
                print(f"      {job.shown(3)}", flush=True)
    except (engines.Unavailable, RuntimeError) as error:
        return passed, failed, str(error)
    finally:
        yard.clear()
    return passed, failed, ""


def hold_agents(rng: random.Random, running: concurrent.futures.Future[Job]) -> None:
    """While a job runs, stops one of its agents after the other for a moment, so that each step finds some that are late."""
    while not running.done():
        agents = [pid for pid in job_processes() if "--agent" in command_line(pid)]
        for pid in rng.sample(agents, min(3, len(agents))):
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(rng.random() * 0.02)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


def crowd(yard: Yard) -> str:
    """Many agents that meet at once, again and again: what one asks while another doesn't know the others under its kernel yet must not get lost."""
    rng = random.Random(7)
    hosts = [(yard.container("unshare", ["--mount", "--pid", "--ipc", "--uts", "--net"]), 1) for _ in range(16)]
    for number in range(12):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(yard.job, hosts, [str(BIN / "traffic"), "rounds", "3"], {"FERRULE_JOB_DIR": image.SHARED})
            hold_agents(rng, running)
            job = running.result()
        if job.code or "traffic: right" not in job.text:
            return f"job {number}: exit code {job.code}\n      {job.shown()}"
    return left_behind()


def run_crowd(yard: Yard) -> tuple[int, int, str]:
    """(passed, failed, reason for a skip)."""
    try:
        fault = crowd(yard)
    except engines.Unavailable as error:
        return 0, 0, str(error)
    finally:
        yard.clear()
    print(f"{'FAIL' if fault else 'pass'}  {CROWD}" + (f"\n      {fault}" if fault else ""), flush=True)
    return (0, 1, "") if fault else (1, 0, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="run only the kinds that match, such as '*podman*'")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="show what each job printed last")
    options = parser.parse_args()
    with_crowd = not options.patterns or any(fnmatch.fnmatch(CROWD, p) for p in options.patterns)
    kinds = tomllib.loads((ROOT / "tests/containers.toml").read_text())["kind"]
    if options.patterns:
        kinds = [k for k in kinds if any(fnmatch.fnmatch(k["name"], p) for p in options.patterns)]
    if options.list:
        print("\n".join(k["name"] for k in kinds))
        print(CROWD if with_crowd else "", end="\n" if with_crowd else "")
        return 0
    if not bed.is_inside():
        return bed.enter()
    prepare_programs()
    yard = Yard()
    passed = failed = skipped = 0
    for kind in kinds:
        good, bad, reason = run_kind(yard, kind, options.verbose)
        passed, failed = passed + good, failed + bad
        if reason:
            skipped += len(CELLS) - good - bad
            print(f"skip  {kind['name']}: {reason}", flush=True)
    if with_crowd:
        good, bad, reason = run_crowd(yard)
        passed, failed, skipped = passed + good, failed + bad, skipped + bool(reason)
        if reason:
            print(f"skip  {CROWD}: {reason}", flush=True)
    print(f"containers: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main())
