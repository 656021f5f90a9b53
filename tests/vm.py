#!/usr/bin/env python3
"""Ranks in virtual machines of one host: they find each other through an ivshmem device and use its memory, or TCP where they can't.

    tests/vm.py [-k WORD] [--measure]      runs the cases whose name has WORD in it; or prints latency and bandwidth of both ways

Three guests (testbeds/vm), two of them with the device, run real jobs: the agents and libmpi_abi are those in dist/. Needs root and QEMU, which
examples/prepare.sh installs; else all is skipped with the reason.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "testbeds/vm"))
import guests

MPIEXEC = ROOT / "dist/bin/mpiexec"
BUILD = ROOT / "build/vm/bin"
PROGRAMS = {"traffic": "tests/c/containers/traffic.c", "groups": "tests/c/vm/groups.c"}
WATCHDOG_S = 120
TOTAL_S = 300
WHY_LINE = re.compile(r"why:\s+(\d+) → (\d+)\s+\S+\s+(\S+)(.*)")


def build() -> dict[str, pathlib.Path]:
    """The ranks' programs."""
    BUILD.mkdir(parents=True, exist_ok=True)
    made = {name: BUILD / name for name in PROGRAMS}
    for name, source in PROGRAMS.items():
        command = [str(ROOT / "dist/bin/mpicc"), "-O1", "-I", str(ROOT / "tests/c"), str(ROOT / source), "-o", str(made[name])]
        subprocess.run(command, check=True)
    return made


def launcher() -> str:
    """A script in ssh's place: guests by their door; `host` is this machine, which sees the file."""
    script = BUILD / "launcher.sh"
    script.write_text(f"""#!/bin/sh
host=$1
shift
case $host in
  host) FERRULE_IVSHMEM={guests.REGION} exec "$@" ;;
  vm*) exec {sys.executable} {guests.HERE}/remote.py 10.91.0.$((10 + ${{host#vm}})) "$@" ;;
esac
""")
    script.chmod(0o755)
    return f"{script} {{host}} {{command}}"


