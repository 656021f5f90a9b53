#!/usr/bin/env python3
"""Jobs whose ranks talk over UCX (libucp, over its TCP): between two hosts, on one host, without a usable library, and when processes are killed.

    tests/ucx.py [-k WORD] [--moments N]        runs the cases whose name has WORD in it; kills N processes (12)

Hosts are network namespaces, so cases with two of them need root. The programs of the other process tests run over UCX as variations of tests/testlist.toml.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases
import kill as killing
from startup_job import LIMIT_S, TEMPLATE, Done, Skip, check, hosts, mpiexec

import run as runner

ROOT = runner.ROOT
PROGRAMS = ("pt2pt/random_traffic", "pt2pt/large", "coll/bcast", "coll/reduce", "coll/vector", "rma/active", "rma/passive", "soak/traffic", "init/survive", "init/victim")
#: All functions that crates/ucx asks a library for.
FUNCTIONS = sorted(set(re.findall(r'"(uc[ps]_\w+)"', (ROOT / "crates/ucx/src/raw.rs").read_text())))
OVER_UCX = {"FERRULE_UCX": "on", "FERRULE_UCX_TRANSPORTS": "tcp", "FERRULE_WHY": "1"}
ONE_HOST = {**OVER_UCX, "FERRULE_CHANNELS": "ucx,tcp"}
TWO_LANES = {"FERRULE_LANES": "2", "FERRULE_LANE_POLICY": "segregate"}


def job(words: list[str], settings: dict[str, str], prefix: list[str] | None = None) -> Done:
    """Runs a job with these settings to its end."""
    return mpiexec(*words, prefix=prefix, limit_s=LIMIT_S, report=False, **settings)


def program(name: str) -> str:
    return str(ROOT / "build/tests" / name)


#: A short job.
SHORT = [program("soak/traffic"), "7", "2", "1"]


def channels(text: str) -> dict[tuple[int, int], str]:
    """The channel of each pair of ranks, as FERRULE_WHY tells it."""
    found = re.findall(r"why: +(\d+) → (\d+) +\S+ +([\w+]+)", text)
    return {(int(a), int(b)): channel for a, b, channel in found}


def expect_all(done: Done, channel: str, between: Callable[[int, int], bool]) -> None:
    """All went well, and these pairs used `channel`; there are some."""
    check(done.code == 0, f"exit code {done.code}: {done.text[-800:]}")
    pairs = {pair: used for pair, used in channels(done.text).items() if between(*pair) and used != "unused"}
    check(bool(pairs) and {used.split("+")[0] for used in pairs.values()} == {channel}, f"{channel} is expected, used are {pairs}: {done.text[-800:]}")


def between_hosts() -> None:
    """Messages of all sizes, collectives and windows of four ranks on two hosts, with one lane and with two."""
    with hosts(2) as (prefix, names):
        options = [*TEMPLATE, "-host", ",".join(f"{name}:2" for name in names), "-n", "4"]
        jobs = (("pt2pt/random_traffic",), ("pt2pt/large",), ("coll/bcast", "blocking"), ("coll/reduce", "nonblocking"), ("coll/vector", "persistent"), ("rma/active",),
                ("rma/passive",), ("soak/traffic", "5", "6", "2"))
        for words, more in [(words, more) for words in jobs for more in ({}, TWO_LANES) if not more or words[0] in ("soak/traffic", "rma/passive")]:
            done = job([*options, program(words[0]), *words[1:]], {**OVER_UCX, **more, "FERRULE_LOCALITY": "node"}, prefix)
            expect_all(done, "ucx", lambda a, b: a // 2 != b // 2)
            expect_all(done, "shm", lambda a, b: a // 2 == b // 2 and a != b)
            check(not more or re.search(r"lanes 0 latency \(\d+ packets.*1 bulk \(\d+ packets", done.text) is not None, f"no lanes in {done.text[-800:]}")


def on_one_host() -> None:
    """Ranks of a host that may not share memory; also with the transports that UCX chooses itself."""
    for more in ({}, {"FERRULE_UCX_TRANSPORTS": ""}, {"FERRULE_SPIN_US": "0", "FERRULE_YIELD_US": "0", "FERRULE_YIELD_OVERSUBSCRIBED_US": "0"}):
        for words in (("soak/traffic", "7", "6", "2"), ("rma/passive",)):
            expect_all(job(["-n", "3", program(words[0]), *words[1:]], {**ONE_HOST, **more}), "ucx", lambda a, b: a != b)


def fake_library(place: pathlib.Path, version: tuple[int, int, int], names: list[str]) -> str:
    """A library that tells this version and has functions of these names, which end the process."""
    body = "".join(f"void {name}(void) {{ abort(); }}\n" for name in names if name != "ucp_get_version")
    tell = "void ucp_get_version(unsigned *a, unsigned *b, unsigned *c) {{ *a = {}; *b = {}; *c = {}; }}\n".format(*version)
    source, target = place / "fake.c", place / f"libfake-{'.'.join(map(str, version))}-{len(names)}.so"
    source.write_text("#include <stdlib.h>\n" + tell + body)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    return str(target)


def without_ucx(place: pathlib.Path) -> None:
    """What keeps UCX from being used is told once on the host, or by `ferrule why`, and the job goes on over TCP."""
    text = place / "text.so"
    text.write_text("no library")
    libraries = {
        str(place / "missing.so"): "cannot open shared object file",
        str(text): "file too short|invalid ELF header",
        "libc.so.6": "it lacks uc[ps]_",
        fake_library(place, (1, 9, 0), FUNCTIONS): r"is UCX 1\.9\.0; supported are 1\.13 to 1\.22",
        fake_library(place, (2, 0, 0), FUNCTIONS): r"is UCX 2\.0\.0; supported are",
        fake_library(place, (1, 13, 0), FUNCTIONS[:5]): "it lacks uc[ps]_",
    }
    wrong = [({"FERRULE_UCX_LIBRARY": file}, words) for file, words in libraries.items()]
    wrong += [({"FERRULE_UCX_TRANSPORTS": "ib"}, "UCX"), ({"FERRULE_UCX_TRANSPORTS": "carrier_pigeon"}, "UCX"), ({"FERRULE_TCP_SECURITY": "mac"}, "FERRULE_TCP_SECURITY=mac"),
              ({**TWO_LANES, "FERRULE_UCX_SERVICE_LEVELS": "latency=99"}, "latency=99 is not CLASS=NUMBER")]
    for more, words in wrong:
        done = job(["-n", "3", *SHORT], {**ONE_HOST, **more})
        expect_all(done, "tcp", lambda a, b: a != b)
        told = [line for line in done.text.splitlines() if "FERRULE_UCX=on, but UCX can't be used" in line]
        check(len(told) == 1 and re.search(words, told[0]) is not None, f"{more}: one line with {words!r} is expected: {done.text[-1500:]}")
    done = job(["-n", "2", *SHORT], {**ONE_HOST, "FERRULE_UCX": "required", "FERRULE_UCX_LIBRARY": str(text)})
    check(done.code != 0 and "FERRULE_UCX=required, but UCX can't be used" in done.text, f"required: exit code {done.code}: {done.text[-800:]}")
    if not any(pathlib.Path("/sys/class/infiniband").glob("*")):
        done = job(["-n", "2", *SHORT], {**ONE_HOST, "FERRULE_UCX": "auto"})
        expect_all(done, "tcp", lambda a, b: a != b)
        check("ucx: this host has no RDMA devices" in done.text and "warning" not in done.text, f"auto: {done.text[-800:]}")


def unequal_ranks() -> None:
    """Ranks that can't use UCX with each other use TCP, in both directions, and say why."""
    for name, value, why in (("FERRULE_UCX", "off", "FERRULE_UCX is off|the peer doesn't use it"), ("FERRULE_UCX_PACKET_MAX", "131072", "FERRULE_UCX_PACKET_MAX")):
        done = job(["-n", "1", "-env", name, value, *SHORT, ":", "-n", "2", *SHORT], ONE_HOST)
        expect_all(done, "tcp", lambda a, b: a != b and 0 in (a, b))
        expect_all(done, "ucx", lambda a, b: a != b and 0 not in (a, b))
        check(re.search(rf"0 → 1 .*not .*ucx: .*({why})", done.text) is not None, f"{name}: {done.text[-800:]}")


