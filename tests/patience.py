"""How long tests wait, on a machine that may be busy with something else.

What nobody has promised gets a watchdog that only a hang can reach (`WATCHDOG_S`). A promise, such as "nothing is left after 5 s", is one for
a machine that has time for the job: its limit is stretched by how many processes share a processor while the test waits.
"""

from __future__ import annotations

import collections.abc
import os
import pathlib
import re
import time

WATCHDOG_S = 120.0


def stretch() -> float:
    """Processes that want a processor, for each that there is; 1 on a machine that is not busy."""
    running = re.search(r"^procs_running (\d+)", pathlib.Path("/proc/stat").read_text(), re.M)
    now = int(running[1]) - 1 if running else 0
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)), now / len(os.sched_getaffinity(0)))


def until(done: collections.abc.Callable[[], object], seconds: float = WATCHDOG_S, promise: bool = False, pause_s: float = 0.02) -> bool:
    """Waits until `done()`; false if that did not come in time."""
    begin = time.monotonic()
    while not done():
        if time.monotonic() - begin > seconds * (stretch() if promise else 1):
            return bool(done())
        time.sleep(pause_s)
    return True
