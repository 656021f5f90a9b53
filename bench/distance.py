"""How far apart the machine's first two processors are, as `bench/raw distance` tells.

The host of a virtual machine moves its processors about: they share a core, a cache, or neither, and all that two processes do through memory
takes up to eight times as long. Figures are only comparable at one distance.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import peers

#: Latencies in µs below which two processors share so much.
SHARED = ((0.045, "a core"), (0.12, "a cache"))
#: How often a run is made until the processors have stayed where they were.
TRIES = 3


def raw() -> str:
    """The program that measures the machine's own limits, compiled if need be."""
    source, target = peers.ROOT / "bench/raw.c", peers.ROOT / "build/bench/raw"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-std=gnu11", "-o", str(target), str(source)], check=True)
    return str(target)


def now() -> str:
    """What the two processors share at the moment; nothing is known on a machine with one processor."""
    done = subprocess.run([raw(), "distance"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        return "unknown"
    latency_us = json.loads(done.stdout)["value"]
    return next((what for limit, what in SHARED if latency_us < limit), "nothing")


def run_still(run: Callable[[], tuple[list[dict], str]], where: Callable[[], str] = now) -> tuple[list[dict], str, str, int]:
    """Rows and error of a `run` during which the processors stayed where they were, where that was, and how many runs were dropped because they moved.
    After TRIES of these there are no rows."""
    place = where()
    for moves in range(TRIES):
        rows, error = run()
        after = where()
        if error or after == place:
            return rows, error, after, moves
        place = after
    return [], "", place, TRIES
