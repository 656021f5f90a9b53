#!/usr/bin/env python3
"""Runs the parts of the tests that depend on time again and again, and says which test has failed how often. One failure is a defect.

Each round runs each part once; every second round beside programs that keep the processors busy, unless --calm. The output of a run that failed stays in build/flaky/PART-ROUND.log.

Usage: tests/flaky.py [--rounds 20] [--calm] [--list] [PART…]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import groups

ROOT = groups.ROOT
LOGS = ROOT / "build/flaky"
#: A part that takes longer hangs.
LIMIT_S = 1200
#: What it then has for cleaning up.
GRACE_S = 20

CARGO_TEST = ["cargo", "test", "--quiet"]
PARTS: dict[str, list[str]] = {
    "kill": [sys.executable, "tests/kill.py", "--moments", "25"],
    "diagnosis": [sys.executable, "tests/diagnosis.py"],
    "resources": [sys.executable, "tests/resources.py"],
    "environment": [sys.executable, "tests/environment.py"],
    "locality": [sys.executable, "tests/locality.py"],
    "startup": [sys.executable, "tests/startup.py"],
    "security": [sys.executable, "tests/security.py"],
    "programs": [sys.executable, "tests/run.py", "--lib", "ferrule", "thread/*", "init/*", "diagnosis/*", "pt2pt/reconnect", "pt2pt/cancel_send", "pt2pt/flood", "coll/barrier"],
    "launch": [*CARGO_TEST, "-p", "launch"],
    "channel": [*CARGO_TEST, "-p", "channel"],
}


@dataclasses.dataclass
class Part:
    """What the runs of one part have shown."""

    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    #: In how many runs a test has failed, and the first of them.
    tests: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def add(self, number: int, seconds: float, failures: list[str]) -> None:
        """One run; `failures` are the tests that failed."""
        self.runs, self.failed, self.seconds = self.runs + 1, self.failed + bool(failures), self.seconds + seconds
        for test in dict.fromkeys(failures):
            count, first = self.tests.get(test, (0, number))
            self.tests[test] = (count + 1, first)


def test_name(failure: str) -> str:
    """The name, and the beginning of what went wrong, without the numbers of this run."""
    name, _, rest = failure.partition(": ")
    what = re.sub(r"\d+(\.\d+)?", "N", rest.split(": ")[0])[:60]
    return re.sub(r"^moment \d+", "moment N", name) + (f": {what}" if what else "")


def failures_of(text: str, code: int | None) -> list[str]:
    """Names of the tests that failed, without what differs from run to run."""
    if code == 0:
        return []
    group = groups.Group("")
    for line in text.splitlines():
        group.read(line)
    named = [test_name(failure) for failure in group.failures]
    # cargo test --quiet lists the names, indented, after the last "failures:".
    listed = text.rpartition("\nfailures:\n")[2].split("\n\n")[0] if "\nfailures:\n" in text else ""
    named += [line.strip() for line in listed.splitlines() if line.startswith("    ")]
    return named or [f"no end after {LIMIT_S} s" if code is None else f"exit code {code}"]


@contextlib.contextmanager
def busy(how_many: int) -> Iterator[None]:
    """Programs that want a processor each."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(how_many)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def run(name: str, number: int) -> tuple[float, list[str]]:
    """Seconds, and which tests failed."""
    log, begin = LOGS / f"{name}-{number}.log", time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(PARTS[name], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        code: int | None = None
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for kind in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, kind)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(GRACE_S)
    failures = failures_of(log.read_text(errors="replace"), code)
    if not failures:
        log.unlink()
    return time.monotonic() - begin, failures


def summary(parts: dict[str, Part]) -> str:
    lines = [f"{'part':14} {'runs':>5} {'failed':>7} {'min':>7}"]
    lines += [f"{name:14} {part.runs:>5} {part.failed:>7} {groups.clock(part.seconds):>7}" for name, part in parts.items()]
    for name, part in parts.items():
        lines += [f"FAIL {name}: {test}: {count} of {part.runs} runs, first in build/flaky/{name}-{first}.log" for test, (count, first) in part.tests.items()]
    failed = sum(part.failed for part in parts.values())
    return "\n".join([*lines, f"flaky: {sum(part.runs for part in parts.values()) - failed} passed, {failed} failed, 0 skipped"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calm", action="store_true", help="keep no processor busy beside")
    parser.add_argument("--list", action="store_true", help="only names the parts")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:14} {' '.join(command[1:])}" for name, command in PARTS.items()))
        return 0
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there are no parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    parts = {name: Part() for name in options.parts or PARTS}
    try:
        for number in range(1, options.rounds + 1):
            load = 0 if options.calm or number % 2 else len(os.sched_getaffinity(0))
            with busy(load):
                for name, part in parts.items():
                    seconds, failures = run(name, number)
                    part.add(number, seconds, failures)
                    print(f"round {number}{' (busy)' if load else ''}: {name}: {seconds:.0f} s" + "".join(f"\n  FAIL {test}" for test in failures), flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(summary(parts))
    return int(any(part.failed for part in parts.values()))


if __name__ == "__main__":
    sys.exit(main())
