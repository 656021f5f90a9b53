"""Runs one job with a watchdog that tells a job that hangs from one that takes long: a benchmark prints a row now and then."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import tempfile
import threading
import time

GRACE_S = 5


@dataclasses.dataclass(frozen=True)
class Done:
    """How a job went; `error` is empty when it went well."""

    text: str
    elapsed_s: float
    error: str


def run(command: list[str], env: dict[str, str], limit_s: float, silence_s: float) -> Done:
    """Runs `command` until it ends, for `limit_s` seconds at most, and no longer than `silence_s` without a word."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        start = time.monotonic()
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        ended = threading.Event()
        why: list[str] = []
        watchdog = threading.Thread(target=watch, args=(process, out.fileno(), limit_s, silence_s, ended, why))
        watchdog.start()
        # Without a time-out: with one, Python looks only every 50 ms.
        code = process.wait()
        elapsed = time.monotonic() - start
        ended.set()
        watchdog.join()
        out.seek(0)
        text = out.read()
    if code == 0 and not why:
        return Done(text, elapsed, "")
    said = " ".join(text.split())[-300:] or "no output"
    return Done(text, elapsed, f"{why[0] if why else f'exit code {code}'}: {said}")


def watch(process: subprocess.Popen, fd: int, limit_s: float, silence_s: float, ended: threading.Event, why: list[str]) -> None:
    """Ends the process's session when one of the limits is over."""
    start = spoke = time.monotonic()
    size = 0
    while not ended.wait(0.25):
        now = time.monotonic()
        if (length := os.fstat(fd).st_size) != size:
            size, spoke = length, now
        if now - start > limit_s or now - spoke > silence_s:
            why.append(f"no end after {limit_s:.0f} s" if now - start > limit_s else f"silent for {silence_s:.0f} s")
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    return
                if ended.wait(GRACE_S):
                    return
            return
