#!/usr/bin/env python3
"""`ferrule migrate`: the controller with every driver, and virtual machines that really move while a job runs in them.

    tests/migrate.py [-k WORD]      runs the cases in namespaces whose name has WORD in it
    tests/migrate.py --guests       moves two virtual machines one after the other, and shows it

In namespaces a host stands for a virtual machine, and programs for its hypervisor: a script, and a virsh that writes down how it is called. In QEMU guests
(testbeds/vm, software emulation) QMP moves them. Needs root; what can't be had is skipped with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/lanes"), str(ROOT / "testbeds/vm")]
import migrate_loads
import moving
import patience
import vm
from migration_job import Failed, Job, check

import guests
import lane_bed

#: Traffic goes on for so long after the last migration.
SETTLED_S = 3
FERRULE = ROOT / "dist/bin/ferrule"


class Hypervisor:
    """A script in a hypervisor's place: writes down its steps, renumbers the host, and does what `fate` says."""

    def __init__(self, folder: str) -> None:
        self.folder = pathlib.Path(folder)
        self.program = self.folder / "hypervisor"
        self.program.write_text(f"""#!/bin/sh
echo "$1 $2 $3" >>{folder}/steps
[ "$FERRULE_STEP $FERRULE_VM $FERRULE_TO" = "$1 $2 $3" ] || exit 9
fate=$(sed -n "s/^$1 //p" {folder}/fate)
case $fate in
  fail) echo "the hypervisor says no to $1" >&2; exit 1 ;;
  hang) sleep 60 ;;
  moved) exit 3 ;;
esac
case $1 in
  attach-destination) ip -n n2 addr flush dev eth1; ip -n n2 addr add 10.45.1.77/24 dev eth1 ;;
  attach-source) ip -n n2 addr flush dev eth1; ip -n n2 addr add 10.45.1.2/24 dev eth1 ;;
  detach) ip -n n2 addr flush dev eth1 ;;
esac
""")
        self.program.chmod(0o755)
        self.config = self.folder / "vms.json"
        self.config.write_text(json.dumps({"vms": {"guest": {"driver": "script", "host": "n2", "program": str(self.program)}}}))
        self.config.chmod(0o600)
        self.forget()

    def forget(self, **fates: str) -> None:
        """Empties the list of steps, and says what goes wrong next."""
        (self.folder / "steps").write_text("")
        (self.folder / "fate").write_text("".join(f"{step.replace('_', '-')} {fate}\n" for step, fate in fates.items()))

    def steps(self) -> list[str]:
        """What was called."""
        return [line.split()[0] for line in (self.folder / "steps").read_text().splitlines()]

    def words(self, *more: str) -> list[str]:
        return ["migrate", "--config", str(self.config), "--vm", "guest", "--to", "there", *more]


BACK = ["check", "detach", "migrate", "cancel", "attach-source"]
FORWARD = ["check", "detach", "migrate", "attach-destination"]


def script(bed: lane_bed.Bed, folder: str) -> None:
    """The script driver: there, and back after each kind of failure; the job goes on each time."""
    hypervisor, job = Hypervisor(folder), Job(bed, folder)
    try:
        code, said = job.ferrule(*hypervisor.words("--dry-run"))
        check(code == 0 and "possible" in said and hypervisor.steps() == ["check"], said)
        code, said = job.ferrule(*hypervisor.words())
        check(code == 0 and hypervisor.steps() == ["check", *FORWARD], said)
        check("guest runs on there; the job goes on" in said and "post-migration" in said, said)
        for fates, wanted, last in (
            ({"check": "fail"}, ["check"], "the hypervisor says no to check"),
            ({"detach": "fail"}, ["check", "detach", "attach-source"], "runs where it was"),
            ({"migrate": "fail"}, BACK, "runs where it was"),
            ({"migrate": "hang"}, BACK, "the limit is over"),
            ({"migrate": "fail", "cancel": "moved"}, [*BACK[:4], "attach-destination"], "guest runs on there"),
            ({"migrate": "fail", "cancel": "fail"}, [*BACK[:4], "cancel", "cancel"], "nobody knows where guest runs"),
            ({"attach_destination": "fail"}, [*FORWARD, *FORWARD[3:] * 2], "without all of its devices"),
        ):
            hypervisor.forget(**fates)
            if "attach_destination" in fates or fates.get("cancel") == "fail":
                # Without its network the host couldn't be reached again.
                hypervisor.forget(detach="skip", **fates)
                hypervisor.program.write_text(hypervisor.program.read_text().replace("  detach) ip -n n2 addr flush dev eth1 ;;\n", ""))
            code, said = job.ferrule(*hypervisor.words("--limit", "5", "--migrate-limit", "1"))
            check(hypervisor.steps() == wanted and last in said, f"{fates}: {hypervisor.steps()}\n{said}")
            check(code == (0 if fates.get("cancel") == "moved" else 1), f"{fates}: exit code {code}: {said}")
        job.end()
    finally:
        job.kill()


