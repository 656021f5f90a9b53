#!/usr/bin/env python3
"""Runs the groups of `make test` one after the other, and says at the end what each did: passed, failed, skipped, seconds.

Each group is a target of make. Its output is shown as it comes and kept in build/test-logs/GROUP.log; counts are read from the closing lines of our runners, of cargo and
of pytest. build/test-results.xml has the same for programs that read JUnit. After a failure the other groups run only if make was called with -k.

--strict: on a machine of CI's kind, a skip that tests/skips.toml doesn't name is a failure, and so is a group of which nothing ran. More than LIMIT_MIN minutes for all are one on any machine.

Usage: tests/groups.py [--strict] [--make COMMAND] GROUP…
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: What a run of all groups on CI's machine may take, in minutes: a third of it is margin for slower machines.
LIMIT_MIN = 85
#: A process that outlives its group may hold the group's output open. It is not waited for any longer than this.
LEFT_OPEN_S = 5.0

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OURS = re.compile(r"\b(\d+) passed, (\d+) failed(?:, (\d+) skipped)?(.*)")
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
PYTEST = re.compile(r"^(?:=+ )?((?:\d+ (?:failed|passed|skipped|errors?|deselected|xfailed|xpassed|warnings?)(?:, )?)+) in [\d.]+s")
PYTEST_PART = re.compile(r"(\d+) (failed|passed|skipped|error)")
#: run.py's line of a single program. It lists what it has skipped by reason at the end.
PROGRAM = re.compile(r"^skip +[\d.]+ s +[\w/]+ n=\d")
#: With the reason after a colon.
SKIP = re.compile(r"^(?:skip|skipped|SKIP|SKIPPED)(?::\s*(.+)|\s+(.+: .+))$")
FAIL = re.compile(r"^(?:FAIL|FAILED|failed)(?::\s*|\s+)(.+)$|^(test .* \.\.\. FAILED)$")
PASS = re.compile(r"^(?:pass|ok)\s+\S")
#: Skips that are listed by reason: "skipped 4: why: names", and as pytest does it.
SEVERAL = re.compile(r"^\[?(\d+)(?:\]|:) ")
#: What differs from run to run in the line of a skip.
VARYING = re.compile(r"^\s*[\d.]+ s\s+|\s*\([\d.]+ s\)|^\d+: |^\[\d+\] ")


@dataclasses.dataclass
class Group:
    """What one group did."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    code: int = 0
    seconds: float = 0.0
    skips: list[str] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)
    #: Lines of single tests, for groups that end without a closing line.
    lines: list[int] = dataclasses.field(default_factory=lambda: [0, 0, 0])
    totals: int = 0

    def read(self, line: str) -> None:
        """Takes one line of output."""
        line = COLOUR.sub("", line).rstrip()
        if match := CARGO.match(line):
            self.add(*map(int, match.groups()))
        elif match := PYTEST.match(line):
            count = {what: int(number) for number, what in PYTEST_PART.findall(match[1])}
            self.add(count.get("passed", 0), count.get("failed", 0) + count.get("error", 0), count.get("skipped", 0))
        elif (match := OURS.search(line)) and not line.startswith(" "):
            self.add(int(match[1]), int(match[2]), int(match[3] or 0))
            if int(match[3] or 0) and match[4].strip(" :()"):
                self.skips.append(match[4].strip(" :()"))
        elif (match := SKIP.match(line)) and not PROGRAM.match(line):
            text = match[1] or match[2]
            several = SEVERAL.match(text)
            self.lines[2] += int(several[1]) if several else 1
            self.skips.append(VARYING.sub("", text))
        elif match := FAIL.match(line):
            self.lines[1] += 1
            self.failures.append(VARYING.sub("", match[1] or match[2]))
        elif PASS.match(line):
            self.lines[0] += 1

    def add(self, passed: int, failed: int, skipped: int) -> None:
        self.totals += 1
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped

    def close(self, code: int, seconds: float) -> None:
        self.code, self.seconds = code, seconds
        if not self.totals:
            self.add(*self.lines)
            self.totals = 0
        # What is skipped by name may be missing in the closing lines, as in those of runners that leave out a whole part.
        self.skipped = max(self.skipped, self.lines[2])

    @property
    def nothing_ran(self) -> bool:
        return self.skipped > 0 and not self.passed + self.failed

    def wrong(self, budget: list[dict], strict: bool) -> list[str]:
        """Why this group has failed; empty if it has not."""
        why = [f"exit code {self.code}"] if self.code else []
        if strict:
            why += ["nothing of it ran"] if self.nothing_ran else []
            why += [f"skipped, and not in tests/skips.toml: {skip}" for skip in dict.fromkeys(self.skips or self.unnamed) if not allowed(self.name, skip, budget)]
        return why

    @property
    def unnamed(self) -> list[str]:
        """Skips of which only the number is known: what cargo calls ignored."""
        return [] if self.skips or not self.skipped else [f"{self.skipped} without names"]


