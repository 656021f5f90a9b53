#!/usr/bin/env python3
"""Ranks in separate containers against the same ranks native, and against MPICH and Open MPI in the same containers.

Five arms take turns in one run: `native` (Ferrule, plain processes), `docker` (a default container for each rank; they share a job directory, as
those that `mpiexec --container` makes do), `cma` (the same with what CMA needs: --pid=host --cap-add=SYS_PTRACE), `mpich` and `openmpi`
(in the containers of `docker`). Each value is kept with what the processors shared meanwhile (`distance.py`, `results.py`). Needs root; makes docs/performance/containers.{md,json}
and plots.

Usage: bench/containers.py [--quick] [--repeats N] [--arms native,docker,…] [--only PATTERN] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testbeds/containers")]
import bed
import containers_report
import distance
import engines
import image
import peers as registry
import results

ROOT = registry.ROOT
BIN = image.STORE / "bin"
ARMS = ("native", "docker", "cma", "mpich", "openmpi")
PEERS = ("mpich", "openmpi")
PEER_S = 60
MANY = 16
#: Stands in for ssh: the peers' agents come by the engine's exec.
SHELL = """#!/bin/sh
export NODE_ENTER="docker exec -i {environment}"
exec {script} "$@"
"""


@dataclasses.dataclass(frozen=True)
class Plan:
    """One program run by every arm. `ours`: only by Ferrule's arms."""

    program: str
    args: tuple[str, ...]
    ranks: int
    quick: bool = True
    ours: bool = False

    @property
    def label(self) -> str:
        return f"{self.program} {' '.join(self.args)[:50]} n={self.ranks}"


PLANS = [
    Plan("pt2pt", ("latency", "8,1024,16384,65536"), 2),
    Plan("pt2pt", ("bandwidth", "65536,1048576,4194304"), 2),
    Plan("coll", ("barrier,bcast,allreduce,alltoall", "8,65536"), 2),
    Plan("fft3d", ("128", "64", "64", "5"), 2),
    Plan("bfs", ("--size", "15"), 2),
    Plan("isort", ("--size", "21"), 2),
    Plan("cg", ("--size", "48"), 2),
    Plan("fft3d", ("128", "64", "64", "5"), 4, quick=False),
    Plan("cg", ("--size", "48"), 4, quick=False),
    Plan("coll", ("barrier,allreduce,alltoall", "8,65536"), 4, quick=False),
]
START = Plan("init", (), MANY, ours=True)


class World:
    """Containers of all arms, for the length of the run."""

    def __init__(self) -> None:
        self.docker = engines.Docker()
        reason = self.docker.start()
        if reason:
            raise SystemExit(f"skipped: docker: {reason}")
        self.made: dict[tuple[str, int], list[str]] = {}

    def names(self, kind: str, count: int) -> list[str]:
        """The first `count` containers of a kind."""
        have = self.made.setdefault((kind, 0), [])
        options = [*engines.SHARE, *(["--pid=host", "--cap-add=SYS_PTRACE"] if kind == "cma" else [])]
        while len(have) < count:
            have.append(self.docker.run(f"{kind}-{len(have)}", *options).name)
        return have[:count]

    def hosts_file(self, names: list[str]) -> str:
        """What /etc/hosts must have in each container for the peers, which find each other by name."""
        return "".join(f"{engines.call('docker', 'inspect', '-f', '{{.NetworkSettings.IPAddress}}', n)} {n}\n" for n in names)


def introduce(world: World, names: list[str]) -> None:
    """Lets containers and this process find each other by name."""
    text = "127.0.0.1 localhost\n" + world.hosts_file(names)
    outside = bed.slot() / "etc/hosts"
    outside.write_text(text + f"10.78.0.1 {os.uname().nodename}\n")
    if not pathlib.Path("/etc/hosts").samefile(outside):
        subprocess.run(["mount", "--bind", str(outside), "/etc/hosts"], check=True)
    for name in names:
        subprocess.run(["docker", "exec", "-i", name, "sh", "-c", "cat > /etc/hosts"], input=outside.read_text(), text=True, check=True)


