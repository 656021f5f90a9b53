"""Ferrule's jobs on a standing fabric: mpiexec runs on the first host, its node agents on the others, so that all of a job's bytes cross the switches.

Ranks of one host share memory; hosts are told apart by FERRULE_LOCALITY=node, since one kernel runs them all.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from standing import ROOT

import fabric as ovs

DIST = ROOT / "dist"
PROGRAMS = ROOT / "build/interconnect-programs"


class JobError(RuntimeError):
    """A job failed; the message has its output."""


@dataclass(frozen=True)
class Outcome:
    """What a job printed, the numbers of its RESULT line, and the bytes that each link carried meanwhile, by (from, to)."""

    text: str
    numbers: Mapping[str, float]
    link_bytes: Mapping[tuple[str, str], int]

    def hottest(self, switches: Mapping[str, int]) -> tuple[tuple[str, str], int]:
        """The link between switches that carried most, and how much."""
        inner = {link: count for link, count in self.link_bytes.items() if link[0] in switches and link[1] in switches}
        return max(inner.items(), key=lambda item: item[1])


def built(source: Path) -> Path:
    """The program made of a C file by mpicc; anew when the file or the library has changed."""
    program = PROGRAMS / source.stem
    newest = max(source.stat().st_mtime, (DIST / "include/mpi.h").stat().st_mtime)
    if not program.exists() or program.stat().st_mtime < newest:
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        subprocess.run([DIST / "bin/mpicc", "-O2", "-o", program, source, "-lm"], check=True)
    return program


def placed(hosts: Sequence[str]) -> list[str]:
    """Options of mpiexec for the host of each rank: the hosts with their ranks, filled one after the other or in turn. Other orders are refused."""
    order = list(dict.fromkeys(hosts))
    slots = {host: hosts.count(host) for host in order}
    listed = ["--host", ",".join(f"{host}:{count}" for host, count in slots.items())]
    if list(hosts) == [host for host in order for _ in range(slots[host])]:
        return [*listed, "--map-by", "slot"]
    if list(hosts) == [host for turn in range(max(slots.values())) for host in order if turn < slots[host]]:
        return [*listed, "--map-by", "node"]
    raise ValueError("neither block nor cyclic")


def command(fabric: ovs.Fabric, hosts: Sequence[str], program: Sequence[str | Path], options: Sequence[str] = ()) -> list[str]:
    """mpiexec's command line for a job with one rank on each of ``hosts``."""
    enter = f"nsenter --net=/run/netns/{fabric.switch_netns}-{{host}} {{command}}"
    words = [str(DIST / "bin/mpiexec"), "--launcher-exec", enter, "--set", "LOCALITY=node", "-n", str(len(hosts)), *placed(hosts), *options]
    return fabric.command_in(hosts[0], *words, *map(str, program))


def ran(fabric: ovs.Fabric, hosts: Sequence[str], program: Sequence[str | Path], options: Sequence[str] = (), limit_s: float = 300) -> Outcome:
    """Runs a job to its end. Raises `JobError` when it fails or takes longer than ``limit_s``."""
    before = fabric.counters()
    process = subprocess.Popen(command(fabric, hosts, program, options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise JobError(f"not over within {limit_s} s:\n{text[-3000:]}") from None
        raise
    if process.returncode:
        raise JobError(f"exit code {process.returncode}:\n{text[-3000:]}")
    after = fabric.counters()
    found = re.search(r"^RESULT \S+ (.*)$", text, re.MULTILINE)
    numbers = {name: float(value) for name, value in re.findall(r"(\w+)=([-+.\deE]+)", found.group(1))} if found else {}
    return Outcome(text, numbers, {link: after[link] - before[link] for link in after})
