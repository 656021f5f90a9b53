#!/usr/bin/env python3
"""Jobs under the launchers of others: Hydra (PMI-1), PRRTE and Slurm (PMIx), Slurm (PMI-2); and mpiexec inside of Slurm's allocations.

Everything runs in a private world of testbeds/slurm: hosts are network namespaces with names of their own, and what a job leaves can be
seen, because nothing else runs there.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "testbeds/slurm")]
import patience

import run as runner
import slurm

ROOT = runner.ROOT
LIB = runner.libraries()["ferrule"]
RING = str(ROOT / "build/tests/launch/ring")
TRAFFIC = str(ROOT / "build/tests/profile/traffic")
HYDRA = ROOT / "build/peers/mpich/bin/mpiexec"
PRRTE = ROOT / "build/peers/openmpi/bin/mpirun"
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
# Ranks on each host, and with how many each rank shares its host.
SHAPE = [3, 2, 1]
NEAR = "3 3 3 2 2 1"
APART = {"FERRULE_LOCALITY": "node"}
Result = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Launcher:
    """How one starts `ranks` ranks on one host, or 3 + 2 + 1 on three; and which exit code MPI_Abort(7) makes (None: any but 0)."""

    name: str
    one: collections.abc.Callable[[int], list[str]]
    three: list[str]
    abort_code: int | None
    env: dict[str, str]


def hosts(separator: str) -> str:
    return ",".join(f"10.21.0.{i}{separator}{n}" for i, n in enumerate(SHAPE, 1))


def launchers() -> list[Launcher]:
    """Those that are installed."""
    found = []
    shell = str(ROOT / "testbeds/slurm/node_shell.sh")
    if HYDRA.exists():
        many = [str(HYDRA), "-launcher", "ssh", "-launcher-exec", shell, "-hosts", hosts(":"), "-n", "6"]
        for name, option in (("Hydra", []), ("Hydra, PMI_PORT", ["-pmi-port"])):
            one = functools.partial(lambda option, n: [str(HYDRA), *option, "-n", str(n)], option)
            found.append(Launcher(name, one, [many[0], *option, *many[1:]], 7, {}))
    if PRRTE.exists():
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        # Its files are named after process numbers, which a world counts anew: they belong into the world's own folder.
        env = {"OPAL_PREFIX": str(PRRTE.parents[1]), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": "/run"}
        many = [str(PRRTE), *options, "--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", shell, "--host", hosts(":"), "-n", "6"]
        found.append(Launcher("PRRTE", lambda n: [str(PRRTE), *options, "-n", str(n)], many, 7, env))
    for mpi, code in (("pmi2", 7), ("pmix", 7)):
        srun = ["srun", "--quiet", f"--mpi={mpi}"]
        one = functools.partial(lambda srun, n: [*srun, "-N1", "--overcommit", f"-n{n}"], srun)
        found.append(Launcher(f"srun --mpi={mpi}", one, [*srun, "-m", "arbitrary", "-w", arbitrary(), "-n6"], code, {}))
    return found


def arbitrary() -> str:
    return ",".join(f"n{i}" for i, n in enumerate(SHAPE, 1) for _ in range(n))


def remains() -> list[str]:
    """Processes of ours that run in this world."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")[0].decode()
            name = (path / "comm").read_text().strip()
        except OSError:
            continue
        if words in (RING, TRAFFIC, MPIEXEC):
            found.append(f"{path.name} {words} {name}")
    return found


def nothing_left() -> str:
    """A complaint about what a job has left, after a while."""
    if patience.until(lambda: not remains(), 30):
        return ""
    left = remains()
    for line in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    return "left behind: " + "; ".join(left)


def judge(code: int, text: str, wanted: int | None, pattern: str) -> Result:
    """`wanted` None stands for any failure."""
    left = nothing_left()
    if left:
        return "FAIL", f"{left}\n{text[-1500:]}"
    if code == -1 or (code == 0 if wanted is None else code != wanted):
        return "FAIL", f"exit code {code} instead of {'a failure' if wanted is None else wanted}\n{text[-1500:]}"
    if not re.search(pattern, text):
        return "FAIL", f"no '{pattern}' in\n{text[-1500:]}"
    return "pass", ""


