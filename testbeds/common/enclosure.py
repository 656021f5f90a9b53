"""A command in namespaces of its own, which end with this process however it ends: what all testbeds stand on.

Outside, :func:`run` starts it. Inside, its first process calls :func:`furnish` and :func:`be_first_process`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

FLAGS = ["--mount", "--propagation", "private", "--net", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL"]


def run(command: list[str], env: dict[str, str], more: Sequence[str] = (), pass_fds: Sequence[int] = ()) -> int:
    """Runs `command` as process 1 of own mount, net and pid namespaces, and those that `more` asks of unshare; returns its exit code.

    Descriptors in `pass_fds` stay open there as long as anything inside lives.
    """
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", *FLAGS, *more, *command]
    child = subprocess.Popen(words, env=env, pass_fds=pass_fds)

    def stop(number: int, _frame: object) -> None:
        child.kill()
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue  # The terminal has told the process inside as well; it says how this ends.
    finally:
        # Not in the handler: it interrupts a wait, whose lock it would wait for.
        child.wait()


def call(*words: str) -> None:
    """Runs a command that has to succeed; RuntimeError with its last words otherwise."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def furnish() -> None:
    """Gives this world a /run and a /dev/shm of its own, both empty, and a loopback interface that is up."""
    for folder in ("/run", "/dev/shm"):
        call("mount", "--no-mtab", "-t", "tmpfs", "-o", "mode=1777", "world", folder)
    os.chmod("/run", 0o755)
    call("ip", "link", "set", "lo", "up")


def be_first_process(command: Sequence[str]) -> int:
    """Runs `command` as a child of process 1 and reaps what others leave to it; returns the command's exit code."""
    child = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
