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
#: How often a run is made until the processors are where they were when the plan began.
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


def run_at(place: str, run: Callable[[], tuple[list[dict], str]]) -> tuple[list[dict], str, bool]:
    """Rows and error of `run`, made again if the host has moved the processors; last: whether they were still elsewhere at the last try."""
    for _ in range(TRIES):
        rows, error = run()
        elsewhere = now() != place
        if error or not elsewhere:
            break
    return rows, error, elsewhere