class Bed:
    """Runs jobs on the cluster, or on this host alone where there is none."""

    def __init__(self, cluster: slurm.Cluster) -> None:
        self.cluster = cluster

    def job(self, before: list[str], args: list[str], env: dict[str, str], wanted: int | None, pattern: str) -> Result:
        code, text = self.cluster.run([*before, RING, *args], env={"LD_LIBRARY_PATH": str(LIB.lib), **env}, timeout=patience.WATCHDOG_S)
        return judge(code, text, wanted, pattern)

    def profile(self, launcher: Launcher, what: str, wanted: int | None, messages: dict[int, int], end: str) -> Result:
        """The head process that rank 0 brings writes FERRULE_PROFILE: how many messages ranks have sent to the next, and how rank 5 has ended."""
        path = self.cluster.dir / "profile.json"
        path.unlink(missing_ok=True)
        env = {"LD_LIBRARY_PATH": str(LIB.lib), **launcher.env, "FERRULE_PROFILE": str(path)}
        code, text = self.cluster.run([*launcher.three, TRAFFIC, what, "5"], env=env, timeout=patience.WATCHDOG_S)
        state, why = judge(code, text, wanted, "")
        if state != "pass":
            return state, why
        if not path.exists():
            return "FAIL", f"no profile was written\n{text[-1500:]}"
        ranks = json.loads(path.read_text())["ranks"]
        found = {rank["rank"]: rank.get("tx_messages") for rank in ranks if rank["rank"] in messages}
        if found != {i: [n if peer == (i + 1) % 6 else 0 for peer in range(6)] for i, n in messages.items()}:
            return "FAIL", f"messages by rank: {found}"
        if len(ranks) != 6 or ranks[5]["end"] != end:
            return "FAIL", f"{len(ranks)} ranks, the last one: {ranks[-1]['end']}"
        return "pass", ""

    def victim(self, launcher: Launcher, comm: str) -> Result:
        """A job that waits loses an agent, or the head process."""
        env = {**self.cluster.env, "LD_LIBRARY_PATH": str(LIB.lib), **launcher.env}
        process = subprocess.Popen([*launcher.three, RING, "wait"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("waiting"):
                break
        pids = [int(line.split()[0]) for line in remains() if line.endswith(comm)]
        if not pids:
            process.kill()
            return "FAIL", f"no {comm} runs: {remains()}\n{text}"
        os.kill(pids[-1], signal.SIGKILL)
        try:
            rest, _ = process.communicate(timeout=patience.WATCHDOG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return "FAIL", f"the job does not end: {remains()}"
        return judge(process.returncode, text + rest, None, "")

    def killed_launcher(self, launcher: Launcher) -> Result:
        """The launcher is killed while the job waits."""
        env = {**self.cluster.env, "LD_LIBRARY_PATH": str(LIB.lib), **launcher.env}
        process = subprocess.Popen([*launcher.one(3), RING, "wait"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("waiting"):
                break
        process.kill()
        process.wait()
        left = nothing_left()
        return ("FAIL", left) if left else ("pass", "")


def cases_of(bed: Bed, launcher: Launcher) -> dict[str, collections.abc.Callable[[], Result]]:
    job, env = bed.job, launcher.env
    apart = {**env, **APART}
    # Hydra closes the outputs of a failed job before the head process's last words come; who aborts is heard.
    closes = launcher.name.startswith("Hydra")
    front_says = "" if closes else "ferrule: rank 5 .*"
    aborted = front_says + "MPI_Abort was called on MPI_COMM_WORLD with code 7"
    killed = "" if closes else "rank 5 .* ended without calling MPI_Finalize"
    found: dict[str, collections.abc.Callable[[], Result]] = {
        "one rank": lambda: job(launcher.one(1), [], env, 0, "ring of 1 near 1\n"),
        "five ranks": lambda: job(launcher.one(5), [], env, 0, "ring of 5 near 5 5 5 5 5\n"),
        "three hosts under one kernel": lambda: job(launcher.three, [], env, 0, "ring of 6 near 6 6 6 6 6 6\n"),
        "three hosts apart": lambda: job(launcher.three, [], apart, 0, f"ring of 6 near {NEAR}\n"),
        "MPI once more": lambda: job(launcher.three, ["again"], env, 0, "ring of 6"),
        # The first rank ends, and with it what it was wrapped in, long before the others.
        "ranks in a script": lambda: job([*launcher.one(3), "sh", "-c", '"$@"; exit $?', "sh"], ["linger"], env, 0, "ring of 3"),
        "MPI_Abort": lambda: job(launcher.three, ["abort", "7"], env, launcher.abort_code, aborted),
        "a rank is killed": lambda: job(launcher.three, ["kill"], env, None, killed),
        "a profile": lambda: bed.profile(launcher, "ring", 0, dict.fromkeys(range(6), 10), "finalized"),
        "a profile of what aborts": lambda: bed.profile(launcher, "abort", None, {5: 11}, "called MPI_Abort with code 3"),
        "a node agent is killed": lambda: bed.victim(launcher, "ferrule-agent"),
        "the head process is killed": lambda: bed.victim(launcher, "ferrule-front"),
    }
    if not launcher.name.startswith("srun"):
        found["the launcher is killed"] = lambda: bed.killed_launcher(launcher)
    if launcher.name == "PRRTE":
        # Hydra and srun let the others of a rank wait that ends before MPI_Init.
        found["a rank ends before MPI_Init"] = lambda: job(launcher.one(3), ["early", "5"], env, None, "")
    if "PRRTE" in launcher.name or "pmix" in launcher.name:
        missing = {**env, "FERRULE_PMIX_LIBRARY": "libno-such-pmix.so.2"}
        found["no PMIx library"] = lambda: job(launcher.one(2), [], missing, None, "libno-such-pmix.so.2.*FERRULE_PMIX_LIBRARY")
    found["no agent beside the library"] = lambda: job(launcher.one(2), [], {**env, "FERRULE_AGENT_PATH": "/nonexistent"}, None, "FERRULE_AGENT_PATH")
    return found


def allocations(bed: Bed) -> dict[str, collections.abc.Callable[[], Result]]:
    job = bed.job

    def batch() -> Result:
        script = bed.cluster.dir / "batch.sh"
        script.write_text(f"#!/bin/sh\n{MPIEXEC} {RING}\n")
        out = bed.cluster.dir / "batch.out"
        code, text = bed.cluster.run(["sbatch", "-N3", "--ntasks-per-node=2", "-o", str(out), str(script)], env=APART)
        patience.until(lambda: not bed.cluster.run(["squeue", "-h"])[1].strip(), pause_s=0.1)
        return judge(code, text + (out.read_text() if out.exists() else "no output"), 0, "ring of 6 near 2 2 2 2 2 2\n")

    salloc = ["salloc", "-N3", "-n6", MPIEXEC]
    return {
        "salloc: all slots": lambda: job(salloc, [], APART, 0, "ring of 6 near (4 4 4 4 1 1|2 2 2 2 2 2)\n"),
        "salloc: -n 3": lambda: job([*salloc, "-n", "3"], [], {}, 0, "ring of 3 near 3 3 3\n"),
        "salloc: -host goes before": lambda: job([*salloc, "-v", "-host", "n2:2"], [], {"FERRULE_LAUNCHER": "srun -N1 -n1 -w {host} {command}"}, 0, "rank 1 on n2"),
        "salloc: --launcher fork goes before": lambda: job([*salloc, "--launcher", "fork", "-n", "2"], [], {}, 0, "ring of 2 near 2 2\n"),
        "salloc: MPI_Abort": lambda: job(salloc, ["abort", "7"], {}, 7, "MPI_Abort was called"),
        "salloc: a rank is killed": lambda: job(salloc, ["kill"], {}, 137, "killed by SIGKILL"),
        "sbatch": batch,
        "srun without a plugin is refused": lambda: job(["srun", "-n2"], [], {}, None, "srun without an MPI plugin.*--mpi=pmi2"),
    }


def host_lists(bed: Bed) -> dict[str, collections.abc.Callable[[], Result]]:
    """What LSF, PBS and the operator of a Kubernetes MPIJob set, without them: the hosts are those of the testbed, reached by its shell."""
    shell = str(ROOT / "testbeds/slurm/node_shell.sh")
    once, again = bed.cluster.dir / "hosts", bed.cluster.dir / "hosts-by-rank"
    once.write_text("".join(f"10.21.0.{i} slots={n}\n" for i, n in enumerate(SHAPE, 1)))
    again.write_text("".join(f"10.21.0.{i}\n" * n for i, n in enumerate(SHAPE, 1)))
    reached = {**APART, "FERRULE_LAUNCHER": f"{shell} {{host}} {{command}}"}
    lsf, pbs = {"LSB_JOBID": "7"}, {"PBS_JOBID": "7", "PBS_NODEFILE": str(again)}
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    systems = {
        "LSF, LSB_MCPU_HOSTS": {**reached, **lsf, "LSB_MCPU_HOSTS": " ".join(f"10.21.0.{i} {n}" for i, n in enumerate(SHAPE, 1))},
        "LSF, LSB_DJOB_HOSTFILE": {**reached, **lsf, "LSB_DJOB_HOSTFILE": str(again)},
        "PBS": {**reached, **pbs},
        # The operator's script in the place of ssh.
        "MPIJob for Open MPI": {**APART, **pod, "OMPI_MCA_orte_default_hostfile": str(once), "OMPI_MCA_plm_rsh_agent": shell},
        "MPIJob for Intel MPI": {**APART, **pod, "I_MPI_HYDRA_HOST_FILE": str(again), "HYDRA_LAUNCHER_EXEC": shell},
    }
    job = bed.job
    found: dict[str, collections.abc.Callable[[], Result]] = {}
    for name, env in systems.items():
        found[f"{name}: all slots"] = functools.partial(job, [MPIEXEC], [], env, 0, f"ring of 6 near {NEAR}\n")
        found[f"{name}: MPI_Abort"] = functools.partial(job, [MPIEXEC, "-n", "6"], ["abort", "7"], env, 7, "MPI_Abort was called")
    found["PBS: the file is missing"] = lambda: job([MPIEXEC], [], {**pbs, "PBS_NODEFILE": "/nonexistent"}, None, "PBS_NODEFILE=/nonexistent")
    return found


def main() -> int:
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    reason = slurm.unavailable()
    if reason:
        print(f"launchers: 0 passed, 0 failed, 1 skipped: {reason}")
        return 0
    if not slurm.is_inside():
        broken = runner.compile_all({"launch/ring", "profile/traffic"}, LIB, 1)
        if broken:
            print("FAIL  compile", *broken.values(), sep="\n")
            return 1
        return slurm.enter()
    count = {"pass": 0, "FAIL": 0, "skip": 0}
    for name, path in (("Hydra", HYDRA), ("PRRTE", PRRTE)):
        if not path.exists():
            count["skip"] += 1
            print(f"skip  {name}: {path} is missing (make build/peers/…)")
    with slurm.Cluster(nodes=3, cpus=4) as cluster:
        bed = Bed(cluster)
        cases = {f"{launcher.name}: {name}": case for launcher in launchers() for name, case in cases_of(bed, launcher).items()}
        cases |= {f"mpiexec in Slurm: {name}": case for name, case in allocations(bed).items()}
        cases |= {f"mpiexec under {name}": case for name, case in host_lists(bed).items()}
        for name, case in cases.items():
            if only not in name:
                continue
            start = time.monotonic()
            state, why = case()
            count[state] += 1
            print(f"{state}  {time.monotonic() - start:5.1f} s  {name}{': ' + why if why else ''}", flush=True)
    print(f"launchers: {count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
