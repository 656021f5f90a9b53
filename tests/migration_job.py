"""Jobs on two hosts in namespaces that are drained, moved and resumed: what the tests of migrations share."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/lanes")]
import patience

import lane_bed

DIST = ROOT / "dist"


class Failed(AssertionError):
    """A case has not gone as it must."""


def check(is_so: bool, what: str) -> None:
    if not is_so:
        raise Failed(what)


class Job:
    """A program of tests/c/migration with two ranks on each host, and what is done to it."""

    def __init__(self, bed: lane_bed.Bed, folder: str, *more: str, program: str = "traffic", **settings: str) -> None:
        self.bed, self.stop, self.moves = bed, pathlib.Path(folder) / "stop", 0
        self.stop.unlink(missing_ok=True)
        self.addresses = {name: bed.address(name, 1) for name in bed.names}
        env = dict(os.environ, FERRULE_LOCALITY="node", **{f"FERRULE_{name}": value for name, value in settings.items()})
        words = ["-genv", "FERRULE_LISTEN", "eth1", "-n", "4", *bed.job_options(2), f"{folder}/{program}", str(self.stop), *more]
        self.process = subprocess.Popen([*bed.prefix("n1"), str(DIST / "bin/mpiexec"), *words], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        check("running" in line, f"the job has not started: {line}{self.said() if self.process.poll() is not None else ''}")

    def said(self) -> str:
        """What it says until it ends."""
        return self.process.communicate(timeout=patience.WATCHDOG_S)[0]

    def ferrule(self, *words: str) -> tuple[int, str]:
        """`ferrule WORDS`, and what it says."""
        done = subprocess.run([*self.bed.prefix("n1"), str(DIST / "bin/ferrule"), *words], text=True, timeout=patience.WATCHDOG_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def renumber(self, name: str) -> None:
        """The host gets another address for its ranks."""
        self.moves += 1
        new = f"10.45.1.{20 + self.moves}"
        ip = ["ip", "-n", name, "addr"]
        subprocess.run([*ip, "del", f"{self.addresses[name]}/24", "dev", "eth1"], check=True)
        subprocess.run([*ip, "add", f"{new}/24", "dev", "eth1"], check=True)
        self.addresses[name] = new

    def move(self, name: str) -> dict[str, int]:
        """Drains a host, renumbers it and resumes; the phases' times in microseconds."""
        code, said = self.ferrule("drain", name, "--json")
        check(code == 0, f"drain {name}: {said}")
        left = self.connections(name, self.addresses[name])
        check(not left, f"{name} is drained and has connections: {left}")
        self.renumber(name)
        code, said = self.ferrule("resume", "--json")
        check(code == 0, f"resume {name}: {said}")
        return dict(json.loads(said)["phases_us"])

    def connections(self, name: str, address: str) -> str:
        """TCP connections and listeners of a host at this address."""
        listed = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
        number = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
        # 06 is TIME_WAIT, which nobody holds open any more.
        lines = [line for line in listed.splitlines() if f" {number}:" in line and line.split()[3] in ("01", "0A", "08")]
        return "\n".join(lines)

    def end(self, spare: int = 0) -> str:
        """Stops it; it must have found everything right, and a rank may have so many descriptors more than before."""
        self.stop.touch()
        said = self.said()
        check(self.process.returncode == 0, f"exit code {self.process.returncode}: {said[-2000:]}")
        found = re.search(r"descriptors more at the end (-?\d+)", said)
        check(found is not None and int(found[1]) <= spare, f"descriptors are left: {said[-500:]}")
        return said

    def mpiexec(self) -> int:
        """The process of mpiexec: nsenter has become it."""
        return self.process.pid

    def kill(self) -> None:
        """Whatever has happened to it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