class Tests:
    """Guests, and jobs in them."""

    def __init__(self, bed: guests.Bed, programs: dict[str, pathlib.Path]) -> None:
        self.bed = bed
        self.programs = programs

    def start(self, hosts: str, ranks: int, words: list[str], **env: str) -> subprocess.Popen[str]:
        """Begins a job."""
        command = [str(MPIEXEC), "--timeout", str(WATCHDOG_S), "--launcher-exec", launcher(), "-hosts", hosts, "-wdir", "/", "-n", str(ranks)]
        for name, value in env.items():
            command += ["-genv", f"FERRULE_{name}", value]
        command += [str(self.programs[words[0]]), *words[1:]]
        return subprocess.Popen(command, env=dict(os.environ, FERRULE_WHY="1"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", start_new_session=True)

    def job(self, hosts: str, ranks: int, words: list[str], **env: str) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(hosts, ranks, words, **env)
        try:
            text = process.communicate(timeout=WATCHDOG_S + 20)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
            return -1, f"no end: {text}"
        return process.returncode, text

    def expect(self, hosts: str, ranks: int, words: list[str], wanted: Callable[[int, int], str], reason: str = "", **env: str) -> str:
        """What is wrong about a job whose ranks a and b should talk by `wanted(a, b)`."""
        code, text = self.job(hosts, ranks, words, **env)
        if code:
            return f"exit code {code}: {text[-3000:]}"
        pairs = {(int(a), int(b)): (channel, rest) for a, b, channel, rest in WHY_LINE.findall(text)}
        for a in range(ranks):
            for b in range(ranks):
                channel = pairs.get((a, b), ("nothing", ""))[0].split("+")[0]
                if a != b and channel != wanted(a, b):
                    return f"{a} → {b} by {channel} instead of {wanted(a, b)}:\n{text[-3000:]}"
        if reason and not any(reason in rest for _, rest in pairs.values()):
            return f"nobody gives the reason “{reason}”:\n{text[-3000:]}"
        return ""

    def two_guests(self) -> str:
        """Messages of all sizes and collectives; nothing stays owned."""
        wrong = self.expect("vm1,vm2", 2, ["traffic", "small", "stream", "coll"], lambda a, b: "ivshmem", "same host, other VM")
        return wrong or self.owned()

    def owned(self) -> str:
        """Which blocks of the region somebody still has."""
        head = guests.REGION.read_bytes()[:4096 + 1024 * 16]
        left = [i for i in range(1024) if any(head[4096 + 16 * i:4104 + 16 * i])]
        return f"blocks {left} still have owners" if left else ""

    def guests_and_host(self) -> str:
        """Two ranks in each guest, and two on the host itself."""
        return self.expect("vm1,vm2,host", 6, ["groups"], lambda a, b: "shm" if a % 3 == b % 3 else "ivshmem")

    def without_device(self) -> str:
        """A guest that doesn't have it."""
        return self.expect("vm1,vm2,vm3", 3, ["groups"], lambda a, b: "tcp" if 2 in (a, b) else "ivshmem")

    def switched_off(self) -> str:
        """By the setting."""
        return self.expect("vm1,vm2", 2, ["groups"], lambda a, b: "tcp", IVSHMEM="off")

    def woken(self) -> str:
        """A rank that sleeps is woken by a message: a datagram rings where memory is all that is shared."""
        return self.expect("vm1,vm2", 2, ["groups", "bell"], lambda a, b: "ivshmem", FILE_SLEEP_US="1000000", SLEEP_MS="1000")

    def garbage(self) -> str:
        """A region with something else in it is left alone."""
        with open(guests.REGION, "r+b") as file:
            file.write(b"\xa5" * (1 << 20))
        try:
            wrong = self.expect("vm1,vm2", 2, ["groups"], lambda a, b: "tcp", "something else is in it")
            untouched = guests.REGION.read_bytes()[:1 << 20] == b"\xa5" * (1 << 20)
            return wrong or ("" if untouched else "somebody has written into it")
        finally:
            self.bed.clear_region()

    def killed(self, ranks: int, kill: Callable[[], object], name: str) -> str:
        """`kill` while ranks wait for each other: mpiexec says who it was."""
        process = self.start("vm1,vm2", ranks, ["groups", "wait"], WHY="0")
        assert process.stdout
        line = ""
        try:
            while "waiting" not in line:
                line = process.stdout.readline()
                if not line:
                    return "the job ended early"
            kill()
            text = process.communicate(timeout=WATCHDOG_S + 20)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end: {process.communicate()[0]}"
        return "" if process.returncode and re.search(name, text) else f"exit code {process.returncode}, no “{name}”: {text}"

    def killed_rank(self) -> str:
        """A rank."""
        pids = "for p in /proc/[0-9]*; do grep -qs FERRULE_RANK=1 $p/environ && kill -9 ${p#/proc/}; done; echo done"
        return self.killed(2, lambda: self.bed.run("vm2", pids), r"rank 1 .*vm2.*(signal 9|SIGKILL)")

    def killed_guest(self) -> str:
        """A whole guest. Jobs that last for longer than the dead are watched take back what its ranks had."""
        wrong = self.killed(2, lambda: self.bed.kill("vm2"), "vm2")
        if wrong:
            return wrong
        if not self.owned():
            return "the dead guest has given its room back, which it couldn't"
        deadline = time.monotonic() + 180
        while (left := self.owned()) and time.monotonic() < deadline:
            wrong = self.expect("vm1,host", 2, ["groups", "long"], lambda a, b: "ivshmem", IVSHMEM_LEASE="5")
            if wrong:
                return wrong
        return left

    def measure(self) -> None:
        """Prints what both ways cost."""
        for turn in range(3):
            for channels in ("ivshmem", "tcp"):
                code, text = self.job("vm1,vm2", 2, ["traffic", "small", "stream"], WHY="0", CHANNELS=channels)
                said = next((line for line in text.splitlines() if line.startswith("traffic:")), text)
                print(f"{turn} {channels}: exit code {code}; {said}", flush=True)


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if not guests.is_inside():
        reason = guests.unavailable()
        if reason:
            print(f"vm: 0 passed, 0 failed, 1 skipped: {reason}")
            return 0
        return guests.enter()
    signal.alarm(TOTAL_S)
    programs = build()
    with guests.Bed([MPIEXEC, ROOT / "dist/lib/libmpi_abi.so.1", *programs.values()]) as bed:
        bed.start("vm1")
        bed.start("vm2")
        if not options.measure:
            bed.start("vm3", region=False)
        print(f"guests are up after {bed.wait():.1f} s", flush=True)
        tests = Tests(bed, programs)
        if options.measure:
            tests.measure()
            return 0
        cases = {
            "two guests": tests.two_guests,
            "guests and their host": tests.guests_and_host,
            "one without the device": tests.without_device,
            "switched off": tests.switched_off,
            "woken by a message": tests.woken,
            "garbage in the region": tests.garbage,
            "a killed rank": tests.killed_rank,
            "a killed guest": tests.killed_guest,
        }
        passed = failed = 0
        for name, run in cases.items():
            if options.k not in name:
                continue
            begin = time.monotonic()
            wrong = run()
            failed += bool(wrong)
            passed += not wrong
            print(f"{'FAIL' if wrong else 'ok'}    {name} ({time.monotonic() - begin:.1f} s){': ' + wrong if wrong else ''}", flush=True)
        print(f"vm: {passed} passed, {failed} failed, 0 skipped")
        return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
