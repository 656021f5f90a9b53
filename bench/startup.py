#!/usr/bin/env python3
"""Runs `ferrule startup` with the peers beside it, then writes docs/performance/startup.{json,md} and the plots.

Schemes run on hosts that are emulated by network namespaces (root), launchers on this host. Needs dist/ and PyPI for the peers. The page says of how many looks at the processors (every
LOOK_S seconds) found them how far apart: which point was taken when isn't known.

Usage: bench/startup.py [--quick] [--peers mpich,openmpi,impi] [--budget SECONDS] [--out docs/performance]
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import distance
import peers as registry
import results
import startup_plots

ROOT = registry.ROOT
FULL = ["--ranks", "2,4,8,16,32,64,128", "--repeats", "3", "--local-ranks", "1,2,4,8,16,32,64,128", "--sleepers", "1024",
        "--session-ms", "0,100", "--connect", "demand,all"]
QUICK = ["--ranks", "2,4,8,16,32", "--repeats", "3", "--local-ranks", "1,4,16,64", "--sleepers", "256",
         "--session-ms", "0", "--connect", "demand"]
#: How often it is looked where the processors are, in seconds.
LOOK_S = 20
#: Seconds after which no new point is begun.
BUDGET_S = {False: 560, True: 170}


def peer_argument(peer: registry.Peer, program: pathlib.Path) -> str:
    """`NAME=COMMAND` for ferrule startup: the peer's command with its environment, and {n} for the number of ranks."""
    before = os.environ
    changed = {k: v for k, v in peer.environment("shm").items() if before.get(k) != v}
    words = ["env", *(f"{k}={v}" for k, v in sorted(changed.items()))]
    # More ranks than processors, so that nothing gets bound.
    command = peer.command(1 << 16, [])
    words += [word if word != str(1 << 16) else "{n}" for word in command]
    return f"{peer.title}={shlex.join([*words, str(program)])}"


def prepare(names: list[str]) -> list[str]:
    """Installs the peers and compiles the empty program for each; returns the options for ferrule startup."""
    options: list[str] = []
    for name in names:
        try:
            registry.install([name])
            peer = registry.peers([name])[0]
            program = ROOT / "build/bench" / ("abi" if peer.standard_abi else peer.name) / "empty"
            if not program.exists():
                peer.compile(ROOT / "bench/empty.c", program)
            options += ["--peer", peer_argument(peer, program)]
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return options


def run(command: list[str]) -> tuple[int, dict[str, int]]:
    """Exit code, and how often the processors were found at each place meanwhile."""
    places = collections.Counter([distance.now()])
    process = subprocess.Popen(command)
    while True:
        try:
            code = process.wait(LOOK_S)
            return code, dict(places + collections.Counter([distance.now()]))
        except subprocess.TimeoutExpired:
            places[distance.now()] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points; done in 4 minutes")
    parser.add_argument("--peers", default="mpich,openmpi,impi")
    parser.add_argument("--budget", type=int, help="seconds after which no new point is begun")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance")
    options, more = parser.parse_known_args()
    peers = prepare([name for name in options.peers.split(",") if name])
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "startup.json"
    command = [str(ROOT / "dist/bin/ferrule"), "startup", *(QUICK if options.quick else FULL), *peers, "--predict", "--timeout", "60",
               "--budget", str(options.budget or BUDGET_S[options.quick]), "--out", str(target), *more]
    begin = time.time()
    code, places = run(command)
    if target.exists() and target.stat().st_mtime >= begin:
        # Where this tree lies is nobody's business.
        data = json.loads(target.read_text().replace(f"{ROOT}/", ""))
        target.write_text(json.dumps({**data, "revision": results.revision(), "places": places}, indent=2) + "\n")
        startup_plots.write(target)
    return code


if __name__ == "__main__":
    sys.exit(main())
