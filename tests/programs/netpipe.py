#!/usr/bin/env python3
"""NetPIPE (Debian source package `netpipe`): two ranks, message sizes up to 64 KiB with its own check of the data, then its measurement of one size after
the other, also over TCP. What it measures is not looked at.

Usage: tests/programs/netpipe.py
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import jobs
import packages


def build(source: pathlib.Path) -> pathlib.Path:
    dist = pathlib.Path(os.environ.get("SUITES_DIST", jobs.ROOT / "dist"))
    program = packages.WORK / "netpipe/NPmpi"
    subprocess.run([str(dist / "bin/mpicc"), "-O1", "-w", "-std=gnu89", "-DMPI", "-I", str(source / "src"), str(source / "src/netpipe.c"),
                    str(source / "src/mpi.c"), "-o", str(program)], check=True)
    return program


def main() -> int:
    try:
        source = packages.unpacked("netpipe")
    except packages.Unavailable as error:
        print(f"skip  netpipe: {error}\nnetpipe: 0 passed, 0 failed, 1 skipped")
        return 0
    program = str(build(source))
    failed, cases = 0, [
        ("integrity", ["-i"], {}), ("integrity over tcp", ["-i"], {"FERRULE_CHANNELS": "tcp"}),
        ("ping-pong", [], {}), ("one way", ["-s"], {}), ("both ways", ["-2", "-a"], {}), ("pre-posted", ["-a"], {}),
    ]
    for name, words, env in cases:
        # -n: repetitions; without it, it measures how many make up for its clock.
        result = jobs.mpiexec(2, [program, "-l", "1", "-u", "65536", "-n", "20", "-o", "np.out", *words], 600, env)
        wrong = "Integrity check failed" in result.text
        ok = result.code == 0 and not result.left and not wrong and "49153 bytes" in result.text
        failed += not ok
        print(f"{'pass' if ok else 'FAIL'}  netpipe {name}: {result.ending}", flush=True)
        if not ok:
            print("      " + (result.left + result.text)[-2000:].replace("\n", "\n      "), flush=True)
    print(f"netpipe: {len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
