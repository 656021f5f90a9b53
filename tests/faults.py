#!/usr/bin/env python3
"""Ranks die at random moments of every kind of operation; the survivors revoke, shrink, agree and finish with right results (tests/c/faults/recover.c).

Each moment is a job of its own with another kind, number of ranks, number of deaths and seed, every second one on two nodes whose ranks use TCP between them.
After each: the job has ended by itself with an exit code that isn't 0, the survivors have said that all is right, and no process, file, socket or object in
/dev/shm is left.

Usage: tests/faults.py [--moments 100] [--seed N] [--kind WORD] [--lib ferrule|mpich-abi] [-v]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import patience

import run as runner

ROOT = runner.ROOT
PROGRAM = "faults/recover"
KINDS = ["ring", "collective", "nonblocking", "any_source", "one_sided", "files", "create", "agree", "shrink"]
#: Until nothing is left after mpiexec has ended.
END_S = 5.0


def one_moment(lib: runner.Library, words: list[str], launch: list[str], settings: dict[str, str]) -> str:
    """Runs a job in which ranks die; what is wrong, or nothing."""
    mark = uuid.uuid4().hex
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="ff-"))
    shm = runner.shm_objects()
    env = dict(os.environ, LD_LIBRARY_PATH=str(lib.lib), TMPDIR=str(tmp), **settings)
    env[runner.MARKER] = mark
    command = [*lib.launch, "--continue-on-failure", *launch, str(ROOT / "build" / lib.programs / PROGRAM), *words]
    complaint = ""
    with open(tmp / "out", "w+") as out:
        process = subprocess.Popen(command, env=env, cwd=tmp, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(timeout=patience.WATCHDOG_S)
        except subprocess.TimeoutExpired:
            complaint = "the job doesn't end"

        def others() -> list[int]:
            return [pid for pid in runner.marked_processes(mark) if pid != process.pid]

        if not complaint:
            patience.until(lambda: not others(), END_S, promise=True)
        left = others()
        if left and not complaint:
            complaint = f"processes are left: {left}"
        if complaint:
            for pid in [process.pid, *left]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        out.seek(0)
        text = out.read()
    if not complaint and process.returncode == 0:
        complaint = "exit code 0 although ranks have died"
    if not complaint and text.count("the survivors agree") != 1:
        complaint = "the survivors have not said that all is right"
    complaint = complaint or runner.remains(process.pid, tmp, shm)
    shutil.rmtree(tmp, ignore_errors=True)
    return complaint and f"{complaint}\n{' '.join(command)}\n{text[-2500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--lib", default="ferrule", choices=["ferrule", "mpich-abi"])
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    libs = runner.libraries()
    lib = libs[options.lib]
    broken = runner.compile_all({PROGRAM}, lib, 1)
    if broken:
        print(broken)
        return 1
    print(f"faults: {options.moments} moments, seed {options.seed}")
    rng = random.Random(options.seed)
    failed = 0
    for moment in range(options.moments):
        kind = options.kind or KINDS[moment % len(KINDS)]
        ranks = rng.randint(2, 6)
        words = [kind, str(rng.randint(1, ranks - 1)), str(rng.randrange(1 << 31))]
        launch, settings = ["-n", str(ranks)], {}
        if moment // len(KINDS) % 2:
            half = ranks - ranks // 2
            launch += ["--launcher", "fork", "-hosts", f"a:{half},b:{ranks - half}"]
            settings = {"FERRULE_LOCALITY": "node"}
        complaint = one_moment(lib, words, launch, settings)
        failed += complaint != ""
        if complaint or options.verbose:
            print(f"{'FAIL' if complaint else 'ok  '} moment {moment}: {' '.join(words)}, {ranks} ranks{', two nodes' if settings else ''} {complaint}", flush=True)
    print(f"faults: {options.moments - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
