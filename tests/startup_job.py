"""Runs jobs for the tests of how jobs start: with a time limit, on hosts that are network namespaces, and nothing is left of them."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kill as killing
import patience

import run as runner

ROOT = runner.ROOT
MPIEXEC = str(ROOT / "dist/bin/mpiexec")
BUILD = ROOT / "build/startup"
LIMIT_S = patience.WATCHDOG_S
Cases = Iterator[tuple[str, Callable[[], None]]]


class Skip(Exception):
    """The machine can't do this."""


class Done:
    """How a run ended."""

    def __init__(self, code: int, text: str, seconds: float, report: dict) -> None:
        self.code, self.text, self.seconds, self.report = code, text, seconds, report


def check(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def mpiexec(*words: str, prefix: list[str] | None = None, limit_s: float = LIMIT_S, report: bool = False, **env: str) -> Done:
    """Runs a job to its end; afterwards nothing of it may be left."""
    mark = uuid.uuid4().hex
    file = BUILD / f"report-{mark}.json"
    extra = [f"--report-startup={file}"] if report else []
    begin = time.monotonic()
    process = subprocess.Popen(
        [*(prefix or []), MPIEXEC, *extra, *words], env={**os.environ, **env, runner.MARKER: mark}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        for pid in runner.marked_processes(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        text, _ = process.communicate()
        raise AssertionError(f"not over after {limit_s:.0f} s: {' '.join(words)}\n{text[-800:]}") from None
    seconds = time.monotonic() - begin
    patience.until(lambda: not runner.marked_processes(mark), 30)
    left = runner.marked_processes(mark)
    check(not left, f"left behind by {' '.join(words)}: {[killing.command_line(pid)[:3] for pid in left]}")
    told = json.loads(file.read_text()) if report and file.exists() else {}
    file.unlink(missing_ok=True)
    return Done(process.returncode, text, seconds, told)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[tuple[list[str], list[str]]]:
    """Network namespaces joined by a bridge: the words that let mpiexec run in the first and use all, and their names."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise Skip("network namespaces need root and iproute2")
    base = f"fs{os.getpid()}"
    names = [f"{base}-{i}" for i in range(count)]
    middle = f"{base}-m"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, stderr=subprocess.PIPE)

    try:
        for name in [middle, *names]:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", middle, "link", "add", "br0", "type", "bridge")
        ip("-n", middle, "link", "set", "br0", "up")
        for i, name in enumerate(names):
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"p{i}", "netns", middle)
            ip("-n", middle, "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"10.93.{os.getpid() % 250}.{i + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield ["ip", "netns", "exec", names[0]], names
    except subprocess.CalledProcessError as error:
        raise Skip(f"network namespaces: {error.stderr.decode(errors='replace').strip()}") from None
    finally:
        for name in [*names, middle]:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout.split()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


TEMPLATE = ["--launcher", "ip netns exec {host} {command}"]


def private_directories() -> set[str]:
    return {path for path in glob.glob("/tmp/ferrule-*") if os.path.isdir(os.path.join(path, "files"))}
