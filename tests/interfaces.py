#!/usr/bin/env python3
"""Addresses that lead nowhere: two hosts (network namespaces) that both have bridges whose packets vanish, besides the wire between them.

The bridges' addresses sort before the wire's, so that agents and ranks try them first. The job must run all the same, and the log must name
what was skipped. What the bridges cost is measured and printed, not asserted.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETNS = ROOT / "testbeds/netns"
BRIDGES = 3
REPEATS = 3
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = MPI_Wtime();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d first %.3f\n", sum, MPI_Wtime() - start);
    MPI_Finalize();
    return 0;
}
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def add_bridges(prefix: str, addresses: list[str]) -> None:
    """On each host the same subnets, as container engines make them; nothing of one host's reaches the other's. The wire comes last."""
    ip("-n", f"{prefix}-1", "link", "delete", "eth0")
    for side in (1, 2):
        for number in range(BRIDGES):
            name = f"br{number}"
            ip("-n", f"{prefix}-{side}", "link", "add", name, "type", "bridge")
            ip("-n", f"{prefix}-{side}", "addr", "add", f"10.9.{number}.{side}/24", "dev", name)
            ip("-n", f"{prefix}-{side}", "link", "set", name, "up")
            # A neighbour that is said to be there: packets leave and are lost without any error.
            ip("-n", f"{prefix}-{side}", "neigh", "add", f"10.9.{number}.{3 - side}", "lladdr", "02:00:00:00:00:01", "dev", name, "nud", "permanent")
    ip("link", "add", "eth0", "netns", f"{prefix}-1", "type", "veth", "peer", "name", "eth0", "netns", f"{prefix}-2")
    for side in (1, 2):
        ip("-n", f"{prefix}-{side}", "addr", "add", f"{addresses[side - 1]}/24", "dev", "eth0")
        ip("-n", f"{prefix}-{side}", "link", "set", "eth0", "up")


def run(prefix: str, program: str) -> tuple[float, float, str]:
    """Seconds of the job, seconds of the first exchange, the log."""
    template = "ip netns exec {host} env FERRULE_LOG=info {command}"
    command = ["ip", "netns", "exec", f"{prefix}-1", str(ROOT / "dist/bin/mpiexec"), "--set", "LOG=info", "--set", "LOCALITY=off",
               "--launcher-exec", template, "-hosts", f"{prefix}-1,{prefix}-2", "-n", "2", program]
    start = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    took = time.monotonic() - start
    found = re.search(r"sum 1 first (\S+)", done.stdout)
    assert done.returncode == 0 and found, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return took, float(found[1]), done.stderr


def main() -> int:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode:
        print("SKIP: this machine doesn't let us make network namespaces")
        return 0
    prefix = f"fi{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        source, program = pathlib.Path(folder, "first.c"), str(pathlib.Path(folder, "first"))
        source.write_text(PROGRAM)
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-o", program, str(source)], check=True)
        try:
            made = subprocess.run([str(NETNS / "create.sh"), prefix], check=True, stdout=subprocess.PIPE, text=True)
            addresses = [line.split()[1] for line in made.stdout.splitlines()]
            plain = [run(prefix, program) for _ in range(REPEATS)]
            add_bridges(prefix, addresses)
            bridged = [run(prefix, program) for _ in range(REPEATS)]
        finally:
            subprocess.run([str(NETNS / "remove.sh"), prefix], check=False)
    for _, _, log in bridged:
        for number in range(BRIDGES):
            assert f"10.9.{number}.1" in log, f"the log doesn't name the bridge 10.9.{number}.1:\n{log}"
        assert "reached the parent at" in log and "reached rank" in log, log
    job = min(one[0] for one in bridged) - min(one[0] for one in plain)
    first = min(one[1] for one in bridged) - min(one[1] for one in plain)
    print(f"{BRIDGES} bridges that lead nowhere: job {job * 1e3:+.0f} ms, first exchange {first * 1e3:+.0f} ms")
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
