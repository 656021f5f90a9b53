"""A command in namespaces of its own, which end with this process however it ends: what all testbeds stand on."""

from __future__ import annotations

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
        child.wait()
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue  # The terminal has told the process inside as well; it says how this ends.
