#!/usr/bin/env python3
"""Lanes on hosts with limited links (testbeds/lanes): small messages beside a bulk stream, what is said of bad settings, and what is left of the testbed.

    tests/lanes.py [-k WORD]        runs the cases whose name has WORD in it

Needs root; skipped with the reason where the machine can't. Bounds are wide, for busy machines: an idle machine is better than they ask by a factor.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testbeds/lanes"))
import cases
import patience
from startup_job import Done, check, mpiexec

import lane_bed
import run as runner

ROOT = runner.ROOT
FERRULE = str(ROOT / "dist/bin/ferrule")
PROGRAM = str(ROOT / "build/tests/lanes")
#: A stream of such messages occupies a link of 20 Mb/s for 0.1 s each.
BULK_BYTES = "262144"
SECONDS = "6"


def job(bed: lane_bed.Bed, *arguments: str, policy: str, lanes: str = "") -> Done:
    """bench/lanes.c with a rank on each host."""
    words = [*bed.job_options(1), "-n", str(len(bed.names)), PROGRAM, *arguments]
    return mpiexec(*words, prefix=bed.prefix("n1"), FERRULE_LOCALITY="node", FERRULE_LANE_POLICY=policy, FERRULE_LANES=lanes)


def round_trips(classes: bool, policy: str) -> list[float]:
    """Round trips of 8 bytes beside a stream on a link of 20 Mb/s, in ms and in order of length."""
    with lane_bed.Bed(mbit=20, classes=classes) as bed:
        done = job(bed, "latency", SECONDS, "2000", BULK_BYTES, "8", policy=policy)
        check(done.code == 0, f"{policy}: exit code {done.code}: {done.text[-600:]}")
        found = json.loads(done.text[done.text.index("{"):])
        check(found["bulk_mbit"] > 10, f"{policy}: the stream had only {found['bulk_mbit']} Mb/s of 20")
    return sorted(value / 1000 for value in found["samples"])


def small_beside_bulk() -> None:
    """Nine of ten with lanes of their own take less than half the time of the median of those that share a lane."""
    single = round_trips(True, "single")
    median = single[len(single) // 2]
    check(median > 50, f"with one lane the median is {median:.1f} ms: no queue has formed, so this test shows nothing")
    for classes in (True, False):
        own = round_trips(classes, "segregate")
        ninth = own[len(own) * 9 // 10]
        check(ninth * 2 < median, f"{'with' if classes else 'without'} classes on the link: 90 % within {ninth:.1f} ms, with one lane the median is {median:.1f}")


def bed_and_ranks_agree() -> None:
    """Each class's DSCP has a queue on the testbed's links, and the queues take no others."""
    said = subprocess.run([FERRULE, "info", "--lanes", "--json"], capture_output=True, text=True, check=True).stdout
    marks = {entry["dscp"] for entry in json.loads(said)["classes"]}
    taken = {dscp for queue in lane_bed.QUEUES for dscp in queue.dscp} - {0}
    check(marks == taken, f"ferrule info --lanes has DSCP {sorted(marks - taken)}, which no queue takes; queues take {sorted(taken - marks)}, which no class has")


def bad_settings() -> None:
    """The job ends before it starts to send, and says which setting was wrong."""
    with lane_bed.Bed() as bed:
        for lanes, policy, text in (("17", "", "FERRULE_LANES=17 is not auto or a number from 1 to 16"),
                                    ("", "segregat", "FERRULE_LANE_POLICY=segregat is none of single, distribute"),
                                    ("1", "segregate", "the lane policy segregate has 2 to 16")):
            done = job(bed, "bulk", "1", BULK_BYTES, policy=policy, lanes=lanes)
            check(done.code != 0 and text in done.text, f"{lanes} {policy}: exit code {done.code}: {done.text[-600:]}")


def bad_beds() -> None:
    """A testbed that can't be made says so, and leaves nothing."""
    for hosts, mbit, rails in ((1, 100, 1), (2, 100, 9), (2, 0, 1)):
        try:
            with lane_bed.Bed(hosts, mbit, rails=rails):
                raise AssertionError(f"{hosts} hosts, {mbit} Mb/s and {rails} rails were taken")
        except lane_bed.BedError as problem:
            check("can be had" in str(problem), str(problem))
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    check(not left, f"left behind: {left}")