def allowed(group: str, skip: str, budget: list[dict]) -> bool:
    return any(entry["group"] == group and fnmatch.fnmatchcase(skip, entry["skip"]) for entry in budget)


def read_budget(path: pathlib.Path) -> list[dict]:
    """The skips that CI's machine may have: tables with `group`, `skip` (a pattern for the text) and `why`."""
    entries = tomllib.loads(path.read_text()).get("allowed", [])
    for entry in entries:
        if set(entry) != {"group", "skip", "why"}:
            raise ValueError(f"{path}: an entry has group, skip and why, not {sorted(entry)}")
    return list(entries)


def run(name: str, command: list[str], env: dict[str, str], logs: pathlib.Path) -> Group:
    """Runs one group; shows its output and keeps it."""
    group = Group(name)
    print(f"\n=== {name}", flush=True)
    begin = time.monotonic()
    with open(logs / f"{name}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        reader = threading.Thread(target=copy, args=(process, log, group), daemon=True)
        reader.start()
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            code = 130
        reader.join(LEFT_OPEN_S)
    group.close(code, time.monotonic() - begin)
    return group


def copy(process: subprocess.Popen[bytes], log: object, group: Group) -> None:
    for line in process.stdout or ():
        # The group's output is read to its end even if nobody looks at ours any more.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        try:
            log.write(line)  # type: ignore[attr-defined]
        except ValueError:  # The group has ended, what holds its output has not.
            return
        group.read(line.decode(errors="replace"))


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def table(groups: list[Group], wrong: dict[str, list[str]]) -> str:
    """The summary for people."""
    def row(name: str, state: str, counts: tuple[object, object, object], seconds: float) -> str:
        return f"{name:26} {state:8} {counts[0]:>7} {counts[1]:>7} {counts[2]:>7} {clock(seconds):>7}"

    lines = [f"{'group':26} {'':8} {'passed':>7} {'failed':>7} {'skipped':>7} {'min':>7}"]
    for group in groups:
        state = "FAILED" if wrong[group.name] else "skipped" if group.nothing_ran else "passed"
        counted = group.passed + group.failed + group.skipped > 0
        counts = (group.passed, group.failed, group.skipped) if counted else ("", "", "")
        lines.append(row(group.name, state, counts, group.seconds))
    bad = sum(bool(why) for why in wrong.values())
    seconds = sum(group.seconds for group in groups)
    sums = (sum(g.passed for g in groups), sum(g.failed for g in groups), sum(g.skipped for g in groups))
    lines.append(row(f"{len(groups)} groups", f"{bad} failed" if bad else "passed", sums, seconds))
    return "\n".join(lines)


def total_time(seconds: float, limit_s: float) -> str:
    """How long all took, and whether that is within the limit and its margin."""
    took, goal = f"all groups took {clock(seconds)} min", limit_s * 2 / 3
    if seconds > limit_s:
        return f"TOO LONG: {took}; the limit is {clock(limit_s)}, the goal {clock(goal)}"
    return f"{took} of {clock(limit_s)}" + (f"; that is {clock(seconds - goal)} of the margin above {clock(goal)}" if seconds > goal else f"; the goal is {clock(goal)}")


def details(groups: list[Group], wrong: dict[str, list[str]]) -> str:
    lines = []
    for group in groups:
        lines += [f"skipped in {group.name}: {skip[:300]}" for skip in dict.fromkeys(group.skips or group.unnamed)]
    for group in groups:
        if wrong[group.name]:
            lines += [f"FAILED in {group.name}: {why[:300]}" for why in [*dict.fromkeys(group.failures), *wrong[group.name]]]
    return "\n".join(lines)


def junit(groups: list[Group], wrong: dict[str, list[str]]) -> xml.ElementTree:
    """A suite for each group: a case for the group as a whole, one for each skip that has a name."""
    top = xml.Element("testsuites", time=f"{sum(g.seconds for g in groups):.1f}")
    for group in groups:
        suite = xml.SubElement(top, "testsuite", name=group.name, tests=str(group.passed + group.failed + group.skipped), failures=str(group.failed),
                               skipped=str(group.skipped), time=f"{group.seconds:.1f}")
        case = xml.SubElement(suite, "testcase", classname=group.name, name=group.name, time=f"{group.seconds:.1f}")
        if wrong[group.name]:
            failure = xml.SubElement(case, "failure", message=plain("; ".join(wrong[group.name])))
            failure.text = plain("\n".join(group.failures))
        for skip in dict.fromkeys(group.skips):
            xml.SubElement(xml.SubElement(suite, "testcase", classname=group.name, name=plain(skip)), "skipped", message=plain(skip))
    xml.indent(top)
    return xml.ElementTree(top)


def plain(text: str) -> str:
    """Without the control characters that XML can't hold."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", "?", text)


def keeps_going() -> bool:
    """Whether make was called with -k: the letters of short options come first in MAKEFLAGS."""
    words = os.environ.get("MAKEFLAGS", "").split()
    return bool(words) and not words[0].startswith("-") and "=" not in words[0] and "k" in words[0]


def other_kind() -> str:
    """Why this is not a machine of CI's kind (see tests/skips.toml); empty if it is."""
    system = pathlib.Path("/etc/os-release")
    if not system.exists() or not re.search(r'^VERSION_ID="?12"?$', system.read_text(), re.M) or "ID=debian" not in system.read_text().split():
        return "not Debian 12"
    if os.uname().machine != "x86_64":
        return "not x86-64"
    if os.geteuid() != 0:
        return "not root"
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    return "no namespaces" if subprocess.run(unshare, capture_output=True).returncode else ""


def run_all(names: list[str], make: list[str], build: pathlib.Path, budget: list[dict], strict: bool, limit_s: float) -> int:
    """Runs the groups. `strict`: skips are held against the budget. `limit_s`: what all may take; 0 is no limit."""
    logs = build / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    groups: list[Group] = []
    wrong: dict[str, list[str]] = {}
    more: list[str] = []
    env = dict(os.environ)
    for name in names:
        group = run(name, [*make, "--no-print-directory", *more, name], env, logs)
        groups.append(group)
        wrong[name] = group.wrong(budget, strict)
        if name == "build":
            # The others need it: it is not made again for each of them, and not tried again if it has failed.
            if group.code:
                env["BUILD_FAILED"] = "1"
            else:
                more = ["-o", "build"]
        if group.code == 130 or wrong[name] and not keeps_going():
            break
    junit(groups, wrong).write(build / "test-results.xml", encoding="unicode", xml_declaration=True)
    for text in (details(groups, wrong), table(groups, wrong)):
        print(f"\n{text}" if text else "", flush=True)
    left, seconds = len(names) - len(groups), sum(group.seconds for group in groups)
    if left:
        print(f"{left} groups have not run (make -k runs all)")
    print(total_time(seconds, limit_s or LIMIT_MIN * 60))
    failed = left > 0 or any(wrong.values()) or 0 < limit_s < seconds
    print("make test: FAILED" if failed else "make test: all passed", flush=True)
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--make", default="make")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help=argparse.SUPPRESS)
    parser.add_argument("--limit-s", type=float, default=LIMIT_MIN * 60, help=argparse.SUPPRESS)
    parser.add_argument("--skips", type=pathlib.Path, default=ROOT / "tests/skips.toml", help=argparse.SUPPRESS)
    parser.add_argument("groups", nargs="+")
    options = parser.parse_args()
    other = other_kind() if options.strict else ""
    if other:
        print(f"Skips are not held against tests/skips.toml here: {other}.", flush=True)
    return run_all(options.groups, shlex.split(options.make), options.build, read_budget(options.skips), options.strict and not other,
                   options.limit_s if options.strict else 0)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A thread may still read what a process that was left behind writes.
    os._exit(code)