def below(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def deaf(bed: lane_bed.Bed, folder: str) -> None:
    """A migration whose progress nobody reads, or for which there is no room, goes on to its end."""
    hypervisor, job = Hypervisor(folder), Job(bed, folder)
    try:
        for place in ("/dev/full", "a pipe that nobody reads"):
            hypervisor.forget()
            reading, writing = os.pipe()
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe, open("/dev/full", "wb") as full:
                output = full if place == "/dev/full" else pipe
                done = subprocess.run([*bed.prefix("n1"), str(FERRULE), *hypervisor.words()], stdout=output, stderr=output, timeout=patience.WATCHDOG_S)
            check(done.returncode == 0 and hypervisor.steps() == FORWARD, f"to {place}: exit code {done.returncode}, {hypervisor.steps()}")
        job.end()
    finally:
        job.kill()


def aborted(bed: lane_bed.Bed, folder: str) -> None:
    """`--status` and `--abort` reach the controller; a second one is refused; an interrupt undoes, too, and so does the death of the process above it. If the
    controller itself is killed, its program is ended and the job can be resumed; if both are killed, mpiexec resumes it after --hold."""
    hypervisor, job = Hypervisor(folder), Job(bed, folder)
    try:
        code, said = job.ferrule("migrate", "--abort")
        check(code == 1 and "no migration" in said, said)
        for undo in ("abort", "interrupt", "kill"):
            hypervisor.forget(migrate="hang")
            words = [*bed.prefix("n1"), str(FERRULE), *hypervisor.words("--json")]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as controller:
                check(patience.until(lambda: "migrating to there" in job.ferrule("migrate", "--status")[1]), "it doesn't migrate")
                code, said = job.ferrule(*hypervisor.words())
                check(code == 1 and "another migration of this job is under way" in said, said)
                if undo == "abort":
                    code, said = job.ferrule("migrate", "--abort")
                    check(code == 0 and "is being undone" in said, said)
                else:
                    controller.send_signal(signal.SIGINT if undo == "interrupt" else signal.SIGKILL)
                said, _ = controller.communicate(timeout=patience.WATCHDOG_S)
            outcome = json.loads(said)
            check(controller.returncode == (-signal.SIGKILL if undo == "kill" else 1) and outcome["vms"]["guest"]["at"] == "source", said)
            check("aborted" in outcome["text"] and hypervisor.steps() == BACK, f"{said}: {hypervisor.steps()}")
        for both in (False, True):
            hypervisor.forget(migrate="hang")
            with subprocess.Popen([*bed.prefix("n1"), str(FERRULE), *hypervisor.words("--hold", "1.5")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as controller:
                check(patience.until(lambda: "migrate" in hypervisor.steps()), "it doesn't migrate")
                pids = below(controller.pid)
                for pid in [*pids, *([controller.pid] if both else [])]:
                    os.kill(pid, signal.SIGSTOP)
                for pid in [*pids, *([controller.pid] if both else [])]:
                    os.kill(pid, signal.SIGKILL)
                said, _ = controller.communicate(timeout=patience.WATCHDOG_S)
            check("are suspended" in job.ferrule("drain", "--status")[1], "the job isn't suspended")
            subprocess.run(["ip", "-n", "n2", "addr", "add", "10.45.1.2/24", "dev", "eth1"], check=True)
            if both:
                check(patience.until(lambda: "have been resumed" in job.ferrule("drain", "--status")[1]), "mpiexec has not resumed the job")
                subprocess.run(["pkill", "-f", f"^/bin/sh {hypervisor.program}"], check=True)
                subprocess.run(["pkill", "-f", "^sleep 60"], check=True)
            else:
                check(controller.returncode == 1 and "the controller was ended by signal 9" in said, said)
                left = subprocess.run(["pgrep", "-fa", f"{hypervisor.program}|^sleep 60"], capture_output=True, text=True).stdout
                check(not left, f"the driver's program still runs: {left}")
                check(job.ferrule("resume")[0] == 0, "resume")
        hypervisor.forget()
        code, said = job.ferrule(*hypervisor.words())
        check(code == 0 and "guest runs on there" in said, said)
        job.end()
    finally:
        job.kill()


def in_the_way(bed: lane_bed.Bed, folder: str) -> None:
    """Another epoch is refused and left alone; a file that others may write is refused; a VM or destination that isn't described is named."""
    hypervisor, job = Hypervisor(folder), Job(bed, folder)
    try:
        check(job.ferrule("drain", "n1")[0] == 0, "drain")
        code, said = job.ferrule(*hypervisor.words())
        check(code == 1 and "another epoch is not over" in said and hypervisor.steps() == ["check"], said)
        check("are suspended" in job.ferrule("drain", "--status")[1], "somebody else's drain was ended")
        check(job.ferrule("resume")[0] == 0, "resume")
        hypervisor.config.chmod(0o666)
        code, said = job.ferrule(*hypervisor.words())
        check(code == 1 and "only its owner may write it" in said, said)
        hypervisor.config.chmod(0o600)
        code, said = job.ferrule(*hypervisor.words("--vm", "other"))
        check(code == 1 and "describes no virtual machine other" in said, said)
        job.end()
    finally:
        job.kill()


def libvirt(bed: lane_bed.Bed, folder: str) -> None:
    """The libvirt driver calls virsh in the right order with the right words, and finds out where the domain is after a failure."""
    job, place = Job(bed, folder), pathlib.Path(folder)
    (place / "bin").mkdir(exist_ok=True)
    virsh = place / "bin/virsh"
    virsh.write_text(f"""#!/bin/sh
echo "$@" >>{folder}/calls
side=here
[ "$2" = qemu://there ] && side=there
case "$*" in
  *domstate*) cat {folder}/state.$side; exit 0 ;;
  *"migrate --live"*)
    [ -e {folder}/broken ] && {{ echo "error: unable to connect" >&2; exit 1; }}
    echo "shut off" >{folder}/state.here; echo running >{folder}/state.there ;;
  *domjobabort*) echo "error: no job is active" >&2; exit 1 ;;
esac
""")
    virsh.chmod(0o755)
    (place / "nic.xml").write_text("<hostdev/>")
    (place / "vms.json").write_text(json.dumps({"vms": {"n2": {
        "driver": "libvirt", "domain": "dom", "connect": "qemu://here", "devices": [f"{folder}/nic.xml"], "ready": ["true"],
        "destinations": {"there": {"connect": "qemu://there", "options": ["--p2p"]}}}}}))
    (place / "vms.json").chmod(0o600)
    attach = f"attach-device --live --domain dom --file {folder}/nic.xml"
    begin = ["--connect qemu://here domstate --domain dom", "--connect qemu://there uri", f"--connect qemu://here {attach.replace('attach', 'detach')}",
             "--connect qemu://here migrate --live --p2p --domain dom --desturi qemu://there"]
    back = ["--connect qemu://here domjobabort --domain dom", "--connect qemu://here domstate --domain dom", "--connect qemu://there domstate --domain dom",
            f"--connect qemu://here {attach}"]
    os.environ["PATH"] = f"{place}/bin:{os.environ['PATH']}"
    try:
        for is_broken in (True, False):
            (place / "calls").write_text("")
            (place / "state.here").write_text("running\n")
            (place / "state.there").write_text("shut off\n")
            (place / "broken").touch() if is_broken else (place / "broken").unlink()
            code, said = job.ferrule("migrate", "--config", f"{folder}/vms.json", "--vm", "n2", "--to", "there")
            calls = (place / "calls").read_text().splitlines()
            check(calls == begin + (back if is_broken else [f"--connect qemu://there {attach}"]), f"{calls}\n{said}")
            check(code == int(is_broken) and ("unable to connect" if is_broken else "n2 runs on there") in said, said)
        job.end()
    finally:
        os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{place}/bin:")
        job.kill()


def under(load: str) -> Callable[[lane_bed.Bed, str], None]:
    """Twenty moves under one kind of traffic."""
    def case(bed: lane_bed.Bed, folder: str) -> None:
        print(f"  {migrate_loads.to_and_fro(bed, folder, load)}", flush=True)
    return case


NAMESPACES: dict[str, Callable[[lane_bed.Bed, str], None]] = {
    "script": script, "aborted": aborted, "deaf": deaf, "in_the_way": in_the_way, "libvirt": libvirt, **{f"to_and_fro_{load}": under(load) for load in migrate_loads.LOADS},
}


class Guests:
    """A job with ranks on the host and in two guests, which move."""

    def __init__(self, bed: moving.Bed, program: pathlib.Path) -> None:
        self.bed, self.program = bed, program
        self.stop = pathlib.Path("/dev/shm/stop")
        self.config = pathlib.Path("/dev/shm/vms.json")

    def start(self) -> subprocess.Popen[str]:
        """Begins the job; returns when it runs."""
        vm.BUILD.mkdir(parents=True, exist_ok=True)
        words = [str(ROOT / "dist/bin/mpiexec"), "-iface", "bed", "--launcher-exec", vm.launcher(), "-genv", "FERRULE_LISTEN", "eth1", "-hosts", "host,vm1,vm2",
                 "-wdir", "/", "-n", "6", str(self.program), str(self.stop)]
        job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        assert job.stdout
        line = job.stdout.readline()
        check("running" in line, f"the job has not started: {line}{job.communicate()[0] if job.poll() is not None else ''}")
        return job

    def end(self, job: subprocess.Popen[str]) -> str:
        """Stops it; it must have found everything right."""
        self.stop.touch()
        said = job.communicate(timeout=patience.WATCHDOG_S)[0]
        check(job.returncode == 0 and "rounds" in said, f"exit code {job.returncode}: {said[-2000:]}")
        return said.strip().splitlines()[-1]

    def move(self, names: list[str], *more: str) -> tuple[int, str]:
        """`ferrule migrate` of these guests; what it says."""
        vms = [word for name in names for word in ("--vm", name)]
        done = subprocess.run([str(FERRULE), "migrate", "--config", str(self.config), *vms, "--to", "there", *more], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=patience.WATCHDOG_S)
        return done.returncode, done.stdout

    def run(self) -> None:
        """A plan without and with a destination, a migration that fails and goes back, and one there of each guest."""
        names = ["vm1", "vm2"]
        self.bed.config(self.config, names)
        job = self.start()
        try:
            code, said = self.move(["vm1"], "--plan")
            check(code == 1 and "no connection to the monitor" in said, said)
            for name in names:
                self.bed.start_there(name)
            code, said = self.move(names, "--plan")
            check(code == 0 and "possible" in said, said)
            memory = pathlib.Path("/dev/shm/vm1.memory")
            memory.rename("/dev/shm/hidden")
            code, said = self.move(["vm1"])
            check(code == 1 and "vm1 runs where it was; the job goes on" in said, said)
            print(f"back at the source:\n{said}", flush=True)
            pathlib.Path("/dev/shm/hidden").rename(memory)
            for name in names:
                print(f"moving {name}:", flush=True)
                code, said = self.move([name])
                check(code == 0 and f"{name} runs on there; the job goes on" in said, said)
                print(said, flush=True)
                check(self.bed.run(name, "ifconfig eth1").find(f"10.92.0.{moving.number(name, moving.THERE)}") > 0, "the address hasn't changed")
                source = self.bed.guests[name + moving.HERE]
                check(source.wait(timeout=patience.WATCHDOG_S) is not None, "the source's QEMU still runs")
            # Some rounds at the new places.
            time.sleep(SETTLED_S)
            print(f"{self.end(job)}; all right", flush=True)
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()


def inside_guests(folder: str) -> str:
    """What is wrong about guests that move."""
    program = pathlib.Path(folder) / "traffic"
    with moving.Bed([ROOT / "dist/bin/mpiexec", ROOT / "dist/lib/libmpi_abi.so.1", program]) as bed:
        try:
            for name in ("vm1", "vm2"):
                bed.start_here(name)
            print(f"two guests are up after {bed.wait():.1f} s", flush=True)
            Guests(bed, program).run()
        except (Failed, subprocess.SubprocessError, RuntimeError) as error:
            return f"{error}\n{bed.log('vm1a')[-1500:]}"
    return ""


def in_namespaces(word: str, folder: str) -> tuple[int, int]:
    """Cases passed and failed."""
    passed = failed = 0
    for name, case in ((name, case) for name, case in NAMESPACES.items() if word in name):
        try:
            with lane_bed.Bed(hosts=2, mbit=10_000, classes=False, rails=2) as bed:
                case(bed, folder)
            passed += 1
            print(f"ok: {name}", flush=True)
        except (Failed, subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED: {name}: {error}", flush=True)
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--guests", action="store_true", help="virtual machines")
    options = parser.parse_args()
    bed = guests if options.guests else lane_bed
    if not bed.is_inside():
        if why := bed.unavailable():
            print(f"migrate: 0 passed, 0 failed, 1 skipped: {why}")
            return 0
        return bed.enter()
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        for program in ("traffic", "loads"):
            subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", "-o", f"{folder}/{program}", str(ROOT / f"tests/c/migration/{program}.c"), "-lm"], check=True)
        if options.guests:
            wrong = inside_guests(folder)
            passed, failed = int(not wrong), int(bool(wrong))
            print(f"FAILED: {wrong}" if wrong else "ok: guests", flush=True)
        else:
            passed, failed = in_namespaces(options.k, folder)
    print(f"migrate: {passed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