def data_arrives() -> None:
    """The receiver checks each message of the streams of two pairs of hosts, over every policy."""
    with lane_bed.Bed(hosts=4) as bed:
        for policy in ("single", "distribute", "distribute:connection", "segregate", "segregate:traffic"):
            done = job(bed, "bulk", "2", BULK_BYTES, policy=policy)
            check(done.code == 0 and '"row": "bandwidth"' in done.text, f"{policy}: exit code {done.code}: {done.text[-600:]}")


def top_shows_lanes() -> None:
    """`ferrule top --lanes` has both classes of the sender, with the rate of the link for the stream."""
    with lane_bed.Bed(mbit=20) as bed:
        words = [*bed.prefix("n1"), str(ROOT / "dist/bin/mpiexec"), *bed.job_options(1), "-n", "2", PROGRAM, "latency", "600", "2000", BULK_BYTES, "8"]
        env = {**os.environ, "FERRULE_LOCALITY": "node", "FERRULE_LANE_POLICY": "segregate"}
        with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            def table() -> dict[str, list[str]]:
                said = subprocess.run([*bed.prefix("n1"), FERRULE, "top", "--lanes", "--once", str(running.pid)], capture_output=True, text=True)
                rows = (line.split() for line in said.stdout.splitlines())
                return {row[2]: row for row in rows if row[:1] == ["0"]}

            try:
                # RANK HOST CLASS LANES LOST PACKETS MiB Mbit/s WAITED ms EACH
                found: dict[str, list[str]] = {}
                def is_full() -> bool:
                    found.clear()
                    found.update(table())
                    return set(found) == {"latency", "bulk"} and float(found["bulk"][6]) > 5 and found["bulk"][7] != "-"
                check(patience.until(is_full, 60), f"rank 0's lanes: {found}")
                check(2 < float(found["bulk"][7]) < 60, f"the stream on a link of 20 Mb/s: {found['bulk']}")
                check(int(found["latency"][5]) > 0 and float(found["latency"][6]) < 1, f"the lane of small messages: {found['latency']}")
            finally:
                running.terminate()


def nothing_left() -> None:
    """The process that made the testbed is killed while a job runs in it: nothing of both is left."""
    mark = uuid.uuid4().hex
    env = {key: value for key, value in os.environ.items() if key != lane_bed.MARK}
    with subprocess.Popen([sys.executable, __file__, "--stay"], env={**env, runner.MARKER: mark}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as outer:
        assert outer.stdout
        line = outer.stdout.readline()
        check(line == "ready\n", f"the testbed said {line!r}")
        check(len(runner.marked_processes(mark)) > 3, "no job runs in the testbed")
        outer.send_signal(signal.SIGKILL)
    check(patience.until(lambda: not runner.marked_processes(mark), 30), f"left behind: {runner.marked_processes(mark)}")


def stay() -> int:
    """A testbed with a job that runs until it is killed."""
    if not lane_bed.is_inside():
        return lane_bed.enter()
    with lane_bed.Bed() as bed:
        words = [*bed.prefix("n1"), str(ROOT / "dist/bin/mpiexec"), *bed.job_options(1), "-n", "2", PROGRAM, "bulk", "600", BULK_BYTES]
        with subprocess.Popen(words, env={**os.environ, "FERRULE_LOCALITY": "node"}):
            patience.until(lambda: sum(bed.sent_bytes("n1").values()) > 1_000_000)
            print("ready", flush=True)
            signal.pause()
    return 0


CASES: dict[str, Callable[[], None]] = {
    "classes: the testbed's queues are those of ferrule info --lanes": bed_and_ranks_agree,
    "data: all policies on four hosts": data_arrives,
    "latency: small messages beside a bulk stream": small_beside_bulk,
    "settings: bad ones are told": bad_settings,
    "top: lanes of both classes": top_shows_lanes,
    "testbed: sizes that can't be": bad_beds,
    "testbed: nothing is left after SIGKILL": nothing_left,
}


def without_folder(case: Callable[[], None], _: pathlib.Path) -> None:
    case()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD")
    parser.add_argument("--stay", action="store_true", help="only make a testbed with a job, until killed")
    options = parser.parse_args()
    if options.stay:
        return stay()
    if reason := lane_bed.unavailable():
        print(f"skip  lanes: {reason}\nlanes: 0 passed, 0 failed, 1 skipped")
        return 0
    if not lane_bed.is_inside():
        pathlib.Path(PROGRAM).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", str(ROOT / "bench/lanes.c"), "-o", PROGRAM, "-lm"], check=True)
        return lane_bed.enter()
    return cases.run("lanes", [(name, functools.partial(without_folder, case)) for name, case in CASES.items() if options.k in name])



if __name__ == "__main__":
    sys.exit(main())