# UCX's own TCP transport ends the process in an assertion (tcp_ep.c, seen with 1.13) if a peer dies while it connects with it.
UCX_ASSERTION = re.compile(r"tcp_ep\.c:\d+ +Assertion")
TRIES = 5


def peer_dies() -> None:
    """Survivors get an error, go on, and their log names the rank that died."""
    for attempt in range(TRIES):
        done = job(["--continue-on-failure", "-n", "4", program("init/survive"), "3"], ONE_HOST)
        if not UCX_ASSERTION.search(done.text):
            break
        print(f"again: UCX has failed an assertion of its own, {attempt + 1} of {TRIES} times", flush=True)
    dead = re.search(r"rank (\d+) \(pid \d+\) on \S+ was killed by SIGKILL", done.text)
    check(dead is not None and "the survivors agree" in done.text, f"exit code {done.code}: {done.text[-1500:]}")
    assert dead
    check(re.search(rf"(lost|:) rank {dead[1]} on \S+.*(reached over UCX|is gone)", done.text) is not None, f"rank {dead[1]} isn't named: {done.text[-1500:]}")


def kills(moments: int) -> None:
    """Ranks, agents and mpiexec are killed at random moments; nothing is left, and who was killed is told."""
    rng = random.Random(14)
    before = dict(os.environ)
    os.environ.update({**ONE_HOST, "FERRULE_WHY": "0"})
    try:
        outcomes = [killing.one_moment(runner.libraries()["ferrule"], rng, 3, [], []) for _ in range(moments)]
        complaints = [complaint for _, complaint in outcomes if complaint and not UCX_ASSERTION.search(complaint)]
    finally:
        os.environ.clear()
        os.environ.update(before)
    check(not complaints, "\n".join(complaints))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--moments", type=int, default=12)
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("FERRULE_")]:
        del os.environ[name]
    if subprocess.run(["ucx_info", "-v"], capture_output=True, check=False).returncode:
        print("skip  ucx: ucx_info doesn't run (Debian: ucx-utils)\nucx: 0 passed, 0 failed, 1 skipped")
        return 0
    broken = runner.compile_all(set(PROGRAMS), runner.libraries()["ferrule"], 2)
    if broken:
        print("\n".join(broken.values()))
        return 1
    ignoring = [("hosts: all kinds of traffic between two", between_hosts), ("one host: without shared memory", on_one_host), ("ranks that differ use TCP", unequal_ranks),
                ("deaths: survivors are told who died", peer_dies), (f"deaths: nothing is left of {options.moments} jobs", functools.partial(kills, options.moments))]
    all_cases: list[cases.Case] = [(name, functools.partial(lambda case, _: case(), case)) for name, case in ignoring]
    all_cases.append(("library: none, a wrong one, an unknown version, no devices", without_ucx))
    chosen = [(name, case) for name, case in all_cases if options.k in name]
    try:
        with hosts(2):
            pass
    except Skip as why:
        print(f"skip  hosts: {why}")
        chosen = [(name, case) for name, case in chosen if not name.startswith("hosts")]
    return cases.run("ucx", chosen)


if __name__ == "__main__":
    sys.exit(main())
