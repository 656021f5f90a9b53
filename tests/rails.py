#!/usr/bin/env python3
"""Lanes over TCP on limited links (testbeds/lanes): their marks, two rails at once, one rail cut under load. Needs root.

Usage: tests/rails.py
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "testbeds/lanes")]
import patience

import lane_bed

DIST = ROOT / "dist"
MBIT = 100


def expect(what: str, is_so: bool, seen: object) -> bool:
    print(f"{'ok' if is_so else 'FAILED'}: {what}" + ("" if is_so else f"; seen: {seen}"), flush=True)
    return is_so


class Job:
    """A stream of `seconds` from n1 to n2, of which the receiver checks each byte."""

    def __init__(self, bed: lane_bed.Bed, program: str, seconds: float, before: tuple[str, ...] = (), **settings: str) -> None:
        env = dict(os.environ, FERRULE_LOCALITY="node", **{f"FERRULE_{name}": value for name, value in settings.items()})
        command = [*bed.prefix("n1"), *before, str(DIST / "bin/mpiexec"), "-n", "2", *bed.job_options(1), program, f"{seconds:g}"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self) -> tuple[list[float], str]:
        """Mbit/s of each slice of 100 ms, and what else was said; none unless all was right."""
        said, _ = self.process.communicate(timeout=patience.WATCHDOG_S)
        slices = [float(rate) for rate in re.findall(r"^slice \d+ ([\d.]+)$", said, re.M)]
        rest = "\n".join(line for line in said.splitlines() if not line.startswith("slice "))
        is_right = self.process.returncode == 0 and re.search(r"^checked \d+$", said, re.M)
        return (slices if is_right else []), rest


def mean(slices: list[float]) -> float:
    """Of all but the first half second, in which the windows of the connections grow."""
    return sum(slices[5:]) / max(1, len(slices) - 5)


def two_rails(program: str) -> bool:
    with lane_bed.Bed(mbit=MBIT, classes=False, rails=2) as bed:
        one, said_one = Job(bed, program, 4, LANES="2", RAILS="off").end()
        two, said_two = Job(bed, program, 4, LANES="2").end()
        print(f"one rail {mean(one):.1f} Mbit/s, two {mean(two):.1f}: {mean(two) / max(1, mean(one)):.2f} times")
        good = expect("one rail carries one link's rate", bool(one) and mean(one) <= MBIT, said_one)
        good &= expect("two carry more than one link can", mean(two) > 1.25 * MBIT, (two, said_two))
        listed, said = Job(bed, program, 1, LANES="2", RAILS="eth1,eth7", LOG="debug").end()
        good &= expect("a list that names one interface is no rails, and what it lacks is told", bool(listed) and "eth7" in said and "uses eth" not in said, said)
        return good


def cut_rail(program: str) -> bool:
    with lane_bed.Bed(mbit=MBIT, classes=False, rails=2) as bed:
        job = Job(bed, program, 24, LANES="2", LOG="info")

        def cut() -> None:
            time.sleep(3)
            bed.cut("n2", 1)
            time.sleep(6)
            bed.mend("n2", 1)

        scissors = threading.Thread(target=cut)
        scissors.start()
        slices, said = job.end()
        scissors.join()
        good = expect("nothing is lost when a rail is cut", bool(slices), said)
        good &= expect("its link leaves it", "doesn't answer, eth0" in said, said)
        good &= expect("and comes back", "answers again" in said, said)
        return good & expect("both carry all again", mean(slices[-30:]) > 1.25 * MBIT, slices)


def marks(program: str) -> bool:
    with lane_bed.Bed(mbit=MBIT, classes=True) as bed:
        slices, said = Job(bed, program, 2, LANES="2", LANE_POLICY="segregate").end()
        sent = bed.sent_bytes("n1")
        good = expect("each lane leaves in the queue of its class", bool(slices) and sent["bulk"] > 1 << 16 and sent["latency"] > 0, (sent, said))
        good &= expect("and little without a mark", sent["rest"] < 1 << 16, sent)
        before = sent
        slices, said = Job(bed, program, 2, LANES="2", LANE_POLICY="segregate", LANE_DSCP="bulk=46").end()
        more = bed.sent_bytes("n1")["bulk"] - before["bulk"]
        good &= expect("FERRULE_LANE_DSCP changes that", bool(slices) and more < 1 << 16, (more, said))
        slices, said = Job(bed, program, 2, LANES="2", LANE_POLICY="segregate", LANE_PACING="latency=10Mbit,bulk=10Mbit").end()
        return good & expect("paced lanes send no faster", bool(slices) and mean(slices) < 30, (slices, said))


def refused(program: str) -> bool:
    with lane_bed.Bed(mbit=MBIT, classes=True) as bed:
        without = ("setpriv", "--bounding-set", "-net_admin,-net_raw")
        slices, said = Job(bed, program, 1, without, LANES="2", LANE_POLICY="segregate", LANE_PRIORITY="latency=7,bulk=7").end()
        refusals = said.count("SO_PRIORITY 7 of lanes of class latency can't be set: Operation not permitted")
        return expect("a refused mark is told once by each rank, and the job goes on", bool(slices) and refusals == 2 and said.count("can't be set") == 2, said)


def main() -> int:
    if why := lane_bed.unavailable():
        print(f"rails: 0 passed, 0 failed, 1 skipped: {why}")
        return 0
    if not lane_bed.is_inside():
        return lane_bed.enter()
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        program = f"{folder}/rails"
        subprocess.run([str(DIST / "bin/mpicc"), "-O2", "-o", program, str(ROOT / "tests/c/pt2pt/rails.c")], check=True)
        results = [two_rails(program), cut_rail(program), marks(program), refused(program)]
    print(f"rails: {results.count(True)} passed, {results.count(False)} failed, 0 skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
