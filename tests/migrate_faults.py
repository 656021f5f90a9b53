#!/usr/bin/env python3
"""`ferrule migrate` with faults at random moments: what goes on with right results, what ends with a message, and that nothing is left.

    tests/migrate_faults.py [--moments N] [--seed S] [-k WORD]      WORD chooses faults by name

Four ranks on two hosts in namespaces; n2 is moved by a driver script, which asks a process in a hypervisor's place. The fault comes at a random moment
of the migration. After it the job must end well when it is asked to, with every byte and sum right; or it has ended, within the limits given here, with a
message that names what has failed. Needs root.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/lanes")]
import patience
from migration_job import Failed, Job, check

import lane_bed

FERRULE = ROOT / "dist/bin/ferrule"
#: Limits of a step, of the migration itself, and how long mpiexec holds a suspension whose controller is dead.
LIMIT_S, MIGRATE_LIMIT_S, HOLD_S = 2, 2, 2
#: Time-outs of the job: how long ranks, and agents, wait for a host that doesn't answer.
PATIENCE_MS = 3000
SETTINGS = {
    "TCP_CONNECT_TIMEOUT_MS": str(PATIENCE_MS), "TCP_RECONNECT_TIMEOUT_MS": str(PATIENCE_MS), "TCP_USER_TIMEOUT_MS": str(PATIENCE_MS),
    "NODE_TIMEOUT": str(PATIENCE_MS // 1000), "TCP_KEEPALIVE_S": "1",
}
#: What a job may take to end, or to go on, beside the time-outs above.
END_S = 10.0
#: After so long somebody mends what is broken. By then every step has ended by itself.
REPAIR_S = 1.0
#: Moments lie within a migration in which nothing fails, and shortly behind.
BEYOND = 1.15


class StandIn:
    """In a hypervisor's place: a process that must live, and a script that takes its time for each step and keeps on disk where the machine is."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(["sleep", "3600"])
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "--no-mtab", "-t", "tmpfs", "-o", "size=16k", "small", str(self.disk)], check=True)
        self.program = folder / "hypervisor"
        self.program.write_text(f"""#!/bin/sh
echo $$ >{folder}/driver
say() {{ echo "$1" >&2; exit 1; }}
answers() {{ kill -0 {self.process.pid} 2>/dev/null || say "the hypervisor does not answer"; }}
answers
case $1 in
  check) sleep 0.03 ;;
  detach) sleep 0.03; answers; [ ! -e {folder}/refuse ] || say "the guest keeps its device"; ip -n n2 addr flush dev eth1 ;;
  migrate) sleep 0.08; answers; echo there >{self.disk}/state || say "cannot keep the state"; cp {self.disk}/state {folder}/place; sleep 0.03 ;;
  cancel) answers; [ "$(cat {folder}/place)" = there ] && exit 3; exit 0 ;;
  attach-destination) sleep 0.03; answers; ip -n n2 addr replace 10.45.1.77/24 dev eth1 ;;
  attach-source) sleep 0.03; answers; ip -n n2 addr replace 10.45.1.2/24 dev eth1 ;;
esac
""")
        self.program.chmod(0o755)
        (folder / "place").write_text("here\n")
        self.config = folder / "vms.json"
        self.config.write_text(json.dumps({"vms": {"guest": {"driver": "script", "host": "n2", "program": str(self.program)}}}))
        self.config.chmod(0o600)

    def fill(self) -> None:
        """Nothing can be written to its disk any more."""
        with open(self.disk / "filling", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def script(self) -> int:
        """The process of the driver's script, 0 if none runs."""
        try:
            pid = int((self.folder / "driver").read_text())
            return pid if str(self.program) in pathlib.Path(f"/proc/{pid}/cmdline").read_text() else 0
        except (OSError, ValueError):
            return 0

    def die(self) -> None:
        """Reaped at once: a dead process that still has a number would seem to answer."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.die()
        subprocess.run(["umount", "--no-mtab", str(self.disk)], check=True)


@dataclasses.dataclass
class Trial:
    """A job that is being migrated."""

    bed: lane_bed.Bed
    job: Job
    hypervisor: StandIn
    controller: subprocess.Popen[str]
    rng: random.Random

    def processes(self, host: str, word: str) -> list[int]:
        """Processes on a host whose command line begins with this, as mpiexec's agents and ranks do."""
        pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout.split()
        return [int(pid) for pid in pids if re.search(word, command(int(pid)))]

    def kill(self, pids: list[int]) -> None:
        """One of them."""
        if pids:
            try:
                os.kill(self.rng.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                pass


def command(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens, and what must be said if the job doesn't outlive it; nothing if it must."""

    name: str
    strike: Callable[[Trial], None]
    names: str = ""
    #: Before the migration begins.
    is_early: bool = False
    #: How long a job may take beside `END_S`.
    time_outs_s: float = 0.0
    #: Whoever runs the machines looks after them `REPAIR_S` later.
    repair: Callable[[Trial], None] | None = None
    #: The controller's last words.
    controller: str = ""


def address(trial: Trial) -> None:
    """The administrator gives the host an address again, if it has none."""
    subprocess.run(["ip", "-n", "n2", "addr", "replace", "10.45.1.88/24", "dev", "eth1"], check=True)


def cut_for_a_while(rail: int) -> Callable[[Trial], None]:
    def strike(trial: Trial) -> None:
        name = trial.rng.choice(trial.bed.names)
        trial.bed.cut(name, rail)
        time.sleep(trial.rng.random())
        trial.bed.mend(name, rail)
    return strike


def cut(rail: int) -> Callable[[Trial], None]:
    return lambda trial: trial.bed.cut("n2", rail)


def kill_controller(both: bool) -> Callable[[Trial], None]:
    """`ferrule migrate` is two processes; one of them, or both at once."""
    def strike(trial: Trial) -> None:
        pids = [trial.controller.pid, *below(trial.controller.pid)]
        for pid in pids if both else [trial.rng.choice(pids)]:
            trial.kill([pid])
    return strike


def below(pid: int) -> list[int]:
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def refuse(trial: Trial) -> None:
    (trial.hypervisor.folder / "refuse").touch()


RANK = r"/traffic "
NO_NETWORK = r"cannot listen after the migration: |lost the connection to rank \d on n\d"
NETWORK_S = 2 * PATIENCE_MS / 1000
NOTHING = Fault("nothing", lambda trial: None)
FAULTS = (
    Fault("controller, one of two", kill_controller(False), repair=address, time_outs_s=HOLD_S),
    Fault("controller, and the host gets a network again", kill_controller(True), repair=address, time_outs_s=HOLD_S),
    Fault("controller, and nobody looks after the host", kill_controller(True), NO_NETWORK, time_outs_s=HOLD_S + NETWORK_S),
    Fault("agent", lambda trial: trial.kill(trial.processes("n2", r"mpiexec --agent")), r"the node agent on n2"),
    Fault("rank that moves", lambda trial: trial.kill(trial.processes("n2", RANK)), r"rank [23].*(SIGKILL|signal 9|killed)"),
    Fault("peer", lambda trial: trial.kill([pid for pid in trial.processes("n1", RANK) if "mpiexec" not in command(pid)]), r"rank [01].*(SIGKILL|signal 9|killed)"),
    Fault("mpiexec", lambda trial: trial.job.process.kill(), r"", controller="mpiexec"),
    Fault("driver", lambda trial: trial.kill([pid for pid in [trial.hypervisor.script()] if pid])),
    Fault("hypervisor", lambda trial: trial.hypervisor.die(), NO_NETWORK, time_outs_s=NETWORK_S),
    Fault("hypervisor, and the host gets a network again", lambda trial: trial.hypervisor.die(), repair=address, time_outs_s=NETWORK_S),
    Fault("network of the ranks for a while", cut_for_a_while(1)),
    Fault("network of the agents for a while", cut_for_a_while(0)),
    Fault("network of the ranks", cut(1), r"lost the connection to rank \d on n\d", time_outs_s=NETWORK_S),
    Fault("network of the agents", cut(0), r"the node agent on n2", time_outs_s=NETWORK_S),
    Fault("full disk", lambda trial: trial.hypervisor.fill(), is_early=True, controller="cannot keep the state"),
    Fault("refused detach", refuse, is_early=True, controller="the guest keeps its device"),
)


def moment(bed: lane_bed.Bed, folder: pathlib.Path, program: pathlib.Path, fault: Fault, rng: random.Random, course_s: float) -> tuple[str, float]:
    """One job with one fault within so many seconds; how it ended, and how long the controller took."""
    (folder / "traffic").symlink_to(program)
    hypervisor = StandIn(folder)
    job = Job(bed, str(folder), **SETTINGS)
    words = [*bed.prefix("n1"), str(FERRULE), "migrate", "--config", str(hypervisor.config), "--vm", "guest", "--to", "there", "--limit", str(LIMIT_S),
             "--migrate-limit", str(MIGRATE_LIMIT_S), "--hold", str(HOLD_S)]
    said = ""
    try:
        if fault.is_early:
            fault.strike(Trial(bed, job, hypervisor, job.process, rng))
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as controller:
            trial = Trial(bed, job, hypervisor, controller, rng)
            begin = time.monotonic()
            delay = rng.random() * course_s * BEYOND
            time.sleep(delay)
            if not fault.is_early:
                fault.strike(trial)
            repair = threading.Timer(REPAIR_S, fault.repair, [trial]) if fault.repair else None
            if repair:
                repair.start()
            try:
                said, _ = controller.communicate(timeout=patience.WATCHDOG_S)
            except subprocess.TimeoutExpired:
                controller.kill()
                said = controller.communicate()[0]
                raise Failed(f"the controller has not ended:\n{said}") from None
        took = time.monotonic() - begin
        where = f"after {delay:.3f} s; the controller ended after {took:.1f} s with {controller.returncode}:\n{said}"
        if repair:
            repair.join()
        has_moved = controller.returncode == 0
        how = f"{'moved' if has_moved else 'not moved'}, {conclude(trial, fault, where, has_moved)}"
        check(patience.until(lambda: not remains(bed, hypervisor), END_S, promise=True), f"left behind: {remains(bed, hypervisor)}\n{where}")
        return how, took
    finally:
        job.kill()
        hypervisor.end()


def conclude(trial: Trial, fault: Fault, where: str, has_moved: bool) -> str:
    """Ends the job, or sees that it has ended well."""
    job = trial.job
    begin = time.monotonic()
    trial.job.stop.touch()
    limit = (END_S + fault.time_outs_s) * patience.stretch()
    try:
        said = job.process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        drain = job.ferrule("drain", "--status")[1]
        why = job.ferrule("why")[1][-3000:]
        job.process.kill()
        raise Failed(f"the job hangs: it has neither ended nor gone on {limit:.0f} s later: {drain}\n{why}\n{job.process.communicate()[0][-3000:]}\n{where}") from None
    took = time.monotonic() - begin
    code = job.process.returncode
    if fault.controller and (fault.is_early or not has_moved):
        check(fault.controller in where, f"the controller doesn't name what failed ({fault.controller}): {where}")
    if code == 0:
        found = re.search(r"descriptors more at the end (-?\d+)", said)
        check(found is not None and int(found[1]) <= 0, f"descriptors are left: {said[-500:]}\n{where}")
        return "goes on"
    if fault.name == "mpiexec" and code < 0:
        return "ended"
    check(bool(fault.names), f"the job doesn't go on, exit code {code} after {took:.1f} s: {said[-3000:]}\n{where}")
    check(re.search(fault.names, said) is not None, f"the message doesn't name {fault.names}: exit code {code}: {said[-3000:]}\n{where}")
    print("  " + next(line for line in said.splitlines() if re.search(fault.names, line)), flush=True)
    return "ended"


def remains(bed: lane_bed.Bed, hypervisor: StandIn) -> str:
    """What of the job and the migration still runs or listens on the hosts."""
    left = [f"{name}: {command(int(pid))}" for name in bed.names for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()]
    if pid := hypervisor.script():
        left.append(f"the driver's script {pid}")
    return "; ".join(left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("-k", default="", metavar="WORD")
    options = parser.parse_args()
    if why := lane_bed.unavailable():
        print(f"migrate-faults: 0 passed, 0 failed, 1 skipped: {why}")
        return 0
    if not lane_bed.is_inside():
        if "--seed" not in sys.argv:
            sys.argv += ["--seed", str(options.seed)]
        return lane_bed.enter()
    rng = random.Random(options.seed)
    print(f"{options.moments} moments, seed {options.seed}", flush=True)
    faults = [fault for fault in FAULTS if options.k in fault.name]
    order = [fault for _ in range(options.moments // len(faults) + 1) for fault in rng.sample(faults, len(faults))][:options.moments]
    ends: collections.Counter[str] = collections.Counter()
    failed = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as place:
        program = pathlib.Path(place) / "program"
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", "-o", str(program), str(ROOT / "tests/c/migration/traffic.c"), "-lm"], check=True)
        course_s = 0.0
        for number, fault in enumerate([NOTHING, *order]):
            folder = pathlib.Path(place) / str(number)
            folder.mkdir()
            began = time.monotonic()
            try:
                with lane_bed.Bed(hosts=2, mbit=10_000, classes=False, rails=2) as bed:
                    end, took = moment(bed, folder, program, fault, random.Random(rng.random()), course_s)
                course_s = course_s or took
                ends[f"{fault.name}: {end}"] += 1
                print(f"ok {number} {fault.name}: {end}, {time.monotonic() - began:.1f} s", flush=True)
            except (Failed, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED: moment {number}, {fault.name}: {error}", flush=True)
    for end, times in sorted(ends.items()):
        print(f"  {times:3} times {end}")
    print(f"in {time.monotonic() - begin:.0f} s")
    print(f"migrate-faults: {len(order) + 1 - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
