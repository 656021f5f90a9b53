#!/usr/bin/env python3
"""tests/groups.py on groups of a small Makefile: counts, exit codes with and without -k, skips that are allowed or not, a build that fails.

Usage: tests/groups_test.py
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

import cases
import flaky
import groups

HERE = pathlib.Path(__file__).resolve().parent

MAKEFILE = """
.PHONY: build test ours cargo pytest plain bad skips whole leaves
build:
\t@[ -z "$(BUILD_FAILED)" ] || {{ echo "not tried again"; exit 1; }}
\t@echo built >> calls; {build}
ours: build
\t@printf 'ok   a\\nskip  b: no device\\nours: 3 passed, 0 failed, 1 skipped\\nmore: 2 passed, 0 failed, 0 skipped\\n'
cargo: build
\t@printf 'test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\\ntest result: ok. 2 passed; 0 failed; 0 ignored\\n'
pytest:
\t@printf 'SKIPPED [1] tests/net/test_x.py:20: no device\\n=== 7 passed, 1 skipped, 2 warnings in 3.21s ===\\n'
plain:
\t@printf 'pass   0.1 s  one\\nFAIL  two: wrong\\n'; exit 1
bad:
\t@echo 'bad: 1 passed, 1 failed, 0 skipped'; exit 1
quiet:
\t@true
whole:
\t@echo 'vm: 0 passed, 0 failed, 1 skipped: there is no QEMU'
leaves:
\t@sleep 60 & echo 'left: 1 passed, 0 failed, 0 skipped'
test:
\t@{python} {groups} --build out --skips skips.toml --make '$(MAKE)' {options} build $(TEST_GROUPS)
"""
BUDGET = '[[allowed]]\ngroup = "ours"\nskip = "b: no *"\nwhy = "there is none"\n'


class Bed:
    def __init__(self, place: pathlib.Path, build: str = "true", options: str = "") -> None:
        self.place = place
        (place / "Makefile").write_text(MAKEFILE.format(build=build, python=sys.executable, groups=HERE / "groups.py", options=options))
        (place / "skips.toml").write_text(BUDGET)

    def make(self, names: str, *words: str) -> tuple[int, str]:
        # This test runs under make itself, whose options are none of the inner one's.
        env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD_FAILED")}
        done = subprocess.run(["make", "-C", str(self.place), "--no-print-directory", *words, "test", f"TEST_GROUPS={names}"], capture_output=True, text=True,
                              timeout=100, env=env)
        return done.returncode, done.stdout + done.stderr

    def calls(self) -> int:
        return len((self.place / "calls").read_text().splitlines())


def row(text: str, name: str) -> list[str]:
    return next((line.split()[1:] for line in text.splitlines() if line.startswith(f"{name} ")), [])


def counts(place: pathlib.Path) -> None:
    bed = Bed(place)
    code, text = bed.make("ours cargo pytest quiet")
    assert code == 0, text
    assert row(text, "ours")[:4] == ["passed", "5", "0", "1"], text
    assert row(text, "cargo")[:4] == ["passed", "7", "0", "1"], text
    assert row(text, "pytest")[:4] == ["passed", "7", "0", "1"], text
    assert row(text, "quiet")[0] == "passed" and len(row(text, "quiet")) == 2, text
    assert row(text, "5")[:5] == ["groups", "passed", "19", "0", "3"], text
    assert "skipped in ours: b: no device" in text and "skipped in pytest: tests/net/test_x.py:20: no device" in text, text
    assert "make test: all passed" in text
    assert bed.calls() == 1, "the build was made for each group"
    assert "ours: 3 passed" in (place / "out/test-logs/ours.log").read_text()


def keeps_going(place: pathlib.Path) -> None:
    for words in (["-k"], ["-k", "-j2"], ["-ks"]):
        code, text = Bed(place).make("plain ours bad pytest", *words)
        assert code == 2, text
        assert row(text, "plain")[:4] == ["FAILED", "1", "1", "0"], text
        assert row(text, "bad")[:4] == ["FAILED", "1", "1", "0"] and row(text, "pytest")[0] == "passed", text
        assert "FAILED in plain: two: wrong" in text and "make test: FAILED" in text, text


def stops(place: pathlib.Path) -> None:
    code, text = Bed(place).make("ours bad pytest")
    assert code == 2 and row(text, "bad")[0] == "FAILED" and not row(text, "pytest"), text
    assert "1 groups have not run" in text, text


def variables(place: pathlib.Path) -> None:
    """A variable whose name has a k is no -k."""
    code, text = Bed(place).make("bad pytest", "kind=k")
    assert code == 2 and not row(text, "pytest"), text


def build_fails(place: pathlib.Path) -> None:
    bed = Bed(place, build="exit 1")
    code, text = bed.make("ours pytest cargo", "-k")
    assert code == 2 and [row(text, name)[0] for name in ("build", "ours", "pytest", "cargo")] == ["FAILED", "FAILED", "passed", "FAILED"], text
    assert bed.calls() == 1, "the build was tried again"


def strict(place: pathlib.Path) -> None:
    if why := groups.other_kind():
        print(f"skip  strict: {why}")
        return
    code, text = Bed(place, options="--strict").make("ours quiet")
    assert code == 0, text
    code, text = Bed(place, options="--strict").make("pytest whole", "-k")
    assert code == 2 and "not in tests/skips.toml: tests/net/test_x.py:20: no device" in text and "nothing of it ran" in text, text
    code, text = Bed(place, options="--strict").make("cargo")
    assert code == 2 and "not in tests/skips.toml: 1 without names" in text and "skipped in cargo: 1 without names" in text, text
    code, text = Bed(place).make("whole")
    assert code == 0 and row(text, "whole")[0] == "skipped", text


def time_limit(place: pathlib.Path) -> None:
    """A run that takes too long has failed if it is strict, and says so in any case."""
    code, text = Bed(place, options="--limit-s 0.001").make("ours")
    assert code == 0 and "make test: all passed" in text, text
    code, text = Bed(place, options="--strict --limit-s 0.001").make("quiet")
    assert code == 2 and "TOO LONG: all groups took 0:00 min" in text and "make test: FAILED" in text, text
    assert groups.total_time(2000, 3600) == "all groups took 33:20 min of 60:00; the goal is 40:00"
    assert groups.total_time(2500, 3600) == "all groups took 41:40 min of 60:00; that is 1:40 of the margin above 40:00"


def left_process(place: pathlib.Path) -> None:
    """What a group leaves behind holds its output open; the next group runs all the same."""
    begin = time.monotonic()
    code, text = Bed(place).make("leaves quiet")
    assert code == 0 and row(text, "leaves")[:4] == ["passed", "1", "0", "0"], text
    assert time.monotonic() - begin < 50, "the runner waited for it"


def junit(place: pathlib.Path) -> None:
    Bed(place).make("ours bad", "-k")
    suites = {suite.get("name"): suite for suite in xml.parse(place / "out/test-results.xml").getroot()}
    assert set(suites) == {"build", "ours", "bad"}
    assert (suites["ours"].get("tests"), suites["ours"].get("skipped")) == ("6", "1")
    assert suites["bad"].find("testcase/failure") is not None and suites["ours"].find("testcase/failure") is None
    assert [case.get("name") for case in suites["ours"]] == ["ours", "b: no device"]


def lines(place: pathlib.Path) -> None:
    """Lines as the runners print them."""
    for line, wanted in {
        "SKIP: this machine doesn't let us make network namespaces": ["this machine doesn't let us make network namespaces"],
        "skipped: the container testbed needs root": ["the container testbed needs root"],
        "skipped 4: only under ferrule: why: a, b": ["only under ferrule: why: a, b"],
        "skipped scale: 1,024 ranks (0.0 s): network namespaces need root": ["scale: 1,024 ranks: network namespaces need root"],
        "skip     0.0 s  a small /dev/shm: can't be made here": ["a small /dev/shm: can't be made here"],
        "skip     0.0 s  pt2pt/cancel_send n=2 1 200": [],
        "skip     0.0 s  coll/mixed_settings n=2 -n 2 : -n 1 a: b": [],
        "instructions: 0 passed, 0 failed, 5 skipped (no valgrind)": ["no valgrind"],
        "launchers: 40 passed, 0 failed, 1 skipped": [],
    }.items():
        group = groups.Group("x")
        group.read(line)
        assert group.skips == wanted, (line, group.skips)


def flaky_tests(place: pathlib.Path) -> None:
    """Failures are summed up by test, whatever differs in their lines."""
    cargo = "\nrunning 2 tests\n.F\nfailures:\n\n---- kill::late stdout ----\nno\n\nfailures:\n    kill::late\n    link::x\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n"
    for text, code, wanted in [
        ("FAIL     1.2 s  thread/x n=2 3\n  exit code 1\nferrule: 1 passed, 1 failed, 0 skipped\n", 1, ["thread/x n=2 3"]),
        ("FAIL security: relay: left behind 77: x\nFAIL  moment 12, rank: 3 left\n", 1, ["security: relay", "moment N, rank: N left"]),
        (cargo, 101, ["kill::late", "link::x"]),
        ("a panic without a name\n", 3, ["exit code 3"]),
        ("FAIL  it hung\n", None, ["it hung"]),
        ("", None, [f"no end after {flaky.LIMIT_S} s"]),
        ("FAIL  is only a word here\n", 0, []),
    ]:
        assert flaky.failures_of(text, code) == wanted, (text, flaky.failures_of(text, code))
    part = flaky.Part()
    for number, failures in enumerate([[], ["b", "a", "b"], ["a"]], 1):
        part.add(number, 30, failures)
    text = flaky.summary({"kill": part})
    assert text.splitlines()[1].split() == ["kill", "3", "2", "1:30"], text
    assert "FAIL kill: a: 2 of 3 runs, first in build/flaky/kill-2.log" in text and "b: 1 of 3 runs" in text and "flaky: 1 passed, 2 failed" in text, text


def main() -> int:
    each = (counts, keeps_going, stops, variables, build_fails, strict, time_limit, left_process, junit, lines, flaky_tests)
    return cases.run("groups", [(case.__name__, case) for case in each])


if __name__ == "__main__":
    sys.exit(main())