def ssh_stand_in(peer: registry.Peer) -> str:
    """A script that a peer's launcher takes for ssh."""
    env = {"LD_LIBRARY_PATH": str(peer.tree / "lib"), "HOME": "/root"}
    if peer.name == "openmpi":
        env |= {"OPAL_PREFIX": str(peer.tree), "PMIX_PREFIX": str(peer.tree), "PRTE_PREFIX": str(peer.tree),
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PATH": f"{peer.tree}/bin:/usr/bin:/bin"}
    script = bed.slot() / f"etc/shell-{peer.name}"
    script.write_text(SHELL.format(environment=" ".join(f"-e {k}={v}" for k, v in env.items()), script=registry.NODE_SCRIPT))
    script.chmod(0o755)
    return str(script)


def command_of(arm: str, plan: Plan, world: World, settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command line and environment with which an arm runs a plan."""
    abi = "abi" if arm in ("native", "docker", "cma", "mpich") else arm
    program = [str(BIN / f"bench-{abi}" / plan.program), *plan.args]
    if arm in ("native", "docker", "cma"):
        peer = registry.peers(["ferrule"])[0]
        env = {**peer.environment("shm"), "FERRULE_JOB_DIR": image.SHARED, **settings}
        where = [] if arm == "native" else ["--launcher-exec", engines.launcher(), "-host", ",".join(f"{n}:1" for n in world.names(arm, plan.ranks))]
        return [str(ROOT / "dist/bin/mpiexec"), *where, "-n", str(plan.ranks), *program], env
    peer = registry.peers([arm])[0]
    names = world.names("docker", plan.ranks)
    introduce(world, names)
    script, env = ssh_stand_in(peer), peer.environment("shm")
    if arm == "mpich":
        return [str(peer.tree / "bin/mpiexec"), "-launcher", "ssh", "-launcher-exec", script, "-iface", "docker0", "-hosts", ",".join(names), "-ppn", "1",
                "-n", str(plan.ranks), *program], env
    return [str(peer.tree / "bin/mpiexec"), "--allow-run-as-root", "--prtemca", "plm_ssh_agent", script, "--prtemca", "plm_ssh_no_tree_spawn", "1",
            "--bind-to", "none", "--oversubscribe", "--host", ",".join(f"{n}:1" for n in names), "-n", str(plan.ranks), *program], env


def run_once(arm: str, plan: Plan, world: World, seconds: float, settings: dict[str, str] | None = None) -> tuple[list[dict], str]:
    """Rows of one run, or none and what went wrong."""
    command, env = command_of(arm, plan, world, settings or {})
    env["BENCH_SECONDS"] = str(seconds)
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        process = subprocess.Popen(command, env=env, cwd="/", stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code: int | None = process.wait(PEER_S if arm in PEERS else 120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        out.seek(0)
        text = out.read()
    if code != 0:
        if arm in PEERS:
            for name in world.names("docker", plan.ranks):
                subprocess.run(["docker", "exec", name, "pkill", "-KILL", "-f", "prted|hydra|bench-"], capture_output=True)
        words = " ".join(text.split())[-300:]
        return [], f"no end in time: {words}" if code is None else f"exit code {code}: {words}"
    rows = [json.loads(line[line.index("{"):]) for line in text.splitlines() if '"row"' in line and line.rstrip().endswith("}")]
    for name, took in re.findall(r"RESULT (\w+) .*?seconds=([\d.e-]+)", text):
        rows.append({"row": f"application {name}", "ranks": plan.ranks, "bytes": 0, "value": float(took) * 1e3, "unit": "ms"})
    return rows, "" if rows else "no rows"


def measure(world: World, arms: list[str], plans: list[Plan], repeats: int, seconds: float, data: dict, out: pathlib.Path) -> None:
    """Adds all values of all plans, and the first failure of each arm, to `data`; writes it after each plan.

    An arm that fails is left out of the rest of the plan; a peer that has failed in two plans, of all others."""
    table = {results.identity(row): row for row in data["rows"]}
    failures: dict[str, str] = data["failures"]
    failed_plans: collections.Counter[str] = collections.Counter()
    for plan in plans:
        begin = time.monotonic()
        given_up = {arm for arm in PEERS if failed_plans[arm] >= 2}
        for repeat in range(repeats):
            turn = arms[repeat % len(arms):] + arms[:repeat % len(arms)]
            date = results.now()
            for arm in turn:
                if arm in given_up:
                    continue
                rows, wrong, place, moves = distance.run_still(functools.partial(run_once, arm, plan, world, seconds))
                data["dropped"] += moves
                if wrong:
                    given_up.add(arm)
                    failed_plans[arm] += 1
                    failures.setdefault(arm, f"{plan.label}: {wrong}")
                    print(f"  {arm}: {wrong}", flush=True)
                for row in rows:
                    results.add(table, row, arm, place, date)
        print(f"{plan.label}: {time.monotonic() - begin:.0f} s", flush=True)
        data["rows"] = list(table.values())
        write(data, out)


def write(data: dict, out: pathlib.Path) -> None:
    """Figures, page and plots of what has been measured until now."""
    out.mkdir(parents=True, exist_ok=True)
    results.save(out / "containers.json", data)
    containers_report.write(data, out)


def detection(world: World, repeats: int, data: dict) -> None:
    """Adds MPI_Init of 16 ranks in 16 containers that look for each other (`auto`) and that don't (`node`, FERRULE_LOCALITY)."""
    found = {results.identity(row): row for row in data["detection"]}
    for _ in range(repeats):
        date = results.now()
        for locality in ("auto", "node"):
            def once(locality: str = locality) -> tuple[list[dict], str]:
                begin = time.monotonic()
                rows, wrong = run_once("docker", START, world, 0.1, {"FERRULE_LOCALITY": locality})
                return [*rows, {"row": "whole job", "ranks": MANY, "bytes": 0, "value": (time.monotonic() - begin) * 1e3, "unit": "ms"}], wrong

            rows, wrong, place, moves = distance.run_still(once)
            data["dropped"] += moves
            if wrong:
                print(f"  detection, {locality}: {wrong}", flush=True)
                continue
            for row in rows:
                results.add(found, row, locality, place, date)
    data["detection"] = list(found.values())


def compile_programs(arms: list[str]) -> None:
    """Benchmarks and applications, for the standard ABI and for Open MPI, where containers see them."""
    who = [("abi", registry.peers(["ferrule"])[0])] + [(n, registry.peers([n])[0]) for n in ("openmpi",) if n in arms]
    for name, peer in who:
        for program in ("pt2pt", "coll", "init"):
            peer.compile(HERE / f"{program}.c", BIN / f"bench-{name}" / program)
        for program in ("fft3d", "bfs", "isort", "cg"):
            sources = [str(p) for p in sorted((ROOT / "examples" / program).glob("*.c"))]
            target = str(BIN / f"bench-{name}" / program)
            if peer.standard_abi:
                command = ["cc", "-O2", "-std=gnu11", "-I", str(ROOT / "dist/include"), "-o", target, *sources, "-L", str(ROOT / "dist/lib"), "-l:libmpi_abi.so.1", "-lm"]
            else:
                command = [str(peer.tree / "bin/mpicc"), "-O2", "-std=gnu11", "-o", target, *sources, "-lm"]
            subprocess.run(command, check=True, env=peer.environment("shm"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer plans and repeats")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--only", default="*", help="plans whose label matches")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options = parser.parse_args()
    arms = options.arms.split(",")
    if not bed.is_inside():
        registry.install([a for a in arms if a in registry.PACKAGES])  # The network is gone inside.
        return bed.enter()
    repeats = options.repeats or (3 if options.quick else 5)
    compile_programs(arms)
    world = World()
    plans = [p for p in PLANS if (p.quick or not options.quick) and fnmatch.fnmatch(p.label, options.only)]
    conditions = {"machine": {"kernel": os.uname().release, "cpus": len(os.sched_getaffinity(0)), "docker": engines.call("docker", "version", "-f", "{{.Server.Version}}")},
                  "revision": results.revision(), "quick": options.quick}
    data, other = results.load(options.out / "containers.json", conditions)
    if other:
        print(f"The values in {options.out / 'containers.json'} are dropped: {other}.", flush=True)
    data = data or {"format": results.FORMAT, **conditions, "rows": [], "detection": [], "dropped": 0, "ranks_started": MANY}
    data["failures"] = {}
    measure(world, arms, plans, repeats, 0.08 if options.quick else 0.15, data, options.out)
    if fnmatch.fnmatch("detection", options.only):
        detection(world, max(3, repeats), data)
        write(data, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
